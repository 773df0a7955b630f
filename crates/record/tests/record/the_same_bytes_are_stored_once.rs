//! A body that the latest versions of several keys have is stored whole once, whichever key got it first, in whatever
//! order keys get other versions, and after the store was closed and opened again. Reading one of them takes few other
//! records.
//!
//! `IBID_RECORD_CASES=1000` runs more histories.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::Duration;

use ibid_record::{Encoding, Latest, Options, Store, Versions};
use proptest::prelude::*;

const KEYS: u8 = 30;
const BODIES: u8 = 6;
/// Records that are read at most for one of several copies.
const COPIES_IN_A_ROW: u64 = 8;

#[derive(Debug, Clone)]
enum Action {
    Put { key: u8, body: u8 },
    Encode,
    Compact,
    Reopen,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        20 => (0..KEYS, 0..BODIES).prop_map(|(key, body)| Action::Put { key, body }),
        2 => Just(Action::Encode),
        1 => Just(Action::Compact),
        1 => Just(Action::Reopen),
    ]
}

fn body(number: u8) -> Vec<u8> {
    // Some resemble each other.
    let mut body = crate::common::noise(2000, u32::from(number) / 2);
    body[1000] = number;
    body
}

fn cases() -> u32 {
    let cases = std::env::var("IBID_RECORD_CASES");
    cases.map_or(64, |cases| cases.parse().expect("a number of cases"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn whatever_keys_get_it_in_whatever_order(actions in prop::collection::vec(action(), 1..150)) {
        let folder = crate::common::folder();
        let options = Options::default().with_encoding(Encoding::default().with_idle_after(Duration::ZERO));
        let mut store = Store::open(folder.path(), options).unwrap();
        let mut pages = store.namespace("pages", Versions::Kept).unwrap();
        pages.set_latest_as(Latest::Shared).unwrap();
        let mut expected: HashMap<u8, Vec<u8>> = HashMap::new();
        for action in actions {
            match action {
                Action::Put { key, body: number } => {
                    pages.put(&[key], &body(number)).unwrap();
                    expected.entry(key).or_default().push(number);
                }
                Action::Encode => store.finish_encoding().unwrap(),
                Action::Compact => drop(store.compact(&mut |_| ControlFlow::Continue(())).unwrap()),
                Action::Reopen => {
                    // What is not encoded is not lost, but may be found only later.
                    store.finish_encoding().unwrap();
                    drop((pages, store));
                    store = Store::open(folder.path(), options).unwrap();
                    pages = store.find_namespace("pages").unwrap().unwrap();
                }
            }
        }
        store.finish_encoding().unwrap();
        for (key, versions) in &expected {
            for (at, &number) in versions.iter().enumerate() {
                let read = pages.get_version(&[*key], at as u32 + 1).unwrap();
                prop_assert!(read == Some(body(number)), "version {} of {key}", at + 1);
            }
        }
        let found = store.statistics(&mut |_| ControlFlow::Continue(())).unwrap();
        let found = &found.namespaces[0];
        let bodies: HashSet<u8> = expected.values().flatten().copied().collect();
        prop_assert!(
            found.whole.count <= bodies.len() as u64,
            "{} are whole, of {} bodies", found.whole.count, bodies.len()
        );
        prop_assert!(found.latest_retrievals.max() <= COPIES_IN_A_ROW, "{}", found.latest_retrievals.max());
        prop_assert!(store.verify(&mut |_| ControlFlow::Continue(())).unwrap().is_clean());
    }
}
