//! `ibid bench duplicate-locality`.

use super::observe::Observed;
use super::open::Context;
use super::output;
use super::watch::Watch;
use crate::args::DuplicateLocalityArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};
use ibid_measure::{DuplicateLocalityPlan, Error, duplicate_locality, duplicate_locality_html};

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
        Error::Stopped => Failure::Interrupted("nothing was written"),
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
