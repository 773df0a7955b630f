//! `ibid check`.

use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use ibid_repo::{Error, ReadData};

use super::costs::{self, Costs, Meter};
use super::open::Context;
use super::watch::Watch;
use crate::args::CheckArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};

pub(crate) fn run(context: &mut Context, args: &CheckArgs) -> Result<Outcome> {
    let read = match args.read_data {
        None => ReadData::No,
        Some(share) if share >= 1.0 => ReadData::All,
        // Each check uses a new seed, so that repeated checks read all packs in time.
        Some(share) => {
            let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
            ReadData::Share { share, seed }
        }
    };
    let started = Instant::now();
    let costs = Costs::new(context, &args.costs)?;
    let opened = context.open().map_err(damage_is_a_fault)?;
    costs.know(&opened)?;
    let goes_on = costs.begin(context, "check", &opened, |_, rehearsal| {
        rehearsal.check(read)?;
        Ok(())
    })?;
    if !goes_on {
        return Ok(Outcome::Done);
    }
    let meter = costs.meter(context);
    let watch = Watch::start_metered(Verb::Look, context.global.quiet, &meter)?;
    let result = opened.repository.watched_by(&watch.monitor).check(read);
    watch.finish();
    let report = result.map_err(Failure::if_interrupted("a check changes nothing"));
    let report = report.map_err(|failure| Meter::explain(&meter, failure))?;
    costs::remember_rates(&opened, started);
    let as_of = context.as_of.is_some();
    print::check(&mut context.out, opened.about, &report, read, as_of)?;
    Ok(if report.is_clean() {
        Outcome::Done
    } else {
        Outcome::Faults
    })
}

/// Turns damage that prevents opening a repository into a fault: finding it is the purpose of `check`.
fn damage_is_a_fault(failure: Failure) -> Failure {
    match failure {
        // A newer version wrote it.
        Failure::Repo(Error::ConfigDamaged {
            source: ibid_format::Error::Version { .. },
        }) => failure,
        Failure::Repo(Error::ConfigDamaged { .. } | Error::ConfigMissing { .. } | Error::Damaged { .. }) => {
            Failure::Faults(failure.into())
        }
        failure => failure,
    }
}
