//! Prints `key`.

use ibid_format::FileId;
use ibid_format::tree::Time;
use ibid_repo::{KeyChange, KeyInfo, Result};
use ibid_terminal::escape;
use ibid_terminal::number::{counted, size};
use ibid_terminal::{Align, Table};
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
}

#[derive(Serialize)]
struct JsonChanged {
    key: String,
    removed: Vec<String>,
}

/// Prints the list of keys.
pub(crate) fn keys(out: &mut Out, about: About, keys: &[KeyInfo]) -> Result<()> {
    if out.json {
        return out.document(
            "key list",
            about,
            &JsonKeys {
                keys: keys.iter().map(json).collect(),
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
        let (made, by, label) = match &key.note {
            Ok(note) => {
                let by = format!("{}@{}", note.user, note.host);
                (
                    local(Time {
                        seconds: note.created,
                        nanos: 0,
                    }),
                    escape(by.as_bytes()),
                    escape(note.label.as_bytes()),
                )
            }
            Err(problem) => (
                "?".to_owned(),
                "?".to_owned(),
                format!("unreadable: {}", escape(problem.as_bytes())),
            ),
        };
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
    if out.quiet {
        return Ok(());
    }
    out.line("* opened the repository just now")
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
    Changed(&'a KeyChange),
}

/// Says that a key was added, removed or changed.
pub(crate) fn key_done(out: &mut Out, about: About, done: &KeyDone<'_>) -> Result<()> {
    let short = |id: &FileId| id.to_string()[..8].to_owned();
    let (command, key, removed, text) = match done {
        KeyDone::Added(id) => ("key add", id, &[][..], format!("added key {}", short(id))),
        KeyDone::Removed(id) => ("key remove", id, &[*id][..], format!("removed key {}", short(id))),
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
