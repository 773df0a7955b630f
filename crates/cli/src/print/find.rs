//! Prints `find`.

use std::path::Path;

use ibid_format::FileId;
use ibid_format::tree::TreeEntry;
use ibid_repo::{Result, SnapshotInfo};
use ibid_terminal::escape;
use ibid_terminal::json::JsonPath;
use ibid_terminal::number::{counted, size};
use serde::Serialize;

use super::json::JsonEntry;
use super::time::local;
use super::tree::{from_root, mode, shown};
use super::{About, Out, json};

#[derive(Serialize)]
struct JsonMatch {
    snapshot: String,
    snapshot_time: String,
    #[serde(flatten)]
    path: JsonPath,
    #[serde(flatten)]
    entry: JsonEntry,
}

#[derive(Serialize)]
struct JsonEnd {
    matches: u64,
}

/// Prints matches as they arrive, without collecting them.
pub(crate) struct FindPrinter<'a> {
    out: &'a mut Out,
    /// The snapshot of the last match.
    last: Option<FileId>,
    snapshots: u64,
    matches: u64,
    /// Whether to print nothing but paths, with NUL bytes.
    null: bool,
}

impl<'a> FindPrinter<'a> {
    pub(crate) fn begin(out: &'a mut Out, about: About, null: bool) -> Result<FindPrinter<'a>> {
        if out.json {
            out.begin("find", about)?;
        }
        Ok(FindPrinter {
            out,
            last: None,
            snapshots: 0,
            matches: 0,
            null,
        })
    }

    pub(crate) fn found(&mut self, info: &SnapshotInfo, path: &Path, entry: &TreeEntry) -> Result<()> {
        self.matches += 1;
        if self.out.json {
            let body = JsonMatch {
                snapshot: info.id.to_string(),
                snapshot_time: super::time::rfc3339(info.snapshot.time),
                path: from_root(path),
                entry: JsonEntry::new(entry),
            };
            return self.out.item("match", body);
        }
        if self.null {
            return self.out.null_path(path);
        }
        if self.last.replace(info.id) != Some(info.id) {
            self.snapshots += 1;
            let host = escape(info.snapshot.host.as_bytes());
            let time = local(info.snapshot.time);
            self.out.line(format!("snapshot {}  {time}  {host}", info.short_id()))?;
        }
        let size = json::size(entry).map_or_else(|| "-".to_owned(), size);
        let (mode, mtime, name) = (mode(entry), local(entry.mtime), shown(path, entry));
        self.out.line(format!("  {mode}  {size:>10}  {mtime}  {name}"))
    }

    /// Prints the number of matches.
    pub(crate) fn end(self) -> Result<()> {
        if self.out.json {
            return self.out.item("end", JsonEnd { matches: self.matches });
        }
        if self.out.quiet || self.null {
            return Ok(());
        }
        let snapshots = counted(self.snapshots, "snapshot", "snapshots");
        let matches = counted(self.matches, "match", "matches");
        self.out.line(format!("{matches} in {snapshots}"))
    }
}
