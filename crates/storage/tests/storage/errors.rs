//! Errors tell failures apart, and each text names the attempt, the object, the place and what was found.

use std::error::Error as _;
use std::fs;

use ibid_storage::fault::{Call, DiskFault, FaultDisk};
use ibid_storage::{Error, ErrorKind, Local, Name, Operation, Storage};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn place() -> (FaultDisk, Local<FaultDisk>) {
    let disk = FaultDisk::new(1);
    let place = Local::create_on(disk.clone(), "/place").unwrap();
    place.put(&name("packs/a"), &[b"0123456789"]).unwrap();
    (disk, place)
}

#[test]
fn a_full_disk_says_so_and_loses_nothing() {
    let (disk, place) = place();
    disk.space(Some(50));
    let error = place.put(&name("packs/b"), &[&[1; 30], &[2; 30]]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert_eq!(
        error.to_string(),
        "cannot store packs/b in folder /place: no space is left"
    );
    assert!(error.source().unwrap().to_string().contains("No space left on device"));
    assert_eq!(place.get(&name("packs/a"), 10).unwrap(), b"0123456789");
    // The unfinished file is gone, and its space is free again.
    place.put(&name("packs/b"), &[&[1; 50]]).unwrap();
}

#[test]
fn denied_permission_says_so() {
    let (disk, place) = place();
    disk.fail_every(Call::CreateNew, DiskFault::PermissionDenied);
    disk.fail_every(Call::Open, DiskFault::PermissionDenied);
    let error = place.put(&name("packs/b"), &[b"x"]).unwrap_err();
    assert_eq!(
        (error.kind(), error.operation()),
        (ErrorKind::PermissionDenied, Operation::Put)
    );
    assert_eq!(
        error.to_string(),
        "cannot store packs/b in folder /place: permission denied"
    );
    assert_eq!(
        place.get(&name("packs/a"), 10).unwrap_err().kind(),
        ErrorKind::PermissionDenied
    );
}

#[test]
fn a_read_only_place_can_be_read() {
    let (disk, place) = place();
    for call in [Call::CreateNew, Call::MakeDir, Call::RenameNoreplace, Call::Remove] {
        disk.fail_every(call, DiskFault::ReadOnly);
    }
    assert_eq!(
        place.put(&name("packs/b"), &[b"x"]).unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
    assert_eq!(place.delete(&name("packs/a")).unwrap_err().kind(), ErrorKind::ReadOnly);
    let place = Local::open_on(disk, "/place").unwrap();
    assert_eq!(place.get(&name("packs/a"), 10).unwrap(), b"0123456789");
}

#[test]
fn a_failing_device_is_told_from_an_absent_object() {
    let (disk, place) = place();
    disk.fail_every(Call::ReadAt, DiskFault::Io);
    assert_eq!(place.get(&name("packs/a"), 10).unwrap_err().kind(), ErrorKind::Io);
    disk.heal();
    disk.fail_every(Call::List, DiskFault::Io);
    assert_eq!(place.list("packs", &mut |_, _| ()).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn signals_are_no_failures() {
    for call in [Call::Write, Call::ReadAt] {
        let (disk, place) = place();
        let before = disk.operations();
        let put_and_get = |object: &str| {
            place.put(&name(object), &[b"bytes"]).unwrap();
            place.get(&name(object), 10).unwrap()
        };
        assert_eq!(put_and_get("undisturbed"), b"bytes");
        let calls = disk.calls().split_off(before as usize);
        let position = calls.iter().position(|other| *other == call).unwrap();
        disk.fail_at(disk.operations() + position as u64, DiskFault::Interrupted);
        assert_eq!(put_and_get("interrupted"), b"bytes");
        let repeated = disk.calls().split_off(before as usize + calls.len());
        assert_eq!(
            repeated[position..position + 2],
            [call, call],
            "the call was interrupted and made again"
        );
    }
}

#[test]
fn an_object_that_was_cut_short_is_truncated() {
    let (disk, place) = place();
    disk.truncate("/place/packs/a", 7).unwrap();
    let mut buffer = [0; 4];
    place.read_at(&name("packs/a"), 3, &mut buffer).unwrap();
    let error = place.read_at(&name("packs/a"), 4, &mut buffer).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Truncated);
    assert_eq!(
        error.to_string(),
        "cannot read a part of packs/a in folder /place: \
         the object ends after 7 bytes, and 4 from byte 4 on were wanted"
    );
}

#[test]
fn a_silent_change_is_given_as_it_is() {
    let (disk, place) = place();
    disk.flip_bit("/place/packs/a", 8).unwrap();
    assert_eq!(
        place.get(&name("packs/a"), 10).unwrap(),
        b"0023456789",
        "the layers above have to notice"
    );
}

#[test]
fn a_place_that_is_not_there_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let error = Local::open(folder.path().join("none")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().ends_with("there is no such folder"), "{error}");
    fs::write(folder.path().join("file"), b"x").unwrap();
    for result in [
        Local::open(folder.path().join("file")),
        Local::create(folder.path().join("file")),
    ] {
        assert_eq!(result.err().unwrap().kind(), ErrorKind::NotAnObject);
    }
    assert!(Local::create(folder.path().join("file/below")).is_err());
}

#[test]
fn a_place_that_vanished_is_not_taken_for_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let place = Local::create(folder.path().join("place")).unwrap();
    place.put(&name("packs/a"), &[b"x"]).unwrap();
    fs::remove_dir_all(folder.path().join("place")).unwrap();
    for folder in ["", "packs"] {
        assert_eq!(
            place.list(folder, &mut |_, _| ()).unwrap_err().kind(),
            ErrorKind::NotFound,
            "{folder:?}"
        );
    }
    let error = place.put(&name("packs/b"), &[b"x"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().ends_with("the folder itself is gone"), "{error}");
}

#[test]
fn a_folder_that_was_removed_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let place = Local::create(folder.path()).unwrap();
    place.put(&name("packs/a"), &[b"x"]).unwrap();
    fs::remove_dir_all(folder.path().join("packs")).unwrap();
    fs::remove_dir_all(folder.path().join("tmp")).unwrap();
    place.put(&name("packs/b"), &[b"x"]).unwrap();
    assert_eq!(place.get(&name("packs/b"), 1).unwrap(), b"x");
}

#[test]
fn what_is_refused_where_things_can_only_be_added_is_known_also_from_its_text() {
    let refused = Error::append_only(Operation::Delete, Some(&name("packs/a")), "here".into());
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    assert!(refused.to_string().ends_with(refused.found()), "{refused}");
    let told = Error::new(refused.kind(), Operation::Put, None, "there").with_found(refused.found());
    assert!(refused.is_append_only() && told.is_append_only());
    let denied = Error::new(ErrorKind::PermissionDenied, Operation::Put, None, "there");
    assert!(!denied.is_append_only() && denied.found() == "permission denied");
}
