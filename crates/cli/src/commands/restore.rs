//! `ibid restore`.

use std::path::Path;
use std::time::Instant;

use ibid_repo::{Overwrite, Repository, RestoreOptions};

use super::costs::{self, Costs, Meter};
use super::open::Context;
use super::thaw::Reading;
use super::watch::Watch;
use crate::args::{OverwriteRule, RestoreArgs};
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Asked, Verb};

pub(crate) fn run(context: &mut Context, args: RestoreArgs) -> Result<Outcome> {
    let started = Instant::now();
    let mut costs = Costs::new(context, &args.costs)?;
    let opened = context.open()?;
    costs.know(&opened)?;
    let info = opened.snapshot(&args.address.snapshot, &args.select)?;
    let overwrite = match args.overwrite {
        None => Overwrite::Refuse,
        Some(OverwriteRule::Always) => Overwrite::Always,
        Some(OverwriteRule::IfChanged) => Overwrite::IfChanged,
        Some(OverwriteRule::Never) => Overwrite::Never,
    };
    let options = RestoreOptions::default()
        .overwrite(overwrite)
        .include(args.include)
        .exclude(args.exclude)
        .verify(args.verify)
        .keep_damaged(args.keep_damaged)
        .numeric_ids(args.numeric_ids)
        .threads(args.threads.map(usize::from));
    let rehearse = |rehearsal: &Repository| {
        let from = info.at(&args.address.path);
        rehearsal
            .plan_restore(from, &args.destination, &options, |_, _| Ok(()))
            .map(drop)
    };
    let reading = Reading {
        of: "restore",
        verb: Verb::Restore,
        opened: &opened,
        thaw: &args.thaw,
        rehearse: &rehearse,
    };
    let Some(spent) = reading.begin(context, &mut costs)? else {
        return Ok(Outcome::Done);
    };
    // Rates are those of what moves, and not of a wait.
    let begun = if args.thaw.thaw { Instant::now() } else { started };
    let meter = costs.meter_after(context, spent);
    let watch = Watch::start_metered(Verb::Restore, context.global.quiet, &meter)?;
    let repository = opened.repository.watched_by(&watch.monitor);
    let from = info.at(&args.address.path);
    let result = if args.dry_run {
        let on_planned = |path: &Path, planned| print::planned(&mut context.out, path, planned);
        repository.plan_restore(from, &args.destination, &options, on_planned)
    } else {
        repository.restore(from, &args.destination, &options)
    };
    let problems = watch.finish();
    let left = "files restored so far are complete. To restore the rest, run it again with --overwrite if-changed";
    let summary = result.map_err(Failure::if_interrupted(left));
    let summary = summary.map_err(|failure| Meter::explain(&meter, failure))?;
    costs::remember_rates(&opened, begun);
    let asked = Asked {
        dry_run: args.dry_run,
        verify: options.verify && !args.dry_run,
        duration_ms: started.elapsed().as_millis() as u64,
    };
    print::restore(&mut context.out, opened.about, &info, asked, &summary, &problems)?;
    if args.dry_run {
        print::must_be_thawed(opened.repository.archived_for(rehearse)?.waiting());
    }
    if summary.failed > 0 && opened.repository.has_snapshot(info.id).is_ok_and(|is_there| !is_there) {
        print::forgotten_meanwhile(&info.short_id());
        return Ok(Outcome::Partial);
    }
    if summary.failed > 0 && !args.dry_run {
        // What was thawed may have been put back meanwhile.
        let again = options.clone().overwrite(Overwrite::IfChanged);
        let packs = opened.repository.archived_for(|rehearsal| {
            let from = info.at(&args.address.path);
            rehearsal
                .plan_restore(from, &args.destination, &again, |_, _| Ok(()))
                .map(drop)
        });
        if let Ok(packs) = packs {
            print::still_archived(packs.waiting(), "--thaw and --overwrite if-changed");
        }
    }
    Ok(if summary.failed > 0 {
        Outcome::Partial
    } else {
        Outcome::Done
    })
}
