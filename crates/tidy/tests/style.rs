//! What `rustfmt` and `clippy` don't hold of the style of this tree.

mod tree;

use std::collections::HashSet;

use tree::{File, complain, files};

/// The columns of a line of Rust at most, as in `rustfmt.toml`, which leaves long strings alone.
const COLUMNS_MAX: usize = 120;

fn rust() -> Vec<File> {
    files(|path| path.ends_with(".rs"))
}

#[test]
fn lines_of_rust_have_120_columns_at_most() {
    complain(rust().iter().flat_map(|file| {
        file.lines()
            .filter(|(_, line)| line.chars().count() > COLUMNS_MAX)
            .map(|(number, line)| format!("{}:{number}: {} columns", file.path, line.chars().count()))
    }));
}

/// The three groups: the standard library's; other crates'; this crate's.
fn group(import: &str) -> u8 {
    let root = import.split("::").next().unwrap_or(import).trim_end_matches(';');
    match root {
        "std" | "core" | "alloc" => 0,
        "crate" | "super" | "self" => 2,
        _ => 1,
    }
}

#[test]
fn imports_stand_in_three_groups() {
    let mut wrong = Vec::new();
    for file in rust() {
        let modules: Vec<&str> = file
            .text
            .lines()
            .filter_map(|line| line.split("mod ").nth(1)?.strip_suffix(';'))
            .collect();
        // The group of the import that the line before belongs to, and whether an empty line followed.
        let mut last: Option<(u8, bool)> = None;
        let mut inside = false;
        for (number, line) in file.lines() {
            if inside {
                inside = !line.ends_with(';');
                continue;
            }
            let Some(import) = line.strip_prefix("use ") else {
                last = match last {
                    Some((group, _)) if line.is_empty() => Some((group, true)),
                    Some(same) if line.starts_with("#[cfg") || line.starts_with("//") => Some(same),
                    _ => None,
                };
                continue;
            };
            inside = !line.ends_with(';');
            let root = import.split([':', ';']).next().unwrap_or(import);
            // rustfmt takes modules of this file for crates: they stand in the second group or in the third.
            if modules.contains(&root) {
                continue;
            }
            let group = group(import);
            if let Some((before, apart)) = last
                && (group < before || (group != before) != apart)
            {
                wrong.push(format!("{}:{number}: {line}", file.path));
            }
            last = Some((group, false));
        }
    }
    complain(wrong);
}

/// Returns the names of tests that a line of a guide has in backticks: at least four words.
fn tests_named(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|text| {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        text.bytes().all(is_name) && text.matches('_').count() >= 3
    })
}

#[test]
fn the_tests_that_guides_name_are_there() {
    let tests: HashSet<String> = rust()
        .iter()
        .flat_map(|file| file.text.lines())
        .filter_map(|line| line.trim_start().strip_prefix("fn ")?.split('(').next())
        .map(str::to_owned)
        .collect();
    // The others name fields and columns.
    let is_guide = |path: &str| !path.ends_with("json.md") && path != "docs/benchmarks.md";
    let guides = files(|path| path.starts_with("docs/") && path.ends_with(".md") && is_guide(path));
    complain(guides.iter().flat_map(|file| {
        let named = file
            .lines()
            .flat_map(|(number, line)| tests_named(line).map(move |name| (number, name)));
        let missing = named.filter(|(_, name)| !tests.contains(*name));
        missing.map(|(number, name)| format!("{}:{number}: there is no test {name}", file.path))
    }));
    assert!(tests_named("see `a_test_of_it`, `not_one`").eq(["a_test_of_it"]));
}

#[test]
fn no_file_names_what_only_we_have() {
    // In two parts each, so that this file does not name them.
    let unwanted = [
        concat!("paper", " 00"),
        concat!("../", "shared"),
        concat!("../", "corpora"),
        concat!("/wo", "rk/"),
    ];
    let kinds = [".rs", ".md", ".toml", ".sh", ".mjs", ".json", ".txt", ".ci/run"];
    let files = files(|path| kinds.iter().any(|kind| path.ends_with(kind)));
    let mut wrong = Vec::new();
    for file in files {
        for (number, line) in file.lines() {
            let found = unwanted.iter().filter(|text| line.contains(**text));
            wrong.extend(found.map(|text| format!("{}:{number}: {text}", file.path)));
        }
    }
    complain(wrong);
}

