//! Prints `key`.

use std::path::Path;

use ibid_format::FileId;
use ibid_format::slot::Note;
use ibid_format::tree::Time;
use ibid_repo::{KeyChange, KeyInfo, Result, WriterInfo, WriterKey};
use ibid_terminal::number::{counted, size};
use ibid_terminal::{Align, Table};
use ibid_terminal::{escape, path_text};
use serde::Serialize;

use super::time::{local, rfc3339};
use super::{About, Out};

#[derive(Serialize)]
struct JsonKey<'a> {
    id: String,
    current: bool,
    label: Option<&'a str>,
    created: Option<String>,
    host: Option<&'a str>,
    user: Option<&'a str>,
    memory_kib: Option<u32>,
    passes: Option<u32>,
    lanes: Option<u32>,
    problem: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonKeys<'a> {
    keys: Vec<JsonKey<'a>>,
    writers: Vec<JsonWriter<'a>>,
}

#[derive(Serialize)]
struct JsonWriter<'a> {
    id: String,
    label: Option<&'a str>,
    created: Option<String>,
    host: Option<&'a str>,
    user: Option<&'a str>,
    removed: bool,
    problem: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonNewWriter<'a> {
    writer: String,
    key: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonChanged {
    key: String,
    removed: Vec<String>,
}

/// Prints the lists of keys and of writers.
pub(crate) fn keys(out: &mut Out, about: About, keys: &[KeyInfo], writers: &[WriterInfo]) -> Result<()> {
    if out.json {
        return out.document(
            "key list",
            about,
            &JsonKeys {
                keys: keys.iter().map(json).collect(),
                writers: writers.iter().map(json_writer).collect(),
            },
        );
    }
    let titles = [
        ("id", Align::Left),
        ("created", Align::Left),
        ("by", Align::Left),
        ("a guess costs", Align::Left),
        ("label", Align::Left),
    ];
    let mut table = Table::new(&titles);
    for key in keys {
        let [made, by, label] = of_note(&key.note);
        let cost = key.cost.map_or_else(
            || "?".to_owned(),
            |cost| {
                let (passes, lanes) = (u64::from(cost.passes), u64::from(cost.lanes));
                format!(
                    "{}, {}, {}",
                    size(u64::from(cost.memory_kib) << 10),
                    counted(passes, "pass", "passes"),
                    counted(lanes, "lane", "lanes")
                )
            },
        );
        let mark = if key.current { "*" } else { "" };
        let id = format!("{}{mark}", &key.id.to_string()[..8]);
        table.row(vec![id, made, by, cost, label]);
    }
    table.lines().try_for_each(|line| out.line(line))?;
    if !out.quiet {
        out.line("* opened the repository just now")?;
    }
    match writers.is_empty() {
        true => Ok(()),
        false => table_of_writers(out, writers),
    }
}

/// Returns when a key was made, by whom, and its label.
fn of_note(note: &std::result::Result<Note, String>) -> [String; 3] {
    match note {
        Ok(note) => [
            local(Time {
                seconds: note.created,
                nanos: 0,
            }),
            escape(format!("{}@{}", note.user, note.host).as_bytes()),
            escape(note.label.as_bytes()),
        ],
        Err(problem) => [
            "?".to_owned(),
            "?".to_owned(),
            format!("unreadable: {}", escape(problem.as_bytes())),
        ],
    }
}

fn table_of_writers(out: &mut Out, writers: &[WriterInfo]) -> Result<()> {
    let titles = [
        ("writer", Align::Left),
        ("created", Align::Left),
        ("by", Align::Left),
        ("label", Align::Left),
        ("", Align::Left),
    ];
    let mut table = Table::new(&titles);
    for writer in writers {
        let [made, by, label] = of_note(&writer.note);
        let removed = if writer.is_revoked { "removed" } else { "" };
        table.row(vec![
            writer.id.to_string()[..8].to_owned(),
            made,
            by,
            label,
            removed.to_owned(),
        ]);
    }
    out.line("")?;
    table.lines().try_for_each(|line| out.line(line))
}

