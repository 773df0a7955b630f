//! `Flaky` causes exactly the faults that are set.

use std::time::{Duration, Instant};

use ibid_storage::fault::{Counts, Damage, Flaky, ObjectFault};
use ibid_storage::{ErrorKind, Memory, Name, Operation, Storage};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn place() -> Flaky<Memory> {
    let memory = Memory::new();
    memory.put(&name("f/a"), &[b"aaaa"]).unwrap();
    memory.put(&name("f/b"), &[b"bbbbbb"]).unwrap();
    Flaky::new(memory)
}

fn listed(place: &dyn Storage) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    place
        .list("f", &mut |name, size| found.push((name.to_string(), size)))
        .unwrap();
    found
}

#[test]
fn only_the_chosen_call_fails() {
    let place = place();
    place.fail(Operation::Get, 1, ObjectFault::Before(ErrorKind::Io));
    assert!(place.get(&name("f/a"), 10).is_ok());
    assert_eq!(place.size(&name("f/a")).unwrap(), 4);
    assert_eq!(place.get(&name("f/a"), 10).unwrap_err().kind(), ErrorKind::Io);
    assert!(place.get(&name("f/a"), 10).is_ok());
    place.fail_always(Operation::Size, ObjectFault::Before(ErrorKind::PermissionDenied));
    assert!((0..3).all(|_| place.size(&name("f/a")).unwrap_err().kind() == ErrorKind::PermissionDenied));
    place.heal();
    assert!(place.size(&name("f/a")).is_ok());
}

#[test]
fn a_lost_answer_is_not_a_lost_object() {
    let place = place();
    place.fail(Operation::Put, 0, ObjectFault::After(ErrorKind::Io));
    assert_eq!(place.put(&name("f/c"), &[b"c"]).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(
        place.put(&name("f/c"), &[b"c"]).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    place.fail(Operation::Put, 0, ObjectFault::Before(ErrorKind::Io));
    assert_eq!(place.put(&name("f/d"), &[b"d"]).unwrap_err().kind(), ErrorKind::Io);
    place.put(&name("f/d"), &[b"d"]).unwrap();
}

#[test]
fn damage_is_shown_by_every_call_and_healed() {
    let place = place();
    let a = name("f/a");
    let mut buffer = [0; 2];
    place.damage(&a, Damage::FlipBit(8));
    assert_eq!(place.get(&a, 10).unwrap(), b"a`aa");
    place.read_at(&a, 1, &mut buffer).unwrap();
    assert_eq!(&buffer, b"`a");
    place.damage(&a, Damage::Truncate(2));
    assert_eq!(
        (place.get(&a, 10).unwrap().as_slice(), place.size(&a).unwrap()),
        (b"aa".as_slice(), 2)
    );
    assert_eq!(
        place.read_at(&a, 1, &mut buffer).unwrap_err().kind(),
        ErrorKind::Truncated
    );
    assert_eq!(listed(&place), [("f/a".to_owned(), 2), ("f/b".to_owned(), 6)]);
    place.damage(&a, Damage::Hide);
    assert_eq!(place.get(&a, 10).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(listed(&place), [("f/b".to_owned(), 6)]);
    place.swap(&a, &name("f/b"));
    assert_eq!(place.get(&a, 10).unwrap(), b"bbbbbb");
    assert_eq!(place.get(&name("f/b"), 10).unwrap(), b"aaaa");
    place.heal();
    assert_eq!(place.get(&a, 10).unwrap(), b"aaaa");
}

#[test]
fn a_replayed_object_outlives_its_deletion() {
    let place = place();
    let a = name("f/a");
    place.replay(&a).unwrap();
    place.delete(&a).unwrap();
    place.put(&a, &[b"new"]).unwrap();
    assert_eq!(place.get(&a, 10).unwrap(), b"aaaa");
    assert_eq!(place.inner().get(&a, 10).unwrap(), b"new");
}

#[test]
fn calls_and_bytes_are_counted() {
    let place = place();
    place.get(&name("f/a"), 10).unwrap();
    place.get(&name("f/none"), 10).unwrap_err();
    place.read_at(&name("f/b"), 1, &mut [0; 3]).unwrap();
    place.put(&name("f/c"), &[b"12", b"345"]).unwrap();
    place.put(&name("f/c"), &[b"12", b"345"]).unwrap_err();
    place.size(&name("f/c")).unwrap();
    place.settle(&name("f/c")).unwrap();
    place.delete(&name("f/c")).unwrap();
    listed(&place);
    let expected = Counts {
        put: 2,
        get: 2,
        read_at: 1,
        size: 1,
        list: 1,
        delete: 1,
        settle: 1,
        bytes_read: 7,
        bytes_written: 5,
    };
    assert_eq!(place.counts(), expected);
}

#[test]
fn delayed_calls_wait() {
    let place = place();
    place.delay(Operation::Size, Duration::from_millis(30));
    let start = Instant::now();
    place.size(&name("f/a")).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(30));
}
