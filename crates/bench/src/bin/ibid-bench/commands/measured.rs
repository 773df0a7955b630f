//! `ibid-bench breakdown`, `ibid-bench hashes` and `ibid-bench cpu`.

use ibid_bench::{BreakdownPlan, breakdown, cpu, hashes};
use ibid_chunk::Settings;
use ibid_terminal::Unit;

use crate::args::{BreakdownArgs, CpuArgs, HashesArgs};
use crate::failure::{Failure, Outcome, Result};
use crate::output::Files;
use crate::print::measured;
use crate::watch::Watch;

pub(crate) fn run_breakdown(args: &BreakdownArgs, quiet: bool) -> Result<Outcome> {
    let files = Files::json(&args.json);
    files.check_places()?;
    let settings = Settings::for_average("seqcdc", args.average);
    let settings = settings.map_err(|error| Failure::Usage(format!("--average: {error}")))?;
    let Settings::SeqCdc(settings) = settings else {
        unreachable!("asked for by name")
    };
    let plan = BreakdownPlan {
        settings,
        paths: args.paths.clone(),
        sample: args.sample,
        backends: args.measured.backends(),
        rounds: args.measured.rounds,
    };
    let mut watch = Watch::start(Unit::Files, quiet)?;
    let found = breakdown(&plan, &mut watch)?;
    let outcome = watch.finish();
    let document = measured::breakdown_document(&found);
    files.publish("breakdown", &document, String::new, |out| {
        measured::breakdown(out, &found)
    })?;
    Ok(outcome)
}

pub(crate) fn run_hashes(args: &HashesArgs, quiet: bool) -> Result<Outcome> {
    let files = Files::json(&args.json);
    files.check_places()?;
    let mut watch = Watch::start(Unit::Files, quiet)?;
    let found = hashes(
        args.windows,
        args.sample,
        args.measured.rounds,
        &args.measured.backends(),
        &mut watch,
    )?;
    let outcome = watch.finish();
    let document = measured::hashes_document(&found);
    files.publish("hashes", &document, String::new, |out| measured::hashes(out, &found))?;
    Ok(outcome)
}

pub(crate) fn run_cpu(args: &CpuArgs) -> Result<Outcome> {
    let files = Files::json(&args.json);
    files.check_places()?;
    let found = cpu(args.rounds)?;
    let document = measured::cpu_document(&found);
    files.publish("cpu", &document, String::new, |out| measured::cpu(out, &found))?;
    Ok(Outcome::Done)
}
