//! `ibid-bench duplicate-locality` and `ibid-bench locality`.

use ibid_bench::{
    DuplicateLocalityPlan, LocalityPlan, duplicate_locality, duplicate_locality_html, locality, locality_html,
    preferred_chunker,
};
use ibid_chunk::locality::{Criterion, HintedChunker};
use ibid_terminal::Unit;

use crate::args::{DuplicateLocalityArgs, LocalityArgs};
use crate::failure::{Failure, Outcome, Result};
use crate::output::Files;
use crate::print;
use crate::watch::Watch;

pub(crate) fn run_duplicates(args: &DuplicateLocalityArgs, quiet: bool) -> Result<Outcome> {
    let files = Files {
        json: &args.json,
        report: Some(&args.report),
    };
    files.check_places()?;
    let settings = args.chunker.settings();
    let plan = DuplicateLocalityPlan {
        paths: args.paths.clone(),
        settings: settings.map_err(|error| Failure::Usage(format!("--sizes: {error}")))?,
        checkpoints: args.checkpoints as usize,
    };
    let mut watch = Watch::start(Unit::Files, quiet)?;
    let found = duplicate_locality(&plan, &mut watch)?;
    let outcome = watch.finish();
    let document = print::duplicate_locality::document(&found);
    files.publish(
        "duplicate-locality",
        &document,
        || duplicate_locality_html(&found),
        |out| print::duplicate_locality::text(out, &found),
    )?;
    Ok(outcome)
}

pub(crate) fn run(args: &LocalityArgs, quiet: bool) -> Result<Outcome> {
    let files = Files {
        json: &args.json,
        report: Some(&args.report),
    };
    files.check_places()?;
    let plan = plan(args)?;
    let mut watch = Watch::start(Unit::Files, quiet)?;
    let found = locality(&plan, &mut watch)?;
    let outcome = watch.finish();
    let document = print::locality::document(&found);
    files.publish(
        "locality",
        &document,
        || locality_html(&found),
        |out| print::locality::text(out, &found),
    )?;
    Ok(outcome)
}

fn plan(args: &LocalityArgs) -> Result<LocalityPlan> {
    let contenders = args.contenders();
    let chunkers = contenders.map_err(|error| Failure::Usage(format!("--sizes: {error}")))?;
    // A criterion that was named must be shown, so a chunker that cannot meet it is refused.
    for settings in &chunkers {
        let chunker = preferred_chunker(settings).map_err(|error| Failure::Usage(format!("--sizes: {error}")))?;
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
