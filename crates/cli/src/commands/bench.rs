//! `ibid bench breakdown`, `ibid bench hashes` and `ibid bench cpu`.

use ibid_bench::{BreakdownPlan, breakdown, cpu, hashes};
use ibid_chunk::{Backend, Settings};

use super::observe::Observed;
use super::open::Context;
use super::output;
use super::watch::Watch;
use crate::args::{BreakdownArgs, CpuArgs, HashesArgs};
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};

pub(crate) fn run_breakdown(context: &mut Context, args: &BreakdownArgs) -> Result<Outcome> {
    args.json.file().map_or(Ok(()), output::check_place)?;
    let settings = Settings::for_average("seqcdc", args.average);
    let settings = settings.map_err(|error| Failure::Usage(format!("--average: {error}")))?;
    let Settings::SeqCdc(settings) = settings else {
        unreachable!("asked for by name")
    };
    let plan = BreakdownPlan {
        settings,
        paths: args.paths.clone(),
        sample: args.sample,
        backends: backends(&args.measured.backends),
        rounds: args.measured.rounds,
    };
    let watch = Watch::start(Verb::Look, context.global.quiet)?;
    let mut observed = Observed::new(&watch.monitor);
    let found = breakdown(&plan, &mut observed);
    let is_complete = observed.is_complete;
    watch.finish();
    let found = found?;
    if let Some(path) = args.json.file() {
        output::write(path, &print::breakdown_json(&found)?)?;
    }
    print::breakdown(&mut context.out, &found)?;
    Ok(if is_complete { Outcome::Done } else { Outcome::Partial })
}

pub(crate) fn run_hashes(context: &mut Context, args: &HashesArgs) -> Result<Outcome> {
    args.json.file().map_or(Ok(()), output::check_place)?;
    let watch = Watch::start(Verb::Look, context.global.quiet)?;
    let mut observed = Observed::new(&watch.monitor);
    let backends = backends(&args.measured.backends);
    let found = hashes(
        args.windows,
        args.sample,
        args.measured.rounds,
        &backends,
        &mut observed,
    );
    watch.finish();
    let found = found?;
    if let Some(path) = args.json.file() {
        output::write(path, &print::hashes_json(&found)?)?;
    }
    print::hashes(&mut context.out, &found)?;
    Ok(Outcome::Done)
}

pub(crate) fn run_cpu(context: &mut Context, args: &CpuArgs) -> Result<Outcome> {
    args.json.file().map_or(Ok(()), output::check_place)?;
    let found = cpu(args.rounds)?;
    if let Some(path) = args.json.file() {
        output::write(path, &print::cpu_json(&found)?)?;
    }
    print::cpu(&mut context.out, &found)?;
    Ok(Outcome::Done)
}

/// Those that were named, or all that there are.
pub(crate) fn backends(named: &[Backend]) -> Vec<Backend> {
    match named {
        [] => Backend::available().collect(),
        named => named.to_vec(),
    }
}