#[test]
fn every_file_is_a_module_of_another() {
    // The compiler passes over a file that no `mod` names, and so over the tests in it.
    let rust = rust();
    let split = |path: &str| {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        (folder.to_owned(), name.to_owned())
    };
    // Folders of modules, with the names of these; and names of files that are given by their paths.
    let (mut named, mut by_path) = (HashSet::new(), HashSet::new());
    for file in &rust {
        let (beside, _) = split(&file.path);
        let inside = file.path.trim_end_matches(".rs");
        for (_, line) in file.lines() {
            let line = line.trim();
            if let Some((_, name)) = line.strip_suffix(';').and_then(|line| line.rsplit_once("mod ")) {
                named.insert((beside.clone(), name.to_owned()));
                named.insert((inside.to_owned(), name.to_owned()));
            } else if let Some(path) = line.strip_prefix("#[path = \"") {
                by_path.insert(split(path.trim_end_matches("\"]")).1);
            }
        }
    }
    let roots = ["src/bin", "tests", "examples", "benches", "fuzz_targets"];
    let is_module = |path: &str| {
        let (folder, file) = split(path);
        let (parent, name) = match file.as_str() {
            "mod.rs" => split(&folder),
            _ => (folder.clone(), file.trim_end_matches(".rs").to_owned()),
        };
        ["lib.rs", "main.rs", "build.rs"].contains(&file.as_str())
            || roots.iter().any(|root| folder.ends_with(root))
            || named.contains(&(parent, name))
            || by_path.contains(&file)
    };
    let others = rust.iter().filter(|file| !is_module(&file.path));
    complain(others.map(|file| format!("{}: no module names it", file.path)));
}

#[test]
fn only_printing_modules_print() {
    // Clippy warns of each print; a module that allows it says so with a reason.
    complain(rust().iter().flat_map(|file| {
        file.lines()
            .filter(|(_, line)| line.contains("clippy::print_std") && !line.contains("reason = "))
            .map(|(number, line)| format!("{}:{number}: no reason: {line}", file.path))
    }));
}

/// Where libraries use the file system; all else of them goes through the storage, the engine, or bytes.
const OPEN_FILES: [&str; 9] = [
    "crates/record/src/conformance.rs",
    "crates/record/src/engine/fjall.rs",
    "crates/record/src/engine/redb/",
    "crates/record/src/store/folder.rs",
    "crates/repo/src/cache/",
    "crates/repo/src/pattern/mod.rs",
    "crates/repo/src/restore/target.rs",
    "crates/repo/src/source/",
    "crates/storage/src/disk/os.rs",
];

/// Libraries without a clock: what they return depends on what they are given.
const TIMELESS: [&str; 4] = ["simd", "chunk", "delta", "format"];

#[test]
fn libraries_use_files_and_clocks_in_few_places() {
    let libraries = ["simd", "chunk", "delta", "format", "storage", "record", "repo"];
    let mut wrong = Vec::new();
    for file in rust() {
        let of = |library: &&str| file.path.starts_with(&format!("crates/{library}/src/"));
        if !libraries.iter().any(of) {
            continue;
        }
        let opens = file.path.ends_with("/tests.rs") || OPEN_FILES.iter().any(|place| file.path.starts_with(place));
        let code = file
            .lines()
            .take_while(|(_, line)| *line != "#[cfg(test)]")
            .filter(|(_, line)| !line.trim_start().starts_with("//"));
        for (number, line) in code {
            let clock = line.contains("Instant::now") || line.contains("SystemTime::now");
            if (line.contains("std::fs") && !opens) || (clock && TIMELESS.iter().any(of)) {
                wrong.push(format!("{}:{number}: {}", file.path, line.trim()));
            }
        }
    }
    complain(wrong);
}

/// Where `crates/repo` may use what simulations replace.
const SEAMS: [&str; 6] = [
    "crates/repo/src/cache/mod.rs",
    "crates/repo/src/clock.rs",
    "crates/repo/src/layout.rs",
    "crates/repo/src/scale.rs",
    "crates/repo/src/simulation.rs",
    "crates/repo/src/threads/",
];

#[test]
fn what_simulations_replace_is_used_in_few_places() {
    let replaced = [
        "FileId::random()",
        "Instant::now()",
        "SystemTime::now()",
        "available_parallelism()",
        "crossbeam_channel::{",
        "thread::scope(",
    ];
    let is_ours = |file: &&File| {
        let path = &file.path;
        let is_test = path.ends_with("/tests.rs") || SEAMS.iter().any(|place| path.starts_with(place));
        path.starts_with("crates/repo/src/") && !is_test
    };
    let mut wrong = Vec::new();
    for file in rust().iter().filter(is_ours) {
        let code = file.lines().take_while(|(_, line)| *line != "#[cfg(test)]");
        let found = code.filter(|(_, line)| replaced.iter().any(|what| line.contains(what)));
        wrong.extend(found.map(|(number, line)| format!("{}:{number}: {}", file.path, line.trim())));
    }
    complain(wrong);
}

#[test]
fn only_the_simulator_asks_for_the_feature_of_simulations() {
    let manifests = files(|path| path.ends_with("Cargo.toml"));
    let mut asks = Vec::new();
    for file in &manifests {
        let found = file.lines().filter(|(_, line)| line.contains("\"simulation\""));
        asks.extend(found.map(|_| file.path.clone()));
    }
    assert_eq!(asks, ["sim/Cargo.toml"]);
    let root = manifests.iter().find(|file| file.path == "Cargo.toml").unwrap();
    assert!(
        root.text.contains("default-members = [\"crates/*\"]"),
        "builds without sim, unless it is asked for"
    );
}
