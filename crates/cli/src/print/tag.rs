//! Prints `tag`.

use ibid_repo::{FileId, Result, SnapshotInfo};
use ibid_terminal::escape;
use ibid_terminal::number::counted;
use serde::Serialize;

use super::{About, Out};

/// A snapshot whose tags were to be changed.
pub(crate) struct Tagged {
    pub(crate) info: SnapshotInfo,
    /// Its new id; `None` if it had these tags.
    pub(crate) new: Option<FileId>,
    pub(crate) tags: Vec<String>,
}

#[derive(Serialize)]
struct JsonTagged {
    changed: u64,
    snapshots: Vec<JsonOne>,
}

#[derive(Serialize)]
struct JsonOne {
    old: String,
    new: String,
    tags: Vec<String>,
}

/// Prints the old and the new id of each snapshot.
pub(crate) fn tagged(out: &mut Out, about: About, done: &[Tagged]) -> Result<()> {
    let changed = done.iter().filter(|one| one.new.is_some()).count() as u64;
    if out.json {
        let one = |one: &Tagged| JsonOne {
            old: one.info.id.to_string(),
            new: one.new.unwrap_or(one.info.id).to_string(),
            tags: one.tags.clone(),
        };
        let snapshots = done.iter().map(one).collect();
        return out.document("tag", about, &JsonTagged { changed, snapshots });
    }
    if out.quiet {
        return Ok(());
    }
    for one in done {
        let tags: Vec<String> = one.tags.iter().map(|tag| escape(tag.as_bytes())).collect();
        if let Some(new) = one.new {
            let line = format!(
                "{} is now {}  {}",
                one.info.short_id(),
                &new.to_string()[..8],
                tags.join(",")
            );
            out.line(line.trim_end())?;
        }
    }
    let unchanged = done.len() as u64 - changed;
    match unchanged {
        0 => Ok(()),
        _ => out.line(format!(
            "{} had these tags already, or lacked them",
            counted(unchanged, "snapshot", "snapshots")
        )),
    }
}
