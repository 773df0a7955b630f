//! `ibid check`.

use super::open::{Context, now};
use super::watch::Watch;
use crate::args::CheckArgs;
use crate::failure::{Outcome, Result};
use crate::print::{self, Verb};
use ibid_repo::ReadData;

pub(crate) fn run(context: &mut Context, args: &CheckArgs) -> Result<Outcome> {
    let read = match args.read_data {
        None => ReadData::No,
        Some(share) if share >= 1.0 => ReadData::All,
        // Other packs each time, so that all are read sooner or later.
        Some(share) => ReadData::Share {
            share,
            seed: now() as u64,
        },
    };
    let opened = context.open()?;
    let watch = Watch::start(Verb::Look, context.global.quiet)?;
    let result = opened.repository.check(read, &watch.monitor);
    watch.finish();
    let report = result?;
    print::check(&mut context.out, opened.about, &report)?;
    Ok(if report.is_clean() {
        Outcome::Done
    } else {
        Outcome::Faults
    })
}
