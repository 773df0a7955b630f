//! `ibid repair`.

use ibid_repo::RepairOptions;
use ibid_storage::SWEEP_AGE;

use super::open::Context;
use super::watch::Watch;
use crate::args::RepairArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};

pub(crate) fn run(context: &mut Context, args: &RepairArgs) -> Result<Outcome> {
    let (opened, config_made) = context.open_to_repair(args.dry_run)?;
    if !args.dry_run
        && let Some(swept) = opened.place.sweep(SWEEP_AGE)
        && swept.files > 0
        && !context.global.quiet
    {
        print::swept(swept.files, swept.bytes);
    }
    let options = RepairOptions::default()
        .dry_run(args.dry_run)
        .fast(args.fast)
        .delete_damaged(args.delete_damaged);
    let watch = Watch::start(Verb::Look, context.global.quiet)?;
    let result = opened.repository.watched_by(&watch.monitor).repair(&options);
    watch.finish();
    let left = "nothing is lost by that. Run it again to repair the rest";
    let report = result.map_err(Failure::if_interrupted(left))?;
    print::repair(&mut context.out, opened.about, &report, config_made)?;
    let is_whole = report.check.is_clean() && !(config_made && args.dry_run);
    Ok(if is_whole && report.lost_snapshots() == 0 {
        Outcome::Done
    } else {
        Outcome::Faults
    })
}
