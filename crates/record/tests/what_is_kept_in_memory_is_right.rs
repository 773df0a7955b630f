//! Latest versions that were read stay in memory. A reader gets what the store has all the same.

use std::ops::ControlFlow;

use ibid_record::replicate::{Receiver, Sender};
use ibid_record::{Durability, Options, Store, Versions};

/// Reads the latest version twice, so that the second time it comes from memory.
macro_rules! read_twice {
    ($from:expr, $key:expr) => {{
        let read = || $from.get($key).unwrap().map(|body| String::from_utf8(body).unwrap());
        let first = read();
        assert_eq!(read(), first);
        first
    }};
}

fn compact(store: &Store) {
    store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
}

fn options(oplog: bool) -> Options {
    Options {
        durability: Durability::None,
        oplog,
        ..Options::default()
    }
}

fn take_all(from: &Store, to: &Store) {
    let (mut sender, mut receiver) = (Sender::new(from).unwrap(), Receiver::new(to).unwrap());
    let mut answers = 0;
    while !receiver
        .take(&sender.answer(&receiver.ask().unwrap()).unwrap())
        .unwrap()
        .is_current()
    {
        answers += 1;
        assert!(answers < 1000, "it gets nowhere");
    }
}

#[test]
fn each_reader_sees_the_version_of_its_moment() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), options(false)).unwrap();
    for (name, versions) in [("kept", Versions::Kept), ("latest", Versions::Latest)] {
        let pages = store.namespace(name, versions).unwrap();
        pages.put(b"ibid", b"in the same place").unwrap();
        compact(&store);
        assert_eq!(read_twice!(pages, b"ibid").as_deref(), Some("in the same place"));
        let before = store.snapshot().unwrap();
        pages.put(b"ibid", b"in the very same place").unwrap();
        compact(&store);
        assert_eq!(read_twice!(pages, b"ibid").as_deref(), Some("in the very same place"));
        assert_eq!(
            before.get(&pages, b"ibid").unwrap().as_deref(),
            Some(&b"in the same place"[..])
        );
        pages.delete(b"ibid").unwrap();
        assert_eq!(read_twice!(pages, b"ibid"), None);
        pages.put(b"ibid", b"again").unwrap();
        compact(&store);
        assert_eq!(read_twice!(pages, b"ibid").as_deref(), Some("again"));
    }
}

#[test]
fn a_store_that_takes_over_what_another_has_forgets_what_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let one = Store::open(&folder.path().join("one"), options(true)).unwrap();
    let pages = one.namespace("pages", Versions::Kept).unwrap();
    pages.put(b"ibid", b"in the same place").unwrap();
    let two = Store::open(&folder.path().join("two"), options(false)).unwrap();
    two.follow().unwrap();
    take_all(&one, &two);
    two.promote().unwrap();

    // Each writes a record of the same number, as the same version of the same key.
    pages.put(b"ibid", b"what nobody else has").unwrap();
    compact(&one);
    assert_eq!(read_twice!(pages, b"ibid").as_deref(), Some("what nobody else has"));
    let held = one.snapshot().unwrap();
    let promoted = two.namespace("pages", Versions::Kept).unwrap();
    promoted.put(b"ibid", b"what was promoted").unwrap();
    let numbers = [&pages, &promoted].map(|pages| pages.versions(b"ibid").unwrap());
    assert_eq!(numbers[0], numbers[1]);

    one.follow().unwrap();
    take_all(&two, &one);
    // Who began to read before goes on with what there was, and leaves nothing of it behind.
    assert_eq!(
        held.get(&pages, b"ibid").unwrap().as_deref(),
        Some(&b"what nobody else has"[..])
    );
    compact(&one);
    assert_eq!(read_twice!(pages, b"ibid").as_deref(), Some("what was promoted"));
}
