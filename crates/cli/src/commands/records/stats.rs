//! `ibid records stats`.

use super::{open, place, size_on_disk, stepping};
use crate::args::RecordsStatsArgs;
use crate::commands::open::Context;
use crate::commands::watch::Watch;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, StoreStats};

pub(crate) fn run(context: &mut Context, args: &RecordsStatsArgs) -> Result<Outcome> {
    let store = open(context, &args.store)?;
    let watch = Watch::start_records(context.global.quiet)?;
    let found = store.statistics(&mut stepping(&watch.monitor));
    watch.finish();
    let found = found?;
    if found.stopped {
        return Err(Failure::Interrupted("not everything was counted".into()));
    }
    let file_bytes = size_on_disk(place(&args.store)?)?;
    let is_sound = found.damaged == 0;
    print::records_stats(&mut context.out, &StoreStats { found, file_bytes })?;
    Ok(if is_sound { Outcome::Done } else { Outcome::Partial })
}
