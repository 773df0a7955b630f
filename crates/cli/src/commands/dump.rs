//! `ibid dump`.

use super::no_json;
use super::open::Context;
use super::watch::Watch;
use crate::args::DumpArgs;
use crate::failure::{Outcome, Result};
use crate::print::Verb;

pub(crate) fn run(context: &mut Context, args: &DumpArgs) -> Result<Outcome> {
    no_json(context, "dump")?;
    let opened = context.open()?;
    let info = opened.snapshot(&args.address.snapshot, &args.select)?;
    let watch = Watch::silent(Verb::Look)?;
    opened
        .repository
        .watched_by(&watch.monitor)
        .dump(info.at(&args.address.path), context.out.raw())?;
    Ok(Outcome::Done)
}
