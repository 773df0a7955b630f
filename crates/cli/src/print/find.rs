//! What was found, path by path, and in which snapshots.

use super::json::{JsonEntry, JsonPath};
use super::numbers::{counted, size};
use super::table::{Align, Table};
use super::time::local;
use super::tree::{mode, shown};
use super::{About, Out, json};
use ibid_format::FileId;
use ibid_format::tree::{Entry, Time};
use ibid_repo::{Result, SnapshotInfo};
use serde::Serialize;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

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

/// A path in one snapshot.
struct Hit {
    snapshot: FileId,
    time: Time,
    mode: String,
    size: Option<u64>,
    mtime: Time,
}

/// Prints `find`: JSON at once, text when all is known, since it goes by path and the search by snapshot.
pub(crate) struct FindPrinter<'a> {
    out: &'a mut Out,
    found: BTreeMap<PathBuf, (String, Vec<Hit>)>,
    matches: u64,
}

impl<'a> FindPrinter<'a> {
    pub(crate) fn begin(out: &'a mut Out, about: About) -> Result<FindPrinter<'a>> {
        if out.json {
            out.begin("find", about)?;
        }
        Ok(FindPrinter {
            out,
            found: BTreeMap::new(),
            matches: 0,
        })
    }

    pub(crate) fn found(&mut self, info: &SnapshotInfo, path: &Path, entry: &Entry) -> Result<()> {
        self.matches += 1;
        if self.out.json {
            let body = JsonMatch {
                snapshot: info.id.to_string(),
                snapshot_time: super::time::rfc3339(info.snapshot.time),
                path: JsonPath::new(path.as_os_str().as_bytes()),
                entry: JsonEntry::new(entry),
            };
            return self.out.item("match", body);
        }
        let hit = Hit {
            snapshot: info.id,
            time: info.snapshot.time,
            mode: mode(entry),
            size: json::size(entry),
            mtime: entry.mtime,
        };
        let (name, hits) = self.found.entry(path.to_owned()).or_default();
        *name = shown(path, entry);
        hits.push(hit);
        Ok(())
    }

    /// Returns how many were found.
    pub(crate) fn end(self) -> Result<u64> {
        if self.out.json {
            self.out.item("end", JsonEnd { matches: self.matches })?;
            return Ok(self.matches);
        }
        for (name, hits) in self.found.values() {
            self.out.line(name)?;
            let mut table = Table::bare(&[Align::Left, Align::Left, Align::Left, Align::Right, Align::Left]);
            for hit in hits {
                let size = hit.size.map_or_else(|| "-".to_owned(), size);
                let id = format!("  {}", &hit.snapshot.to_string()[..8]);
                table.row(vec![
                    id,
                    local(hit.time),
                    hit.mode.clone(),
                    size,
                    format!("modified {}", local(hit.mtime)),
                ]);
            }
            for line in table.lines() {
                self.out.line(line)?;
            }
        }
        if !self.out.quiet {
            let files = counted(self.found.len() as u64, "path", "paths");
            self.out
                .line(format!("{files}, {}", counted(self.matches, "match", "matches")))?;
        }
        Ok(self.matches)
    }
}
