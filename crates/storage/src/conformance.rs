//! The tests that every implementation of [`Storage`] passes.
//!
//! The module is public, so that implementations in other crates can run them:
//!
//! ```
//! use ibid_storage::{Memory, conformance};
//! conformance::run(|| Box::new(Memory::new()));
//! ```

use std::collections::BTreeMap;

use crate::{Error, ErrorKind, Name, Storage};

const NO_LIMIT: u64 = u64::MAX;

/// Checks all promises of [`Storage`] except durability, which takes a disk that fails. `make`
/// returns a new, empty storage each time.
///
/// # Panics
/// If a promise is not kept; the message says which.
pub fn run(make: impl Fn() -> Box<dyn Storage>) {
    put_objects_can_be_read(&*make());
    an_absent_object_is_not_found(&*make());
    nothing_is_overwritten(&*make());
    a_limit_is_kept(&*make());
    parts_can_be_read(&*make());
    reading_past_the_end_is_truncated(&*make());
    a_folder_is_listed(&*make());
    folders_are_listed_together(&*make());
    a_list_may_call_again(&*make());
    an_impossible_folder_is_refused(&*make());
    existing_objects_can_be_settled(&*make());
    deleted_objects_are_gone(&*make());
    several_objects_are_deleted_at_once(&*make());
    a_name_is_not_both_object_and_folder(&*make());
    errors_say_where(&*make());
    one_of_many_writers_wins(&*make());
    threads_do_not_disturb_each_other(&*make());
}

fn name(text: &str) -> Name {
    Name::new(text).expect("the suite uses valid names")
}

#[track_caller]
fn assert_kind<T>(result: Result<T, Error>, kind: ErrorKind) {
    match result {
        Ok(_) => panic!("expected an error of kind {kind:?}, got success"),
        Err(error) => assert_eq!(error.kind(), kind, "{error}"),
    }
}

/// Checks the result of deleting or settling what is not there: an error of this kind, or nothing where a storage does
/// not look.
#[track_caller]
fn assert_absent(place: &dyn Storage, result: Result<(), Error>, kind: ErrorKind) {
    match place.tells_absence() {
        true => assert_kind(result, kind),
        false => result.expect("it does not look"),
    }
}

fn list(place: &dyn Storage, folder: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let each = &mut |name: Name, size| {
        assert_eq!(found.insert(name.to_string(), size), None, "{name} was listed twice");
    };
    place.list(folder, each).expect("a folder can be listed");
    found
}

