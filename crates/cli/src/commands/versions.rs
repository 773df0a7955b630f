//! `ibid generate versions`.

use ibid_bench::{Error, Series};

use super::observe::Observed;
use super::open::Context;
use super::watch::Watch;
use crate::args::VersionsArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};

pub(crate) fn run(context: &mut Context, args: &VersionsArgs) -> Result<Outcome> {
    let series = Series {
        size: args.size,
        versions: args.versions,
        edits: args.edits,
        edit_bytes: args.edit_bytes,
        kinds: args.kinds.iter().map(|kind| (*kind).into()).collect(),
        spread: args.spread,
        seed: args.seed,
    };
    let watch = Watch::start(Verb::Look, context.global.quiet)?;
    let written = series.write_into(&args.folder, &mut Observed::new(&watch.monitor));
    watch.finish();
    let written = written.map_err(|error| match error {
        Error::Stopped => Failure::Interrupted("the versions that were finished are left, and no other".into()),
        error => error.into(),
    })?;
    print::versions(&mut context.out, &written)?;
    Ok(Outcome::Done)
}
