//! What a restore does where something exists.

use crate::support::{Home, tree};

#[test]
fn nothing_is_overwritten_unless_told_how() {
    let home = Home::with_snapshot();
    let from = home.at("files");
    home.write("back/anna.txt", "my own\n");
    home.write("back/stays", "not in the snapshot");
    assert!(home.fails(1, ["restore", &from, "back"]).contains("--overwrite"));
    assert_eq!(tree(&home.path("back")).len(), 3, "nothing was written");

    assert!(
        home.ok(["restore", &from, "back", "--overwrite", "never"])
            .contains("kept      1")
    );
    assert_eq!(std::fs::read(home.path("back/anna.txt")).unwrap(), b"my own\n");
    assert!(home.path("back/deep/data.bin").exists());

    home.ok(["restore", &from, "back", "--overwrite", "if-changed"]);
    assert_eq!(std::fs::read(home.path("back/anna.txt")).unwrap(), b"dear Anna\n");

    // The same size and time: only `always` looks inside.
    let file = home.path("back/anna.txt");
    let time = file.metadata().unwrap().modified().unwrap();
    home.write("back/anna.txt", "DEAR ANNA\n");
    std::fs::File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_modified(time)
        .unwrap();
    home.ok(["restore", &from, "back", "--overwrite", "if-changed"]);
    assert_eq!(std::fs::read(&file).unwrap(), b"DEAR ANNA\n");
    home.ok(["restore", &from, "back", "--overwrite", "always"]);
    assert_eq!(std::fs::read(&file).unwrap(), b"dear Anna\n");
    assert!(home.path("back/stays").exists());
}

#[test]
fn parts_can_be_chosen() {
    let home = Home::with_snapshot();
    let from = home.at("files");
    assert!(
        home.ok(["restore", &from, "dry", "--dry-run"])
            .contains("would restore 3 files")
    );
    assert!(!home.path("dry").exists());

    home.ok(["restore", &from, "texts", "--include", "*.txt", "--exclude", "ben.*"]);
    assert!(home.path("texts/anna.txt").exists() && !home.path("texts/deep/down/ben.txt").exists());
    assert!(!home.path("texts/deep/data.bin").exists());

    home.ok([
        "restore",
        &home.at("files/deep/down/ben.txt"),
        "one",
        "--numeric-ids",
        "--threads",
        "1",
    ]);
    assert_eq!(tree(&home.path("one")).len(), 2);
    assert_eq!(std::fs::read(home.path("one/ben.txt")).unwrap(), b"dear Ben\n");
    home.ok(["restore", "latest", "all"]);
    assert!(
        home.path("all")
            .join(home.path("files/anna.txt").strip_prefix("/").unwrap())
            .exists()
    );
}
