//! `ibid copy`.

use std::time::Instant;

use ibid_repo::{CopiedSnapshot, CopyOptions, CopyOutcome, MEMORY_MIN, Repository, SnapshotInfo};
use ibid_terminal::number::size;

use super::PROGRAM;
use super::backup::sweep;
use super::costs::{self, Costs, Meter};
use super::open::{Context, Opened};
use super::thaw::Reading;
use super::watch::Watch;
use crate::args::{CopyArgs, PasswordArgs, Whose};
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};

pub(crate) fn run(context: &mut Context, args: &CopyArgs) -> Result<Outcome> {
    let (source_memory, destination_memory) = shares(context.global.memory)?;
    let started = Instant::now();
    let mut costs = Costs::new(context, &args.costs)?;
    let source = context.open()?;
    costs.know(&source)?;
    let (chosen, mut outcome) = chosen(&source, args)?;
    let there = destination(context, args);
    let changes_nothing = args.dry_run || args.costs.estimate;
    let destination = match changes_nothing {
        true => there.open()?,
        false => there.open_to_store()?,
    };
    destination.place.refuse_deltas(args.similarity)?;
    costs.know(&destination)?;
    if !changes_nothing {
        sweep(context, &destination);
    }
    let options = CopyOptions::default()
        .dry_run(args.dry_run)
        .program(PROGRAM)
        .compression(args.compression)
        .similarity(args.similarity)
        .threads(args.threads.map(usize::from));
    let rehearse = |rehearsal: &Repository| {
        let to = destination.repository.rehearsing()?;
        let options = options.clone().dry_run(true);
        rehearsal.copy_to(&to, &chosen, &options).map(drop)
    };
    let reading = Reading {
        of: "copy",
        verb: Verb::Look,
        opened: &source,
        thaw: &args.thaw,
        rehearse: &rehearse,
    };
    let spent = reading.begin_with(context, &mut costs, |context, costs| match costs.is_wanted() {
        true => rehearsed(context, costs, &source, &destination, &chosen, &options),
        false => Ok(true),
    })?;
    let Some(spent) = spent else {
        return Ok(outcome);
    };
    // Rates are those of what moves, and not of a wait.
    let begun = if args.thaw.thaw { Instant::now() } else { started };
    let meter = costs.meter_after(context, spent);
    let watch = Watch::start_metered(Verb::Look, context.global.quiet, &meter)?;
    let from = source
        .repository
        .clone()
        .with_memory(source_memory)?
        .watched_by(&watch.monitor);
    let to = destination
        .repository
        .clone()
        .with_memory(destination_memory)?
        .watched_by(&watch.monitor);
    let summary = from.copy_to(&to, &chosen, &options);
    watch.finish();
    let left = "copies that were complete stay, and the next copy goes on from there";
    let summary = summary.map_err(Failure::if_interrupted(left));
    let summary = summary.map_err(|failure| Meter::explain(&meter, failure))?;
    for opened in [&source, &destination] {
        costs::remember_rates(opened, begun);
    }
    print::copied(
        &mut context.out,
        source.about,
        destination.about,
        &summary,
        args.dry_run,
    )?;
    if args.dry_run {
        print::must_be_thawed(source.repository.archived_for(rehearse)?.waiting());
    }
    let failures = summary.snapshots.iter().filter_map(|one| match &one.outcome {
        CopyOutcome::Failed(error) => Some(error),
        _ => None,
    });
    let (mut failed, mut archived) = (false, false);
    for error in failures {
        (failed, archived) = (true, archived || error.is_archived());
    }
    // What was asked for by name is missed. Of all there are, those that are kept are copied.
    let is_missed = |one: &CopiedSnapshot| matches!(one.outcome, CopyOutcome::Forgotten);
    if failed || !args.snapshots.is_empty() && summary.snapshots.iter().any(is_missed) {
        outcome = Outcome::Partial;
    }
    if archived && let Ok(packs) = source.repository.archived_for(rehearse) {
        print::still_archived(packs.waiting(), "--thaw");
    }
    Ok(outcome)
}

/// Estimates the copy. Returns whether to go on with it.
fn rehearsed(
    context: &mut Context,
    costs: &Costs,
    source: &Opened,
    destination: &Opened,
    chosen: &[SnapshotInfo],
    options: &CopyOptions,
) -> Result<bool> {
    let watch = Watch::start(Verb::Look, context.global.quiet)?;
    let from = source.repository.rehearsing()?.watched_by(&watch.monitor);
    let to = destination.repository.rehearsing()?.watched_by(&watch.monitor);
    let copied = from.copy_to(&to, chosen, &options.clone().dry_run(true));
    watch.finish();
    copied?;
    let estimated = costs.of(context, &[(source, &from), (destination, &to)]);
    costs.end(context, "copy", source, &estimated)
}

/// Returns the shares of the source and of the destination in the memory. The destination searches for similar
/// chunks, and has the buffers.
fn shares(memory: u64) -> Result<(u64, u64)> {
    let source = (memory / 3).max(MEMORY_MIN);
    match memory.checked_sub(source).filter(|left| *left >= MEMORY_MIN) {
        Some(destination) => Ok((source, destination)),
        None => Err(Failure::Usage(format!(
            "a copy works with two repositories. Give --memory at least {}",
            size(2 * MEMORY_MIN)
        ))),
    }
}

/// Returns the snapshots to copy. One that can't be read is named, if no others were asked for.
fn chosen(source: &Opened, args: &CopyArgs) -> Result<(Vec<SnapshotInfo>, Outcome)> {
    match args.snapshots.as_slice() {
        [] => source.snapshots(&args.select),
        names => Ok((source.chosen(names, &args.select)?, Outcome::Done)),
    }
}

/// Returns what opens the destination.
fn destination(context: &Context, args: &CopyArgs) -> Context {
    let password = PasswordArgs {
        password_file: args.to_password_file.clone(),
        password_command: args.to_password_command.clone(),
        whose: Whose::Destination,
    };
    context.of_another(args.to.clone(), password, args.to_unencrypted)
}
