//! `ibid records stats`.

use super::{open, place, size_on_disk, verify};
use crate::args::RecordsStatsArgs;
use crate::commands::open::Context;
use crate::failure::{Outcome, Result};
use crate::print::{self, StoreStats};

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
