//! Making an engine of the segments alone, where redb's file is lost.
//!
//! Segments have whole commits (`docs/format/records.md`, "Log of commits"): all keys and values that were stored while
//! the log was in them, and those that were moved there since. So they have every value of which redb has the place
//! only. What segments had that were removed is gone: short values, most entries of keys, and that something was
//! removed.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use ibid_format::record::{
    COMMIT_CHECK_BYTES, COMMIT_HEAD_BYTES, COMMIT_LOG_COMMITS_AT, COMMIT_LOG_HEADER_BYTES, CheckHash, CommitChange,
    CommitHasher, CommitHead, CommitLogId, commit_log_id,
};
use redb::StorageBackend;

use super::segments::{Folder, SegmentFiles};
use super::{ENGINE, Redb};
use crate::engine::{Commit, Engine, EngineError, Table};

/// Bytes that are searched at once for the next commit behind damage.
const SEARCHED_BYTES: usize = 1 << 20;
const HEAD: u64 = COMMIT_HEAD_BYTES as u64;
const CHECK: u64 = COMMIT_CHECK_BYTES as u64;

impl Redb {
    /// Makes an engine at `into` of the segments beside the file at `path`, which need not be there: of all that their
    /// commits have stored, in the order of the commits, as far as they can be read. Calls `progress` with the length
    /// of each commit; it may stop the work.
    ///
    /// What was removed by commits in segments that are gone is there again.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if there are no segments; [`EngineError::Io`] if the new engine can't be written.
    pub fn from_segments(
        path: &Path,
        into: &Path,
        cache_bytes: usize,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Self, EngineError> {
        let io = |source| EngineError::io("read the segments of", path, source);
        let folder = Folder::beside(path);
        let mut segments = Vec::new();
        for number in folder.numbers().map_err(io)? {
            let file = folder.open_read_only(number).map_err(io)?;
            let mut header = [0; COMMIT_LOG_HEADER_BYTES];
            let said = file
                .read(0, &mut header)
                .ok()
                .and_then(|()| commit_log_id(&header).ok());
            segments.push((file, said));
        }
        let Some(id) = segments.iter().find_map(|(_, said)| said.map(|(id, _)| id)) else {
            let (path, found) = (path.to_owned(), "no segment says which log it is of".to_owned());
            return Err(EngineError::Damaged {
                engine: ENGINE,
                path,
                found,
            });
        };
        let engine = Redb::open(into, cache_bytes)?;
        let mut last = 0;
        for (file, said) in segments {
            let segment = Segment {
                file: &*file,
                id,
                hash: said.map_or(CheckHash::Xxh3, |(_, hash)| hash),
            };
            if segment.repeat(&engine, &mut last, progress)?.is_break() {
                break;
            }
        }
        Ok(engine)
    }
}

struct Segment<'s> {
    file: &'s dyn StorageBackend,
    id: CommitLogId,
    hash: CheckHash,
}

impl Segment<'_> {
    /// Repeats the commits after `last` in the engine, and sets that to the last one of them.
    fn repeat(
        &self,
        engine: &Redb,
        last: &mut u64,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, EngineError> {
        let Ok(length) = self.file.len() else {
            return Ok(ControlFlow::Continue(()));
        };
        let mut at = COMMIT_LOG_COMMITS_AT;
        while let Some((found, head)) = self.next(at, length) {
            let end = found.saturating_add(HEAD + CHECK).saturating_add(head.length);
            if end > length {
                at = found + 1;
                continue;
            }
            at = end;
            // What is behind the end of the log was there before.
            if head.number > *last {
                *last = head.number;
                // Damage in the middle of a commit leaves the rest: each value has its own checksum.
                if let Ok((changes, is_whole)) = self.changes(found, &head) {
                    apply(engine, &changes, is_whole)?;
                }
                if progress(head.length).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the next commit from a place on.
    fn next(&self, from: u64, length: u64) -> Option<(u64, CommitHead)> {
        let mut at = from;
        while at + HEAD <= length {
            // Nearly always it is where the one before has ended.
            let room = if at == from { COMMIT_HEAD_BYTES } else { SEARCHED_BYTES };
            let mut bytes = vec![0; room.min(usize::try_from(length - at).unwrap_or(room))];
            if self.file.read(at, &mut bytes).is_ok()
                && let Some((place, head)) = CommitHead::find(&self.id, &bytes, 0)
            {
                return Some((at + place as u64, head));
            }
            // A head may begin in these bytes and end behind them.
            at += (bytes.len() + 1).saturating_sub(COMMIT_HEAD_BYTES).max(1) as u64;
        }
        None
    }

    /// Reads the changes of a commit. Returns whether they are as they were written, too.
    fn changes(&self, at: u64, head: &CommitHead) -> io::Result<(Vec<u8>, bool)> {
        let length = usize::try_from(head.length + CHECK).map_err(io::Error::other)?;
        let mut changes = Vec::new();
        changes.try_reserve_exact(length).map_err(io::Error::other)?;
        changes.resize(length, 0);
        self.file.read(at + HEAD, &mut changes)?;
        let check = changes.split_off(head.length as usize);
        let mut hasher = CommitHasher::new(self.hash);
        hasher.update(&changes);
        let is_whole = hasher.finish(&head.encode(&self.id))[..] == check[..];
        Ok((changes, is_whole))
    }
}

/// Makes the changes of a commit. If some of it is damaged, removes nothing: it could be what was meant to stay.
fn apply(engine: &Redb, changes: &[u8], is_whole: bool) -> Result<(), EngineError> {
    engine.write(Commit::Unsynced, &mut |transaction| {
        let done = CommitChange::decode_all(changes, |change| match (Table::of_number(change.table), change.value) {
            (Some(table), Some(value)) => transaction.put(table, change.key, value).map_err(Problem::Engine),
            (Some(table), None) if is_whole => transaction.delete(table, change.key).map_err(Problem::Engine),
            _ => Ok(()),
        });
        match done {
            Err(Problem::Engine(error)) if !matches!(error, EngineError::TooLarge { .. }) => Err(error),
            _ => Ok(()),
        }
    })
}

enum Problem {
    Format,
    Engine(EngineError),
}

impl From<ibid_format::Error> for Problem {
    fn from(_: ibid_format::Error) -> Self {
        Problem::Format
    }
}
