//! `ibid records compact`.

use std::path::Path;
use std::time::Instant;

use ibid_record::Store;
use ibid_terminal::number::counted;

use super::{is_there, none_there, open_at, options_to_store, place, size_on_disk, stepping};
use crate::args::CompactArgs;
use crate::commands::open::Context;
use crate::commands::watch::Watch;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Compacted};

pub(crate) fn run(context: &mut Context, args: &CompactArgs) -> Result<Outcome> {
    let path = place(&args.store)?;
    if !is_there(path)? {
        return Err(none_there(path));
    }
    let before = size_on_disk(path)?;
    let watch = Watch::start_records(context.global.quiet)?;
    let store = open_at(context, path, options_to_store(context), false)?;
    let compacted = Work::begin(before).carry_out(store, path, &watch);
    let stopped = watch.monitor.is_cancelled();
    watch.finish();
    let compacted = compacted?;
    if stopped {
        return Err(Failure::Interrupted(left_by(&compacted).into()));
    }
    print::records_compact(&mut context.out, &compacted)?;
    Ok(Outcome::Done)
}

/// Describes the state that an interrupted compaction left.
pub(super) fn left_by(compacted: &Compacted) -> String {
    let records = compacted.records;
    let packed = counted(records, "record was compressed", "records were compressed");
    format!("{packed} until then; the next `ibid records compact` continues from there")
}

/// A compaction in progress.
pub(super) struct Work {
    started: Instant,
    file_bytes_before: u64,
}

impl Work {
    /// Starts a compaction of a store whose files have `file_bytes_before` bytes.
    pub(super) fn begin(file_bytes_before: u64) -> Work {
        Work {
            started: Instant::now(),
            file_bytes_before,
        }
    }

    /// Compacts a store and closes it. Only closing gives its files their final sizes.
    pub(super) fn carry_out(self, store: Store, path: &Path, watch: &Watch) -> Result<Compacted> {
        let done = store.compact(&mut stepping(&watch.monitor))?;
        drop(store);
        Ok(Compacted {
            records: done.records,
            bytes_before: done.bytes_before,
            bytes_after: done.bytes_after,
            wiped: done.wiped,
            purged_for_log: done.purged_for_log,
            file_bytes_before: self.file_bytes_before,
            file_bytes_after: size_on_disk(path)?,
            duration_ms: self.started.elapsed().as_millis() as u64,
        })
    }
}
