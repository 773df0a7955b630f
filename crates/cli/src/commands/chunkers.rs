//! `ibid bench chunkers`.

use ibid_bench::{Error, Plan, compare, html};

use super::observe::Observed;
use super::open::Context;
use super::output;
use super::watch::Watch;
use crate::args::ChunkersArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};

pub(crate) fn run(context: &mut Context, args: &ChunkersArgs) -> Result<Outcome> {
    let outputs = [args.report.as_deref(), args.json.file()];
    outputs.into_iter().flatten().try_for_each(output::check_place)?;
    let contenders = args.contenders();
    let plan = Plan {
        paths: args.paths.clone(),
        contenders: contenders.map_err(|error| Failure::Usage(format!("--averages: {error}")))?,
        backends: super::bench::backends(&args.measured.backends),
        rounds: args.measured.rounds,
        sample: args.sample,
        threads: std::thread::available_parallelism().map_or(1, Into::into),
    };
    let watch = Watch::start(Verb::Look, context.global.quiet)?;
    let mut observed = Observed::new(&watch.monitor);
    let comparison = compare(&plan, &mut observed);
    let is_complete = observed.is_complete;
    watch.finish();
    let comparison = comparison.map_err(|error| match error {
        Error::Stopped => Failure::Interrupted("nothing was written".into()),
        error => error.into(),
    })?;
    if let Some(path) = &args.report {
        output::write(path, &html(&comparison))?;
    }
    if let Some(path) = args.json.file() {
        output::write(path, &print::chunkers_json(&comparison)?)?;
    }
    print::chunkers(&mut context.out, &comparison)?;
    Ok(if is_complete { Outcome::Done } else { Outcome::Partial })
}
