//! `ibid records stats`.

use super::{open, place, verify};
use crate::args::RecordsStatsArgs;
use crate::commands::open::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, StoreStats};
use std::path::Path;

pub(crate) fn run(context: &mut Context, args: &RecordsStatsArgs) -> Result<Outcome> {
    let store = open(context, &args.store)?;
    let found = verify::look(context, &store)?;
    let stats = StoreStats {
        namespaces: &found.namespaces,
        file_bytes: size_on_disk(place(&args.store)?)?,
        faults: found.faults_total,
    };
    print::records_stats(&mut context.out, &stats)?;
    Ok(if found.is_clean() {
        Outcome::Done
    } else {
        Outcome::Partial
    })
}

/// Bytes of all files in a folder.
fn size_on_disk(folder: &Path) -> Result<u64> {
    let failed = |source| Failure::local("look into", folder, source);
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let metadata = entry.metadata().map_err(failed)?;
        bytes += if metadata.is_dir() {
            size_on_disk(&entry.path())?
        } else {
            metadata.len()
        };
    }
    Ok(bytes)
}
