//! `ibid-bench chunkers`.

use ibid_bench::{Plan, compare, html};
use ibid_terminal::Unit;

use crate::args::ChunkersArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::output::Files;
use crate::print;
use crate::watch::Watch;

pub(crate) fn run(args: &ChunkersArgs, quiet: bool) -> Result<Outcome> {
    let files = Files {
        json: &args.json,
        report: Some(&args.report),
    };
    files.check_places()?;
    let contenders = args.contenders();
    let plan = Plan {
        paths: args.paths.clone(),
        contenders: contenders.map_err(|error| Failure::Usage(format!("--averages: {error}")))?,
        backends: args.measured.backends(),
        rounds: args.measured.rounds,
        sample: args.sample,
        threads: std::thread::available_parallelism().map_or(1, Into::into),
    };
    let mut watch = Watch::start(Unit::Files, quiet)?;
    let comparison = compare(&plan, &mut watch)?;
    let outcome = watch.finish();
    let document = print::chunkers::document(&comparison);
    files.publish(
        "chunkers",
        &document,
        || html(&comparison),
        |out| print::chunkers::text(out, &comparison),
    )?;
    Ok(outcome)
}
