//! `ibid records stats`.

use super::{open_to_read, place, size_on_disk, stepping, unique};
use crate::args::RecordsStatsArgs;
use crate::commands::open::Context;
use crate::commands::watch::Watch;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, StoreStats};

pub(crate) fn run(context: &mut Context, args: &RecordsStatsArgs) -> Result<Outcome> {
    let store = open_to_read(context, &args.store)?;
    let watch = Watch::start_records(context.global.quiet)?;
    let found = store.statistics(&mut stepping(&watch.monitor));
    watch.finish();
    let found = found?;
    if found.stopped {
        return Err(Failure::Interrupted("not everything was counted".into()));
    }
    let file_bytes = size_on_disk(place(&args.store)?)?;
    let is_sound = found.damaged == 0;
    let unique_keys: Vec<bool> = found.namespaces.iter().map(unique::are_unique).collect();
    let unique = found.namespaces.iter().zip(&unique_keys).filter(|(_, unique)| **unique);
    let unique = unique.filter(|(found, _)| unique::are_kept_apart(found.latest_as));
    let names: Vec<_> = unique.map(|(found, _)| (found.name.clone(), found.latest_as)).collect();
    let stats = StoreStats {
        found,
        unique_keys,
        file_bytes,
    };
    print::records_stats(&mut context.out, &stats)?;
    names
        .iter()
        .for_each(|(name, latest)| print::unique_keys(name, *latest));
    Ok(if is_sound { Outcome::Done } else { Outcome::Partial })
}
