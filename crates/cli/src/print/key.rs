//! Passwords' keys.

use super::names::escape;
use super::numbers::{counted, size};
use super::table::{Align, Table};
use super::time::{local, rfc3339};
use super::{About, Out};
use ibid_format::FileId;
use ibid_format::tree::Time;
use ibid_repo::{KeyInfo, Result};
use serde::Serialize;

#[derive(Serialize)]
struct JsonKey<'a> {
    id: String,
    label: Option<&'a str>,
    created: Option<String>,
    host: Option<&'a str>,
    user: Option<&'a str>,
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    problem: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonKeys<'a> {
    keys: Vec<JsonKey<'a>>,
}

#[derive(Serialize)]
struct JsonChanged {
    key: String,
}

/// The list of keys.
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
        ("made", Align::Left),
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
        let cost = format!(
            "{}, {}, {}",
            size(u64::from(key.cost.memory_kib) << 10),
            counted(u64::from(key.cost.passes), "pass", "passes"),
            counted(u64::from(key.cost.lanes), "lane", "lanes")
        );
        table.row(vec![key.id.to_string()[..8].to_owned(), made, by, cost, label]);
    }
    table.lines().try_for_each(|line| out.line(line))
}

fn json(key: &KeyInfo) -> JsonKey<'_> {
    let note = key.note.as_ref().ok();
    JsonKey {
        id: key.id.to_string(),
        label: note.map(|note| note.label.as_str()),
        created: note.map(|note| {
            rfc3339(Time {
                seconds: note.created,
                nanos: 0,
            })
        }),
        host: note.map(|note| note.host.as_str()),
        user: note.map(|note| note.user.as_str()),
        memory_kib: key.cost.memory_kib,
        passes: key.cost.passes,
        lanes: key.cost.lanes,
        problem: key.note.as_ref().err().map(String::as_str),
    }
}

/// Says that a key was added, removed or changed.
pub(crate) fn key_changed(out: &mut Out, about: About, command: &'static str, did: &str, id: FileId) -> Result<()> {
    if out.json {
        return out.document(command, about, &JsonChanged { key: id.to_string() });
    }
    if out.quiet {
        Ok(())
    } else {
        out.line(format!("{did} {}", &id.to_string()[..8]))
    }
}
