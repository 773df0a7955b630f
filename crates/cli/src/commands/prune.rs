//! `ibid prune`.

use std::time::Instant;

use ibid_repo::{FileId, PruneEstimate, PruneOptions, PruneSummary};

use super::costs::{self, Costs, Meter};
use super::open::{Context, Opened};
use super::watch::Watch;
use crate::args::PruneArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};

pub(crate) fn run(context: &mut Context, args: &PruneArgs) -> Result<Outcome> {
    let started = Instant::now();
    let costs = Costs::new(context, &args.costs)?;
    let opened = context.open()?;
    context.check_lock(&opened)?;
    costs.know(&opened)?;
    let mut options = PruneOptions::default()
        .max_unused(args.limits.max_unused)
        .max_repack(args.limits.max_repack)
        .patience(args.limits.patience);
    if args.dry_run {
        let estimate = estimate(context, &opened, &[], &options)?;
        print::prune_estimate(&mut context.out, opened.about, &estimate)?;
        return Ok(outcome(&estimate));
    }
    options = options
        .give_up_on(given_up(&opened, &args.give_up_on)?)
        .exclusive(args.exclusive);
    let goes_on = costs.begin(context, "prune", &opened, |context, rehearsal| {
        let summary = rehearsal.prune(&options)?;
        if args.costs.estimate {
            print::would_prune(&mut context.out, opened.about, &summary.estimate)?;
        }
        Ok(())
    })?;
    if !goes_on {
        return Ok(Outcome::Done);
    }
    let summary = prune(context, &opened, &options, &costs)?;
    costs::remember_rates(&opened, started);
    print::pruned(&mut context.out, opened.about, &summary)?;
    if !context.global.quiet && !context.global.json {
        print::writers_not_pruned(summary.writers);
    }
    Ok(outcome(&summary.estimate))
}

/// Returns how a prune ends that found this: as a backup, if packs are damaged.
pub(crate) fn outcome(estimate: &PruneEstimate) -> Outcome {
    match estimate.lost_packs {
        0 => Outcome::Done,
        _ => Outcome::Partial,
    }
}

/// Returns how `forget --prune` prunes.
pub(crate) fn default_options() -> PruneOptions {
    PruneOptions::default()
}

/// Prunes, with progress.
pub(crate) fn prune(context: &Context, opened: &Opened, options: &PruneOptions, costs: &Costs) -> Result<PruneSummary> {
    let meter = costs.meter(context);
    let watch = Watch::start_metered(Verb::Look, context.global.quiet, &meter)?;
    let summary = opened.repository.watched_by(&watch.monitor).prune(options);
    watch.finish();
    let summary = summary.map_err(Failure::if_interrupted("the next prune goes on from there"));
    summary.map_err(|failure| Meter::explain(&meter, failure))
}

/// Returns what a prune would do if these snapshots were forgotten, with progress.
pub(crate) fn estimate(
    context: &Context,
    opened: &Opened,
    forgotten: &[FileId],
    options: &PruneOptions,
) -> Result<PruneEstimate> {
    let watch = Watch::start(Verb::Look, context.global.quiet)?;
    let repository = opened.repository.watched_by(&watch.monitor);
    let estimate = repository.prune_estimate_without(forgotten, options);
    watch.finish();
    Ok(estimate?)
}

/// Returns the sessions whose ids begin so.
fn given_up(opened: &Opened, wanted: &[String]) -> Result<Vec<FileId>> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut damaged = Vec::new();
    let sessions = opened.repository.sessions(|id, _| damaged.push(id))?;
    let ids: Vec<FileId> = sessions.iter().map(|info| info.id).chain(damaged).collect();
    let mut found = Vec::new();
    for wanted in wanted {
        let matching: Vec<FileId> = ids
            .iter()
            .filter(|id| id.to_string().starts_with(&wanted.to_ascii_lowercase()))
            .copied()
            .collect();
        match matching.as_slice() {
            [id] => found.push(*id),
            [] => {
                return Err(Failure::Fatal(format!(
                    "there is no session {wanted:?}. `ibid sessions` lists those that there are"
                )));
            }
            _ => return Err(Failure::Usage(format!("several sessions begin with {wanted:?}"))),
        }
    }
    Ok(found)
}
