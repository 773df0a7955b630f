//! The commands in `docs/` work, and its statements about constants and tests are true.

use crate::blocks::{blocks, run_blocks};
use crate::support::Home;

const DOCUMENT: &str = include_str!("../../../../docs/commands.md");
const RECORDS: &str = include_str!("../../../../docs/records.md");

#[test]
fn every_block_runs_as_written() {
    let home = Home::bare();
    home.write("letters/anna.txt", "dear Anna\n");
    home.write("letters/drafts/ben.txt", "dear Ben\n");
    let blocks = blocks(DOCUMENT);
    assert!(blocks.len() >= 15, "{blocks:?}");
    let printed = run_blocks(&home, &blocks);
    assert!(
        printed.contains("select 1;") && printed.contains("a line more"),
        "{printed}"
    );
}

#[test]
fn the_guide_to_records_runs_as_written() {
    let blocks = blocks(RECORDS);
    assert!(blocks.len() >= 4, "{blocks:?}");
    let printed = run_blocks(&Home::bare(), &blocks);
    // The output that the guide shows.
    let mut lines = RECORDS.lines();
    let mut shown = 0;
    while lines.by_ref().any(|line| line == "```text") {
        for line in lines.by_ref().take_while(|line| *line != "```") {
            assert!(printed.contains(&format!("{line}\n")), "{line}\nin\n{printed}");
            shown += 1;
        }
    }
    assert!(shown > 5, "{shown}");
}

#[test]
fn every_command_has_its_section() {
    for command in [
        "init",
        "backup",
        "snapshots",
        "ls",
        "find",
        "restore",
        "dump",
        "diff",
        "stats",
        "check",
        "repair",
        "prune",
        "storage test",
        "run",
        "key",
        "tag",
        "copy",
        "rewrite",
        "records load",
        "records put",
        "records batch",
        "records get",
        "records delete",
        "records scan",
        "records find",
        "records index",
        "records versions",
        "records compact",
        "records stats",
        "records verify",
        "records repair",
        "records salvage",
        "completions",
        "man",
    ] {
        assert!(DOCUMENT.contains(&format!("\n## {command}\n")), "{command}");
    }
}

/// Returns a text with all white space as single spaces.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Sentences with numbers that come from the code.
#[test]
fn numbers_in_the_documents_are_those_of_the_code() {
    use ibid_format::{record, slot};
    let cost = slot::Argon2Cost::default();
    let gib = u64::from(slot::MEMORY_KIB_ALLOWED) >> 20;
    let hours = ibid_storage::SWEEP_AGE.as_secs() / 3600;
    let retrieval = ibid_record::Encoding::default().retrieval;
    let ibid_record::Retrieval::Hop { distance } = retrieval else {
        panic!("{retrieval:?}")
    };
    let threats = include_str!("../../../../docs/threat-model.md");
    let durability = include_str!("../../../../docs/durability.md");
    assert_eq!((cost.passes, hours), (1, 1), "the documents have words for these");
    let sentences = [
        (
            threats,
            format!("The default is {} MiB and one pass", cost.memory_kib >> 10),
        ),
        (threats, format!("more than {gib} GiB or {} passes", slot::PASSES_MAX)),
        (durability, "those that are more than one hour old".to_owned()),
        (DOCUMENT, format!("at most {gib} GiB of memory")),
        (
            DOCUMENT,
            format!("A **key** is any bytes, at most {}", record::KEY_BYTES_MAX),
        ),
        (
            DOCUMENT,
            format!(
                "A **body** is any bytes, at most {} TiB",
                record::LONG_BODY_BYTES_MAX >> 40
            ),
        ),
        (DOCUMENT, format!("at most {} of them", ibid_record::FAULTS_MAX)),
        (RECORDS, format!("| {distance} (default) |")),
    ];
    for (document, sentence) in sentences {
        assert!(
            in_one_line(document).contains(&sentence),
            "no document says {sentence:?}"
        );
    }
}

/// The page on durability names the test of each claim by its beginning or its end.
#[test]
fn every_test_that_durability_names_exists() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut sources = String::new();
    let mut folders = vec![crates.to_owned(), crates.join("../sim")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() && entry.file_name() != "target" {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                sources += &format!("file {}\n", path.display());
                sources += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    let mut named = 0;
    for quoted in include_str!("../../../../docs/durability.md")
        .split('`')
        .skip(1)
        .step_by(2)
    {
        let exists = match (quoted.strip_prefix('…'), quoted.strip_suffix('…')) {
            (Some(end), _) => sources.contains(&format!("{end}()")),
            (_, Some(start)) if !start.starts_with('.') => sources.contains(&format!("fn {start}")),
            _ if quoted.ends_with(".rs") => sources.contains(&format!("/{quoted}\n")),
            _ if quoted.matches('_').count() > 2 && !quoted.contains(' ') => {
                sources.contains(&format!("fn {quoted}()"))
            }
            _ => continue,
        };
        named += 1;
        assert!(exists, "there is no test {quoted}");
    }
    assert!(named > 40, "{named}");
}
