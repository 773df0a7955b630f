//! Prints `diff`.

use std::os::unix::ffi::OsStrExt;

use ibid_format::tree::{EntryKind, TreeEntry};
use ibid_repo::{Change, Difference, Result, SnapshotInfo};
use ibid_terminal::json::JsonPath;
use ibid_terminal::number::{count, size};
use ibid_terminal::{escape, path_text};
use serde::Serialize;

use super::json::JsonEntry;
use super::tree::{mode, relative};
use super::{About, Out, json};

#[derive(Serialize)]
struct JsonChange {
    change: &'static str,
    #[serde(flatten)]
    path: JsonPath,
    old: Option<JsonEntry>,
    new: Option<JsonEntry>,
}

#[derive(Serialize)]
struct JsonSides {
    old: String,
    new: String,
}

/// Totals of the changes.
#[derive(Default, Serialize)]
struct Totals {
    added: u64,
    added_bytes: u64,
    removed: u64,
    removed_bytes: u64,
    modified: u64,
    attributes: u64,
    types: u64,
}

/// Prints `diff`.
pub(crate) struct DiffPrinter<'a> {
    out: &'a mut Out,
    totals: Totals,
}

impl<'a> DiffPrinter<'a> {
    pub(crate) fn begin(
        out: &'a mut Out,
        about: About,
        old: &SnapshotInfo,
        new: &SnapshotInfo,
    ) -> Result<DiffPrinter<'a>> {
        if out.json {
            out.begin("diff", about)?;
            out.item(
                "snapshots",
                JsonSides {
                    old: old.id.to_string(),
                    new: new.id.to_string(),
                },
            )?;
        }
        Ok(DiffPrinter {
            out,
            totals: Totals::default(),
        })
    }

    pub(crate) fn difference(&mut self, difference: &Difference<'_>) -> Result<()> {
        let bytes = |entry: Option<&TreeEntry>| entry.and_then(json::size).unwrap_or(0);
        let totals = &mut self.totals;
        match difference.change {
            Change::Added => {
                totals.added += 1;
                totals.added_bytes += bytes(difference.new);
            }
            Change::Removed => {
                totals.removed += 1;
                totals.removed_bytes += bytes(difference.old);
            }
            Change::Modified => totals.modified += 1,
            Change::Attributes => totals.attributes += 1,
            Change::Type => totals.types += 1,
        }
        if self.out.json {
            let body = JsonChange {
                change: name(difference.change),
                path: JsonPath::new(difference.path.as_os_str().as_bytes()),
                old: difference.old.map(JsonEntry::new),
                new: difference.new.map(JsonEntry::new),
            };
            return self.out.item("difference", body);
        }
        self.out.line(text(difference))
    }

    pub(crate) fn end(self) -> Result<()> {
        let totals = self.totals;
        if self.out.json {
            return self.out.item("end", totals);
        }
        if self.out.quiet {
            return Ok(());
        }
        let (added, removed) = (size(totals.added_bytes), size(totals.removed_bytes));
        self.out.line(format!(
            "{} added ({added}), {} removed ({removed}), {} modified, {} with other attributes, {} of another type",
            count(totals.added),
            count(totals.removed),
            count(totals.modified),
            count(totals.attributes),
            count(totals.types)
        ))
    }
}

fn name(change: Change) -> &'static str {
    match change {
        Change::Added => "added",
        Change::Removed => "removed",
        Change::Modified => "modified",
        Change::Attributes => "attributes",
        Change::Type => "type",
    }
}

fn text(difference: &Difference<'_>) -> String {
    let sized = |entry: &TreeEntry| json::size(entry).map_or_else(String::new, |bytes| format!("  {}", size(bytes)));
    match (difference.change, difference.old, difference.new) {
        (Change::Added, _, Some(new)) => format!("+ {}{}", relative(difference.path, new), sized(new)),
        (Change::Removed, Some(old), _) => format!("- {}{}", relative(difference.path, old), sized(old)),
        (Change::Modified, Some(old), Some(new)) => {
            format!("M {}  {} → {}", path_text(difference.path), content(old), content(new))
        }
        (Change::Attributes, Some(old), Some(new)) => {
            format!("U {}{}", relative(difference.path, new), attributes(old, new))
        }
        (Change::Type, Some(old), Some(new)) => {
            format!(
                "T {}  {} → {}",
                path_text(difference.path),
                old.kind.description(),
                new.kind.description()
            )
        }
        // The library promises both sides of a change. Without them, print at least the path.
        (change, ..) => format!("{} {}", name(change), path_text(difference.path)),
    }
}

/// Returns the contents in short: a size, a target, a device.
fn content(entry: &TreeEntry) -> String {
    match &entry.kind {
        EntryKind::File(content) => size(content.length),
        EntryKind::Symlink(target) => escape(target),
        EntryKind::CharDevice { major, minor } | EntryKind::BlockDevice { major, minor } => format!("{major}:{minor}"),
        other => other.description().to_owned(),
    }
}

/// Returns the attributes that differ.
fn attributes(old: &TreeEntry, new: &TreeEntry) -> String {
    let mut text = String::new();
    if old.mode != new.mode {
        text += &format!("  {} → {}", mode(old), mode(new));
    }
    if (old.uid, old.gid) != (new.uid, new.gid) {
        text += &format!("  {}:{} → {}:{}", old.uid, old.gid, new.uid, new.gid);
    }
    if old.mtime != new.mtime {
        let (before, after) = (super::time::local(old.mtime), super::time::local(new.mtime));
        text += &match before == after {
            true => format!(
                "  {before}, {:+} ns",
                i64::from(new.mtime.nanos) - i64::from(old.mtime.nanos)
            ),
            false => format!("  {before} → {after}"),
        };
    }
    if old.inode_flags != new.inode_flags {
        text += &format!("  flags +{} → +{}", old.inode_flags, new.inode_flags);
    }
    if old.xattrs != new.xattrs {
        text += "  extended attributes";
    }
    text
}
