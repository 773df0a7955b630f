//! Everything that users see. Data goes to standard output, everything else to standard error.
//!
//! With `--json`, standard output carries only JSON: one document, or, for commands that list things,
//! one object per line between a `begin` and an `end`. Without `--json` it carries text. Names are
//! escaped, so that no file name can control the terminal.

mod backup;
mod cache;
mod check;
mod copy;
mod costs;
mod diff;
mod find;
mod init;
pub(crate) mod json;
mod key;
mod listening;
mod records;
mod repair;
mod restore;
mod rewrite;
pub(crate) mod run;
mod snapshots;
mod stats;
mod storage;
mod tag;
mod talk;
mod thaw;
mod time;
mod tree;
mod unfinished;
mod upkeep;

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(crate) use backup::backup;
pub(crate) use cache::{cache_cleared, cache_stats};
pub(crate) use check::check;
pub(crate) use copy::copied;
pub(crate) use costs::{costs, money, requests_text};
pub(crate) use diff::DiffPrinter;
pub(crate) use find::FindPrinter;
use ibid_format::FileId;
use ibid_repo::{Error, FilePart, Party, Repository, Result};
use ibid_terminal::Output;
use ibid_terminal::json::Item;
pub(crate) use init::init;
pub(crate) use key::{KeyDone, key_done, keys, writer_added, writer_key};
pub(crate) use listening::{NotAnswered, serving};
pub(crate) use records::{
    BadLine, Compacted, ExpirePrinter, FoundPrinter, GetPrinter, Indexed, Loaded, Purged, ScanPrinter, Scanned,
    StoreStats, records_batch, records_compact, records_delete, records_followed, records_index, records_latest,
    records_load, records_promoted, records_purge, records_put, records_repair, records_retention, records_salvage,
    records_stats, records_verify, records_versions,
};
pub(crate) use repair::repair;
pub(crate) use restore::{Asked, planned, restore};
pub(crate) use rewrite::{Rewritten, rewritten};
use serde::Serialize;
pub(crate) use snapshots::{Listed, none_match, snapshots};
pub(crate) use stats::stats;
pub(crate) use storage::storage_test;
pub(crate) use tag::{Tagged, tagged};
pub(crate) use talk::{
    Copying, Verb, answers_again, ask, bad_line, cheap_guesses, denied, failure, fatal, forgotten_for_gap,
    forgotten_for_good, forgotten_meanwhile, kept_settings, more_lost, new_store, not_as_of, not_copied, not_indexed,
    passed_over, question, records_copying, records_fenced, records_published, records_retrying, requests, silent,
    swept, unencrypted, unique_keys, untried_key, usage, warning, writers_not_pruned,
};
pub(crate) use thaw::{must_be_thawed, still_archived, thaw_asked, thaw_begins, thaw_goes_on};
pub(crate) use time::local as local_time;
pub(crate) use tree::{Format, LsPrinter};
pub(crate) use upkeep::{Forgotten, Pruned, forgotten, prune_estimate, pruned, remembered, sessions, would_prune};

use crate::commands::Servers;

/// The repository of a JSON document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    pub(crate) repository: FileId,
    pub(crate) encrypted: bool,
    pub(crate) party: Party,
}

impl About {
    pub(crate) fn of(repository: &Repository) -> About {
        About {
            repository: repository.id(),
            encrypted: repository.is_encrypted(),
            party: repository.party(),
        }
    }
}

/// Standard output.
pub(crate) struct Out {
    output: Output,
    /// Where JSON goes instead of standard output.
    caught: Option<Vec<serde_json::Value>>,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    /// What documents tell the requests of.
    pub(crate) servers: Servers,
}

impl Out {
    pub(crate) fn new(json: bool, quiet: bool) -> Out {
        Out {
            output: Output::new(),
            caught: None,
            json,
            quiet,
            servers: Servers::default(),
        }
    }

    /// Returns an output that keeps JSON for [`Out::caught`].
    pub(crate) fn catching() -> Out {
        Out {
            caught: Some(Vec::new()),
            ..Out::new(true, true)
        }
    }

    /// Returns the JSON that was kept instead of printed, one value a line.
    pub(crate) fn caught(self) -> Vec<serde_json::Value> {
        self.caught.unwrap_or_default()
    }

    /// Writes `bytes` unchanged.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.output.raw().write_all(bytes).map_err(failed)
    }

    /// Writes a part of a file unchanged. At the end of a regular file, holes take no space.
    pub(crate) fn part(&mut self, part: FilePart<'_>) -> std::io::Result<()> {
        match part {
            FilePart::Data(bytes) => self.output.raw().write_all(bytes),
            FilePart::Hole(length) => self.output.zeros(length),
        }
    }

    /// Returns a writer for bytes that are written unchanged.
    pub(crate) fn raw(&mut self) -> &mut dyn Write {
        self.output.raw()
    }

    /// Whether standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.output.is_terminal()
    }

    /// Prints a line of text. Names must have been escaped.
    fn line(&mut self, text: impl AsRef<str>) -> Result<()> {
        self.output.line(text).map_err(failed)
    }

    /// Writes a path in a snapshot as it is, from the root on, and a NUL byte.
    fn null_path(&mut self, path: &Path) -> Result<()> {
        self.bytes(&[b"/", path.as_os_str().as_bytes(), b"\0"].concat())
    }

    fn json(&mut self, value: &impl Serialize) -> Result<()> {
        match &mut self.caught {
            Some(caught) => {
                caught.push(serde_json::to_value(value).map_err(|error| failed(error.into()))?);
                Ok(())
            }
            None => self.output.json(value).map_err(failed),
        }
    }

    /// Prints the document of a command.
    fn document(
        &mut self,
        command: &'static str,
        about: impl Into<Option<About>>,
        body: &impl Serialize,
    ) -> Result<()> {
        let requests = self.servers.requests();
        self.json(&json::Document::new(command, about, body).with(requests))
    }

    /// Prints the `begin` line.
    fn begin(&mut self, command: &'static str, about: About) -> Result<()> {
        self.begin_with(command, about, &json::Nothing {})
    }

    /// Prints the `begin` line with more fields.
    fn begin_with(
        &mut self,
        command: &'static str,
        about: impl Into<Option<About>>,
        body: &impl Serialize,
    ) -> Result<()> {
        self.json(&Item {
            kind: "begin",
            body: json::Document::new(command, about, body),
        })
    }

    /// Prints one object on a line. The last one has the kind `end`.
    fn item(&mut self, kind: &'static str, body: impl Serialize) -> Result<()> {
        self.json(&Item { kind, body })
    }

    /// Flushes standard output.
    ///
    /// # Errors
    /// A full disk, a closed pipe.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.output.flush().map_err(failed)
    }
}

fn failed(source: std::io::Error) -> Error {
    Error::Pipe {
        action: "write to standard output",
        source,
    }
}
