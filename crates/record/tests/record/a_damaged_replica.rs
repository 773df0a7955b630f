//! A replica gets missing or damaged bodies from its primary, or following ends with an error that
//! names them. No body is guessed.

use std::ops::ControlFlow;
use std::path::Path;

use ibid_record::engine::Table;
use ibid_record::replicate::{Receiver, Sender};
use ibid_record::{Encoding, Error, Options, Store, Versions};

use crate::common::{entries, folder, set, with_engine};

fn options(encode: bool, oplog: bool) -> Options {
    let encoding = Encoding::default().with_enabled(encode);
    Options::default().with_encoding(encoding).with_oplog(oplog)
}

/// Follows the primary until the replica has everything.
fn follow(primary: &Store, replica: &Path) -> Result<Store, Error> {
    let store = Store::open(replica, Options::default())?;
    store.follow()?;
    let (mut sender, mut receiver) = (Sender::new(primary)?, Receiver::new(&store)?);
    for _ in 0..100 {
        if receiver.take(&sender.answer(&receiver.ask()?)?)?.is_current() {
            return Ok(store);
        }
    }
    panic!("it gets nowhere");
}

fn body(version: u32) -> Vec<u8> {
    [crate::common::noise(4000, 1), version.to_be_bytes().to_vec()].concat()
}

/// Returns a primary with one version of a key, after a replica has followed it and was closed.
fn begun(folder: &Path, encode: bool) -> Store {
    let primary = Store::open(folder.join("primary"), options(encode, true)).unwrap();
    let pages = primary.namespace("pages", Versions::Kept).unwrap();
    pages.put(b"ibid", &body(1)).unwrap();
    drop(follow(&primary, &folder.join("replica")).unwrap());
    primary
}

/// Changes a byte of the only record, or removes it.
fn harm(replica: &Path, remove: bool) {
    with_engine(replica, |engine| {
        let (key, mut value) = entries(engine, Table::Records).remove(0);
        value[2000] ^= 1;
        set(engine, Table::Records, &key, (!remove).then_some(&value[..]));
    });
}

#[test]
fn a_delta_of_a_damaged_record_is_sent_whole() {
    for remove in [false, true] {
        let folder = folder();
        let primary = begun(folder.path(), false);
        let replica = folder.path().join("replica");
        harm(&replica, remove);
        let pages = primary.find_namespace("pages").unwrap().unwrap();
        pages.put(b"ibid", &body(2)).unwrap();
        let mut sender = Sender::new(&primary).unwrap();
        {
            let store = Store::open(&replica, Options::default()).unwrap();
            let receiver = Receiver::new(&store).unwrap();
            sender.answer(&receiver.ask().unwrap()).unwrap();
        }
        assert_eq!(sender.traffic().deltas, 1, "it is not a delta that is needed here");

        let store = follow(&primary, &replica).unwrap();
        let copy = store.find_namespace("pages").unwrap().unwrap();
        assert_eq!(copy.get(b"ibid").unwrap(), Some(body(2)));
        // The damage is not repaired, and it is still reported.
        assert!(matches!(copy.get_version(b"ibid", 1), Err(Error::Damaged { .. })));
        let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
        assert!(!found.faults.is_empty());
    }
}

#[test]
fn a_delta_that_can_not_be_made_ends_the_following() {
    for remove in [false, true] {
        let folder = folder();
        let primary = begun(folder.path(), true);
        let replica = folder.path().join("replica");
        harm(&replica, remove);
        let pages = primary.find_namespace("pages").unwrap().unwrap();
        pages.put(b"ibid", &body(2)).unwrap();
        primary.finish_encoding().unwrap();
        // The first version becomes a delta on the primary, and the replica would repeat that.
        for _ in 0..2 {
            let ended = follow(&primary, &replica).err();
            assert!(matches!(ended, Some(Error::Damaged { .. })), "{ended:?}");
        }
        // A new replica gets everything.
        let store = follow(&primary, &folder.path().join("another")).unwrap();
        let copy = store.find_namespace("pages").unwrap().unwrap();
        for version in 1..=2 {
            assert_eq!(copy.get_version(b"ibid", version).unwrap(), Some(body(version)));
        }
        let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
        assert!(found.faults.is_empty(), "{:?}", found.faults);
    }
}
