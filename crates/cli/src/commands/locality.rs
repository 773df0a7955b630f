//! `ibid bench duplicate-locality` and `ibid bench locality`.

use ibid_bench::{
    DuplicateLocalityPlan, Error, LocalityPlan, duplicate_locality, duplicate_locality_html, locality, locality_html,
};
use ibid_chunk::Chunker;
use ibid_chunk::locality::{Criterion, HintedChunker};

use super::observe::Observed;
use super::open::Context;
use super::output;
use super::watch::Watch;
use crate::args::{DuplicateLocalityArgs, LocalityArgs};
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};

pub(crate) fn run_duplicates(context: &mut Context, args: &DuplicateLocalityArgs) -> Result<Outcome> {
    let outputs = [args.report.as_deref(), args.json.file()];
    outputs.into_iter().flatten().try_for_each(output::check_place)?;
    let settings = args.chunker.settings();
    let plan = DuplicateLocalityPlan {
        paths: args.paths.clone(),
        settings: settings.map_err(|error| Failure::Usage(format!("--sizes: {error}")))?,
        checkpoints: args.checkpoints as usize,
    };
    let watch = Watch::start(Verb::Look, context.global.quiet)?;
    let mut observed = Observed::new(&watch.monitor);
    let found = duplicate_locality(&plan, &mut observed);
    let is_complete = observed.is_complete;
    watch.finish();
    let found = found.map_err(|error| match error {
        Error::Stopped => Failure::Interrupted("nothing was written".into()),
        error => error.into(),
    })?;
    if let Some(path) = &args.report {
        output::write(path, &duplicate_locality_html(&found))?;
    }
    if let Some(path) = args.json.file() {
        output::write(path, &print::duplicate_locality_json(&found)?)?;
    }
    print::duplicate_locality(&mut context.out, &found)?;
    Ok(if is_complete { Outcome::Done } else { Outcome::Partial })
}

pub(crate) fn run(context: &mut Context, args: &LocalityArgs) -> Result<Outcome> {
    let outputs = [args.report.as_deref(), args.json.file()];
    outputs.into_iter().flatten().try_for_each(output::check_place)?;
    let plan = plan(args)?;
    let watch = Watch::start(Verb::Look, context.global.quiet)?;
    let mut observed = Observed::new(&watch.monitor);
    let found = locality(&plan, &mut observed);
    let is_complete = observed.is_complete;
    watch.finish();
    let found = found.map_err(|error| match error {
        Error::Stopped => Failure::Interrupted("nothing was written".into()),
        error => error.into(),
    })?;
    if let Some(path) = &args.report {
        output::write(path, &locality_html(&found))?;
    }
    if let Some(path) = args.json.file() {
        output::write(path, &print::locality_json(&found)?)?;
    }
    print::locality(&mut context.out, &found)?;
    Ok(if is_complete { Outcome::Done } else { Outcome::Partial })
}

fn plan(args: &LocalityArgs) -> Result<LocalityPlan> {
    let contenders = args.contenders();
    let chunkers = contenders.map_err(|error| Failure::Usage(format!("--sizes: {error}")))?;
    // Who names a criterion wants to see it.
    for settings in &chunkers {
        let chunker = Chunker::new(settings).map_err(|error| Failure::Usage(format!("--sizes: {error}")))?;
        for criterion in &args.criteria {
            HintedChunker::new(&chunker, *criterion).map_err(|error| Failure::Usage(format!("--criteria: {error}")))?;
        }
    }
    Ok(LocalityPlan {
        data: args.data(),
        chunkers,
        criteria: match &args.criteria[..] {
            [] => Criterion::ALL.to_vec(),
            named => named.to_vec(),
        },
        lists: args.lists.clone(),
        worst: args.worst,
        threads: args.thread_counts(),
        store: args.store.clone(),
    })
}
