//! `ibid-bench generate versions`.

use ibid_bench::{Error, Series};
use ibid_terminal::Unit;

use crate::args::VersionsArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::output::Out;
use crate::print;
use crate::watch::Watch;

pub(crate) fn run(args: &VersionsArgs, quiet: bool) -> Result<Outcome> {
    let series = Series {
        size: args.size,
        versions: args.versions,
        edits: args.edits,
        edit_bytes: args.edit_bytes,
        kinds: args.kinds.iter().map(|kind| (*kind).into()).collect(),
        spread: args.spread,
        seed: args.seed,
    };
    let mut watch = Watch::start(Unit::Files, quiet)?;
    let written = series.write_into(&args.folder, &mut watch);
    let outcome = watch.finish();
    let written = written.map_err(|error| match error {
        Error::Stopped => Failure::Interrupted("the versions that were finished are left, and no other"),
        error => error.into(),
    })?;
    let mut out = Out::new(args.json);
    print::generate::versions(&mut out, quiet, &written)?;
    out.output.flush()?;
    Ok(outcome)
}
