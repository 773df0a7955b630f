//! `ibid tune seqcdc`.

use ibid_bench::{TunePlan, tune};

use super::observe::Observed;
use super::open::Context;
use super::output;
use super::watch::Watch;
use crate::args::TuneSeqcdcArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};

pub(crate) fn run(context: &mut Context, args: &TuneSeqcdcArgs) -> Result<Outcome> {
    if let Some(name) = args.sought() {
        return Err(Failure::Usage(format!(
            "--param {name}: this is what is looked for; expected size_min, size_max, mode or equal"
        )));
    }
    args.json.file().map_or(Ok(()), output::check_place)?;
    let usual = TunePlan::for_average(args.average)?;
    let base = args.base(usual.base);
    let plan = TunePlan {
        base: base.map_err(|error| Failure::Usage(format!("--param: {error}")))?,
        seed: args.seed,
        paths: args.data.clone(),
        rounds: args.rounds,
        sample: args.sample,
        threads: std::thread::available_parallelism().map_or(1, Into::into),
        ..usual
    };
    let watch = Watch::start(Verb::Look, context.global.quiet)?;
    let mut observed = Observed::new(&watch.monitor);
    let tuning = tune(&plan, &mut observed);
    let is_complete = observed.is_complete;
    watch.finish();
    let tuning = tuning?;
    if let Some(path) = args.json.file() {
        output::write(path, &print::tuning_json(&plan, &tuning)?)?;
    }
    print::tuning(&mut context.out, &plan, &tuning)?;
    Ok(if is_complete { Outcome::Done } else { Outcome::Partial })
}
