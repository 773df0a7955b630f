//! The files and modes of a local folder, and its treatment of foreign entries.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use ibid_storage::{ErrorKind, Local, Name, Storage};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

#[test]
fn only_the_owner_can_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a/place");
    Local::create(&root)
        .unwrap()
        .put(&name("packs/3f/object"), &[b"x"])
        .unwrap();
    let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode(""), mode("tmp"), mode("packs"), mode("packs/3f")], [0o700; 4]);
    assert_eq!(mode("packs/3f/object"), 0o600);
    assert_eq!(
        fs::metadata(folder.path().join("a")).unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[test]
fn an_object_is_a_file_of_its_name_and_leaves_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let place = Local::create(folder.path()).unwrap();
    place.put(&name("packs/object"), &[b"by", b"tes"]).unwrap();
    assert_eq!(
        place.put(&name("packs/object"), &[b"x"]).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    assert_eq!(fs::read(folder.path().join("packs/object")).unwrap(), b"bytes");
    assert_eq!(fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0);
}

#[test]
fn foreign_things_are_no_objects_and_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("place");
    let place = Local::create(&root).unwrap();
    place.put(&name("packs/object"), &[b"x"]).unwrap();
    fs::write(folder.path().join("secret"), b"secret").unwrap();
    fs::write(root.join("packs/Upper"), b"x").unwrap();
    fs::write(root.join(".DS_Store"), b"x").unwrap();
    fs::write(root.join("tmp/notes"), b"x").unwrap();
    fs::create_dir_all(root.join("a/b/c/d/e")).unwrap();
    symlink(folder.path().join("secret"), root.join("packs/link")).unwrap();
    symlink(folder.path(), root.join("out")).unwrap();
    let mut listed = Vec::new();
    place.list("", &mut |name, _| listed.push(name.to_string())).unwrap();
    assert_eq!(listed, ["packs/object"]);
    let mut foreign = place.foreign().unwrap();
    foreign.sort();
    let expected = [
        ".DS_Store",
        "a/b/c/d/e",
        "out",
        "packs/Upper",
        "packs/link",
        "tmp/notes",
    ];
    assert_eq!(foreign, expected.map(PathBuf::from));
    assert_eq!(
        place.get(&name("packs/link"), 100).unwrap_err().kind(),
        ErrorKind::NotAnObject
    );
    assert_eq!(
        place.put(&name("packs/link"), &[b"x"]).unwrap_err().kind(),
        ErrorKind::NotAnObject
    );
    assert_eq!(fs::read(folder.path().join("secret")).unwrap(), b"secret");
    // Those with names that an object could have are told by these.
    for (folder, expected) in [("packs", "packs/link"), ("a/b", "a/b/c"), ("none", "")] {
        let mut taken = Vec::new();
        place
            .list_taken(folder, &mut |name| taken.push(name.to_string()))
            .unwrap();
        assert_eq!(taken.join(" "), expected);
    }
    assert_eq!(place.size(&name("a/b")).unwrap_err().kind(), ErrorKind::NotAnObject);
}

#[test]
fn a_pipe_in_the_place_of_an_object_does_not_block() {
    let folder = tempfile::tempdir().unwrap();
    let place = Local::create(folder.path()).unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert_eq!(place.size(&name("pipe")).unwrap_err().kind(), ErrorKind::NotAnObject);
}