fn put_objects_can_be_read(place: &dyn Storage) {
    let large: Vec<u8> = (0..3_000_000_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let many: Vec<&[u8]> = large.chunks(700).collect(); // more parts than one system call takes
    let longest = format!("{}/{}", "a".repeat(128), "b".repeat(126));
    let check = |text: &str, parts: &[&[u8]], whole: &[u8]| {
        place.put(&name(text), parts).unwrap_or_else(|error| panic!("{error}"));
        assert!(
            place.get(&name(text), NO_LIMIT).expect("it was stored") == whole,
            "{text} reads back differently"
        );
        assert_eq!(
            place.size(&name(text)).expect("it was stored"),
            whole.len() as u64,
            "size of {text}"
        );
    };
    check("empty", &[], b"");
    check("empty-parts", &[b"", b""], b"");
    check("one", &[b"one"], b"one");
    check("two/parts", &[b"two ", b"parts"], b"two parts");
    check("a/b/c/with-gaps_0.9", &[b"", b"x", b"", b"", b"y", b""], b"xy");
    check("large", &many, &large);
    check(&longest, &[b"long"], b"long");
}

fn an_absent_object_is_not_found(place: &dyn Storage) {
    place.put(&name("here/too"), &[b"x"]).expect("an object can be stored");
    // A name never stored, in a missing folder, of a folder, below an object, and a prefix of a
    // name.
    for text in ["no", "no/such/object", "here", "here/too/deep", "here/to"] {
        let absent = name(text);
        // A folder may be something else than nothing.
        let kind = match place.size(&absent).map_err(|error| error.kind()) {
            Err(ErrorKind::NotAnObject) if text == "here" => ErrorKind::NotAnObject,
            _ => ErrorKind::NotFound,
        };
        assert_kind(place.get(&absent, NO_LIMIT), kind);
        assert_kind(place.read_at(&absent, 0, &mut [0; 1]), kind);
        assert_kind(place.read_at(&absent, 0, &mut []), kind);
        assert_kind(place.size(&absent), kind);
        assert_absent(place, place.settle(&absent), kind);
        assert_absent(place, place.delete(&absent), ErrorKind::NotFound);
    }
    assert_eq!(place.get(&name("here/too"), NO_LIMIT).expect("it was stored"), b"x");
}

fn nothing_is_overwritten(place: &dyn Storage) {
    let object = name("folder/object");
    place.put(&object, &[b"first"]).expect("an object can be stored");
    assert_kind(place.put(&object, &[b"second, longer"]), ErrorKind::AlreadyExists);
    assert_kind(place.put(&object, &[b"first"]), ErrorKind::AlreadyExists);
    assert_kind(place.put(&object, &[]), ErrorKind::AlreadyExists);
    assert_eq!(place.get(&object, NO_LIMIT).expect("it was stored"), b"first");
    assert_eq!(
        list(place, ""),
        BTreeMap::from([("folder/object".to_owned(), 5)]),
        "no trace of the other puts"
    );
}

fn a_limit_is_kept(place: &dyn Storage) {
    place
        .put(&name("object"), &[b"12345"])
        .expect("an object can be stored");
    place.put(&name("empty"), &[]).expect("an empty object can be stored");
    assert_eq!(place.get(&name("object"), 5).expect("it has just 5 bytes"), b"12345");
    assert_kind(place.get(&name("object"), 4), ErrorKind::TooLarge);
    assert_kind(place.get(&name("object"), 0), ErrorKind::TooLarge);
    assert_eq!(place.get(&name("empty"), 0).expect("it has 0 bytes"), b"");
}

fn parts_can_be_read(place: &dyn Storage) {
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    place.put(&name("object"), &[&bytes]).expect("an object can be stored");
    for (offset, length) in [
        (0, 100_000),
        (0, 1),
        (99_999, 1),
        (1, 70_000),
        (65_535, 2),
        (100_000, 0),
        (7, 0),
    ] {
        let mut buffer = vec![0xee; length];
        place
            .read_at(&name("object"), offset as u64, &mut buffer)
            .expect("the part is there");
        assert!(
            buffer == bytes[offset..offset + length],
            "{length} bytes from {offset} on"
        );
    }
}

fn reading_past_the_end_is_truncated(place: &dyn Storage) {
    place
        .put(&name("object"), &[b"12345"])
        .expect("an object can be stored");
    place.put(&name("empty"), &[]).expect("an empty object can be stored");
    for offset in [
        3,
        4,
        5,
        6,
        u64::from(u32::MAX),
        i64::MAX as u64 - 1,
        i64::MAX as u64,
        u64::MAX - 1,
        u64::MAX,
    ] {
        assert_kind(
            place.read_at(&name("object"), offset, &mut [0; 3]),
            ErrorKind::Truncated,
        );
    }
    assert_kind(place.read_at(&name("empty"), 0, &mut [0; 1]), ErrorKind::Truncated);
    place
        .read_at(&name("empty"), 0, &mut [])
        .expect("nothing was asked for");
}

fn a_folder_is_listed(place: &dyn Storage) {
    assert_eq!(list(place, ""), BTreeMap::new());
    let objects = [
        "config",
        "packs/aa/1",
        "packs/aa/22",
        "packs/ab/1",
        "packs-old/1",
        "packsx",
        "index/1",
        "a/b/c/d",
    ];
    for (size, text) in objects.iter().enumerate() {
        place
            .put(&name(text), &[&vec![7; size]])
            .expect("an object can be stored");
    }
    let expected = |folder: &str| -> BTreeMap<String, u64> {
        let objects = objects.iter().enumerate().filter(|(_, text)| text.starts_with(folder));
        objects.map(|(size, &text)| (text.to_owned(), size as u64)).collect()
    };
    assert_eq!(list(place, ""), expected(""));
    for folder in [
        "packs",
        "packs/aa",
        "packs/ab",
        "packs-old",
        "index",
        "a",
        "a/b",
        "a/b/c",
    ] {
        assert_eq!(list(place, folder), expected(&format!("{folder}/")), "folder {folder}");
    }
    for folder in [
        "pack",
        "none",
        "packs/a",
        "packs/none",
        "a/b/c/d",
        "config",
        "config/deeper",
    ] {
        assert_eq!(list(place, folder), BTreeMap::new(), "{folder} is no folder");
    }
}

fn a_list_may_call_again(place: &dyn Storage) {
    for text in ["folder/1", "folder/2"] {
        place.put(&name(text), &[b"x"]).expect("an object can be stored");
    }
    let mut deleted = 0;
    let each = &mut |name: Name, size| {
        assert_eq!(place.size(&name).expect("it was listed"), size);
        place.delete(&name).expect("it was listed");
        deleted += 1;
    };
    place.list("folder", each).expect("a folder can be listed");
    assert_eq!((deleted, list(place, "")), (2, BTreeMap::new()));
}

fn folders_are_listed_together(place: &dyn Storage) {
    let stored = ["a.copy", "a/1", "b-c/1", "b/1", "b/2/3", "c/1-2", "c/1/2", "c/d/1", "d"];
    for text in stored {
        let put = place.put(&name(text), &[text.as_bytes()]);
        put.expect("an object can be stored");
    }
    let of = |text: &str, folder: &str| text == folder || name(text).is_in(folder);
    for folders in [
        &["b", "a.copy", "a", "no"][..],
        &["c/1", "c/d"],
        &["c/d", "b/2"],
        &["d"],
        &["b-c", "b-d"],
        &[],
    ] {
        let mut found = BTreeMap::new();
        let each = &mut |name: Name, size| {
            assert_eq!(found.insert(name.to_string(), size), None, "{name} was listed twice");
        };
        let whole = place.list_together(folders, each);
        let whole = whole.expect("folders can be listed together");
        assert_eq!(whole.len(), folders.len(), "each of {folders:?} is listed whole or not");
        for (folder, _) in folders.iter().zip(whole).filter(|(_, whole)| *whole) {
            let expected = stored.iter().filter(|text| of(text, folder));
            let expected: BTreeMap<String, u64> = expected.map(|text| (text.to_string(), text.len() as u64)).collect();
            let mut listed = found.clone();
            listed.retain(|text, _| of(text, folder));
            assert_eq!(listed, expected, "{folder} among {folders:?}");
        }
        let is_asked = |text: &String| folders.iter().any(|folder| of(text, folder));
        assert!(found.keys().all(is_asked), "{folders:?} were asked for: {found:?}");
    }
    // A place that lists none together does not look at them.
    match place.list_together(&["a", "/"], &mut |_, _| {}) {
        Ok(whole) => assert_eq!(whole, [false, false], "there is no such folder"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidName, "{error}"),
    }
}

fn an_impossible_folder_is_refused(place: &dyn Storage) {
    for folder in [
        "..",
        "../x",
        "/",
        "/etc",
        "a/",
        "/a",
        "a//b",
        ".",
        "A",
        "a/../..",
        "nul\0",
        "tmp",
        "a/b/c/d/e/f",
    ] {
        assert_kind(place.list(folder, &mut |_, _| ()), ErrorKind::InvalidName);
    }
}

fn existing_objects_can_be_settled(place: &dyn Storage) {
    let object = name("folder/deep/object");
    place.put(&object, &[b"bytes"]).expect("an object can be stored");
    for _ in 0..2 {
        place.settle(&object).expect("an object that is there can be settled");
    }
    assert_eq!(
        place.get(&object, NO_LIMIT).expect("it was stored"),
        b"bytes",
        "settling changes nothing"
    );
    place.delete(&object).expect("an object can be deleted");
    assert_absent(place, place.settle(&object), ErrorKind::NotFound);
}

fn deleted_objects_are_gone(place: &dyn Storage) {
    let (object, other) = (name("folder/object"), name("folder/other"));
    place.put(&object, &[b"first"]).expect("an object can be stored");
    place.put(&other, &[b"other"]).expect("an object can be stored");
    place.delete(&object).expect("an object can be deleted");
    assert_kind(place.get(&object, NO_LIMIT), ErrorKind::NotFound);
    assert_absent(place, place.delete(&object), ErrorKind::NotFound);
    assert_eq!(list(place, ""), BTreeMap::from([("folder/other".to_owned(), 5)]));
    place.put(&object, &[b"second"]).expect("its name is free again");
    assert_eq!(place.get(&object, NO_LIMIT).expect("it was stored"), b"second");
    assert_eq!(place.get(&other, NO_LIMIT).expect("it was left alone"), b"other");
}

fn several_objects_are_deleted_at_once(place: &dyn Storage) {
    place.delete_all(&[]).expect("there is nothing to do");
    let all: Vec<Name> = (0..40).map(|number| name(&format!("folder/{number}"))).collect();
    for object in all.iter().step_by(2) {
        place.put(object, &[b"bytes"]).expect("an object can be stored");
    }
    // Some of them are not there.
    place
        .delete_all(&all[4..])
        .expect("those that are there can be deleted");
    let left = ["folder/0", "folder/2"].map(|name| (name.to_owned(), 5));
    assert_eq!(list(place, ""), BTreeMap::from(left));
    place.delete_all(&all[..1]).expect("one can be deleted");
    place.delete_all(&all).expect("most are gone already");
    assert_eq!(list(place, ""), BTreeMap::new());
}

fn a_name_is_not_both_object_and_folder(place: &dyn Storage) {
    place
        .put(&name("folder/object"), &[b"x"])
        .expect("an object can be stored");
    for text in ["folder", "folder/object/below", "folder/object/far/below"] {
        match place.put(&name(text), &[b"y"]) {
            Ok(()) => assert_eq!(place.get(&name(text), NO_LIMIT).expect("it was stored"), b"y"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotAnObject, "{error}"),
        }
    }
    assert_eq!(
        place
            .get(&name("folder/object"), NO_LIMIT)
            .expect("it was stored first"),
        b"x"
    );
}

fn errors_say_where(place: &dyn Storage) {
    let error = place.size(&name("folder/object")).expect_err("it was not stored");
    let text = error.to_string();
    assert!(
        text.contains("folder/object") && text.contains(&place.location()),
        "{text}"
    );
    assert_eq!(error.name(), Some(&name("folder/object")));
    assert_eq!(error.location(), place.location());
}

fn one_of_many_writers_wins(place: &dyn Storage) {
    for round in 0..8 {
        let object = name(&format!("round-{round}/object"));
        let winners: Vec<u8> = std::thread::scope(|scope| {
            let write = |writer: u8| {
                let object = &object;
                scope.spawn(move || place.put(object, &[&[writer; 1000], &[writer; 500]]).map(|()| writer))
            };
            let writers: Vec<_> = (0..4).map(write).collect();
            let results = writers
                .into_iter()
                .map(|writer| writer.join().expect("no writer panics"));
            let results = results.inspect(|result| match result {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
            });
            results.flatten().collect()
        });
        assert_eq!(winners.len(), 1, "exactly one writer is told that it stored the object");
        assert!(place.get(&object, NO_LIMIT).expect("it was stored") == vec![winners[0]; 1500]);
    }
}

fn threads_do_not_disturb_each_other(place: &dyn Storage) {
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            scope.spawn(move || {
                for i in 0..16_u8 {
                    let object = name(&format!("shared/{:x}/{thread}-{i}", i % 4));
                    place.put(&object, &[&[thread], &[i; 300]]).expect("its name is free");
                    let mut buffer = [0; 2];
                    place.read_at(&object, 0, &mut buffer).expect("it was stored");
                    assert_eq!(buffer, [thread, i]);
                    place
                        .list("shared", &mut |_, size| {
                            assert_eq!(size, 301, "a part of an object is seen")
                        })
                        .expect("a folder can be listed while objects come and go");
                    if i % 3 == 0 {
                        place.delete(&object).expect("no other thread deletes it");
                    }
                }
            });
        }
    });
    assert_eq!(list(place, "shared").len(), 4 * 10);
}
