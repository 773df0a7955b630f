//! `ibid-bench tune seqcdc`.

use ibid_bench::{TunePlan, tune};
use ibid_terminal::Unit;

use crate::args::TuneSeqcdcArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::output::Files;
use crate::print;
use crate::watch::Watch;

pub(crate) fn run(args: &TuneSeqcdcArgs, quiet: bool) -> Result<Outcome> {
    if let Some(name) = args.sought() {
        return Err(Failure::Usage(format!(
            "--param {name}: this is what is looked for; expected size_min, size_max, mode or equal"
        )));
    }
    let files = Files::json(&args.json);
    files.check_places()?;
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
    let mut watch = Watch::start(Unit::Files, quiet)?;
    let tuning = tune(&plan, &mut watch)?;
    let outcome = watch.finish();
    let document = print::tune::document(&plan, &tuning);
    files.publish("tune seqcdc", &document, String::new, |out| {
        print::tune::text(out, &plan, &tuning)
    })?;
    Ok(outcome)
}
