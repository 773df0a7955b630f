//! `ibid check`.

use std::hash::{BuildHasher, RandomState};

use ibid_repo::ReadData;

use super::open::Context;
use super::watch::Watch;
use crate::args::CheckArgs;
use crate::failure::{Outcome, Result};
use crate::print::{self, Verb};

pub(crate) fn run(context: &mut Context, args: &CheckArgs) -> Result<Outcome> {
    let mut chosen_by = None;
    let read = match args.read_data {
        None => ReadData::No,
        Some(share) if share >= 1.0 => ReadData::All,
        // Each check uses a new seed, so that repeated checks read all packs in time.
        Some(share) => {
            let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
            chosen_by = Some(seed);
            ReadData::Share { share, seed }
        }
    };
    let opened = context.open()?;
    let watch = Watch::start(Verb::Look, context.global.quiet)?;
    let result = opened.repository.watched_by(&watch.monitor).check(read);
    watch.finish();
    let report = result?;
    print::check(&mut context.out, opened.about, &report, chosen_by)?;
    Ok(if report.is_clean() {
        Outcome::Done
    } else {
        Outcome::Faults
    })
}