fn json_writer(writer: &WriterInfo) -> JsonWriter<'_> {
    let note = writer.note.as_ref().ok();
    JsonWriter {
        id: writer.id.to_string(),
        label: note.map(|note| note.label.as_str()),
        created: note.map(|note| {
            rfc3339(Time {
                seconds: note.created,
                nanos: 0,
            })
        }),
        host: note.map(|note| note.host.as_str()),
        user: note.map(|note| note.user.as_str()),
        removed: writer.is_revoked,
        problem: writer.note.as_ref().err().map(String::as_str),
    }
}

/// Prints the key of a new writer, and nothing else.
pub(crate) fn writer_key(out: &mut Out, about: About, key: &WriterKey) -> Result<()> {
    let text = key.to_text();
    if out.json {
        let body = JsonNewWriter {
            writer: key.id().to_string(),
            key: Some(&text),
        };
        return out.document("key add-writer", about, &body);
    }
    text.lines().try_for_each(|line| out.line(line))
}

/// Says that a writer was added, and where its key is.
pub(crate) fn writer_added(out: &mut Out, about: About, key: &WriterKey, label: &str, path: &Path) -> Result<()> {
    if out.json {
        let body = JsonNewWriter {
            writer: key.id().to_string(),
            key: None,
        };
        return out.document("key add-writer", about, &body);
    }
    if out.quiet {
        return Ok(());
    }
    let (id, label, path) = (&key.id().to_string()[..8], escape(label.as_bytes()), path_text(path));
    out.line(format!(
        "added writer {id}, {label}: its key is in {path}, and nowhere else"
    ))
}

fn json(key: &KeyInfo) -> JsonKey<'_> {
    let note = key.note.as_ref().ok();
    JsonKey {
        id: key.id.to_string(),
        current: key.current,
        label: note.map(|note| note.label.as_str()),
        created: note.map(|note| {
            rfc3339(Time {
                seconds: note.created,
                nanos: 0,
            })
        }),
        host: note.map(|note| note.host.as_str()),
        user: note.map(|note| note.user.as_str()),
        memory_kib: key.cost.map(|cost| cost.memory_kib),
        passes: key.cost.map(|cost| cost.passes),
        lanes: key.cost.map(|cost| cost.lanes),
        problem: key.note.as_ref().err().map(String::as_str),
    }
}

/// A change of the keys.
pub(crate) enum KeyDone<'a> {
    Added(FileId),
    Removed(FileId),
    RemovedWriter(FileId),
    Changed(&'a KeyChange),
}

/// Says that a key was added, removed or changed.
pub(crate) fn key_done(out: &mut Out, about: About, done: &KeyDone<'_>) -> Result<()> {
    let short = |id: &FileId| id.to_string()[..8].to_owned();
    let (command, key, removed, text) = match done {
        KeyDone::Added(id) => ("key add", id, &[][..], format!("added key {}", short(id))),
        KeyDone::Removed(id) => ("key remove", id, &[*id][..], format!("removed key {}", short(id))),
        KeyDone::RemovedWriter(id) => {
            let text = format!(
                "removed writer {}: what it stores from now on does not count",
                short(id)
            );
            ("key remove", id, &[*id][..], text)
        }
        KeyDone::Changed(change) => {
            let removed: Vec<String> = change.removed.iter().map(short).collect();
            let text = format!(
                "changed the password: added key {}, removed {}",
                short(&change.id),
                removed.join(", ")
            );
            ("key passwd", &change.id, change.removed.as_slice(), text)
        }
    };
    if out.json {
        let body = JsonChanged {
            key: key.to_string(),
            removed: removed.iter().map(FileId::to_string).collect(),
        };
        return out.document(command, about, &body);
    }
    if out.quiet { Ok(()) } else { out.line(text) }
}
