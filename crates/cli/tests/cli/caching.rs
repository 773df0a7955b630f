//! The local cache: where it is, what says so, and what happens if it can't be there.

use crate::support::{CHEAP, Home, noise, run};

/// Returns the files below a folder of the home.
fn files(home: &Home, folder: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(home.path(folder)) else {
        return Vec::new();
    };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .flat_map(|name| {
            let path = format!("{folder}/{name}");
            match home.path(&path).is_dir() {
                true => files(home, &path),
                false => vec![path],
            }
        })
        .collect()
}

/// Returns a home with a repository of tiny chunks, and so many of them that their index files become a
/// run.
fn home() -> Home {
    let home = Home::bare();
    home.ok([
        "init",
        "--quiet",
        "--chunker",
        "fixed",
        "--average",
        "64",
        CHEAP[0],
        CHEAP[1],
    ]);
    home.write("files/many", noise(8 << 20, 2));
    home
}

#[test]
fn it_is_where_the_options_and_the_environment_say() {
    let home = home();
    home.ok(["backup", "files", "--quiet", "--no-cache"]);
    assert_eq!(files(&home, ".cache"), [""; 0]);
    home.ok(["snapshots"]);
    home.ok(["ls", "latest"]);
    let found = files(&home, ".cache/ibid");
    assert!(found.iter().any(|path| path.contains("/index/")), "{found:?}");
    assert!(found.iter().any(|path| path.ends_with("/CACHEDIR.TAG")), "{found:?}");

    home.ok(["ls", "latest", "--cache-dir", "elsewhere"]);
    assert!(files(&home, "elsewhere").iter().any(|path| path.contains("/index/")));
    let mut command = home.ibid(["cache", "stats"]);
    let out = run(command.env("XDG_CACHE_HOME", home.path("xdg"))).out;
    assert!(out.contains(home.path("xdg/ibid").to_str().unwrap()), "{out}");
    let mut command = home.ibid(["cache", "stats"]);
    let out = run(command.env("XDG_CACHE_HOME", "relative")).out;
    assert!(out.contains("/.cache/ibid/"), "a relative path is ignored: {out}");

    let out = home.ok(["cache", "stats"]);
    assert!(out.contains("chunks in 1 run"), "{out}");
    assert!(home.ok(["cache", "clear"]).starts_with("deleted "));
    assert_eq!(files(&home, ".cache"), [""; 0]);
    let said = home.fails(2, ["cache", "stats", "--no-cache"]);
    assert!(said.contains("Leave out --no-cache"), "{said}");
}

#[test]
fn a_backup_of_the_home_leaves_it_out_and_so_do_other_programs_that_ask() {
    let home = home();
    home.ok(["backup", "files", "--quiet"]);
    home.ok(["backup", ".", "--quiet"]);
    let listed = home.ok(["ls", "latest", "-R"]);
    assert!(
        listed.contains(".cache/ibid") && !listed.contains("CACHEDIR.TAG"),
        "{listed}"
    );
}

#[test]
fn a_place_that_cannot_be_used_is_named_and_the_command_does_its_work() {
    let home = home();
    home.write(".cache", "a file in its place");
    home.ok(["backup", "files", "--quiet"]);
    for arguments in [&["backup", "files"][..], &["stats", "--cache-dir", "files/anna.txt"]] {
        let ran = home.run(arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(
            ran.err.matches("the local cache can't be used here").count(),
            1,
            "{ran:?}"
        );
        assert!(ran.err.contains("cannot make directory"), "{ran:?}");
    }
    assert_eq!(
        home.run(["backup", "files", "--no-cache"]).err.matches("cache").count(),
        0
    );
}

#[test]
fn a_damaged_file_is_named_and_the_command_does_its_work() {
    let home = home();
    home.ok(["backup", "files", "--quiet"]);
    for file in files(&home, ".cache/ibid")
        .iter()
        .filter(|file| file.contains("/index/"))
    {
        let mut bytes = std::fs::read(home.path(file)).unwrap();
        let at = bytes.len() - 20;
        bytes[at] ^= 1;
        home.write(file, bytes);
    }
    let ran = home.run(["backup", "files"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.err.contains("note: ") && ran.err.contains(".cache/ibid/"),
        "{ran:?}"
    );
    let ran = home.run(["check", "--read-data"]);
    assert!(ran.code == 0 && !ran.err.contains("note: "), "{ran:?}");
}
