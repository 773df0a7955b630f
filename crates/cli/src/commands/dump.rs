//! `ibid dump`.

use ibid_terminal::number::counted;

use super::no_json;
use super::open::Context;
use super::watch::Watch;
use crate::args::DumpArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::print::Verb;

pub(crate) fn run(context: &mut Context, args: &DumpArgs) -> Result<Outcome> {
    no_json(context, "dump")?;
    let opened = context.open()?;
    let info = opened.snapshot(&args.address.snapshot, &args.select)?;
    let watch = Watch::silent(Verb::Look)?;
    let start = args.offset.unwrap_or(0);
    let end = args.length.map_or(u64::MAX, |length| start.saturating_add(length));
    let out = &mut context.out;
    let found =
        opened
            .repository
            .watched_by(&watch.monitor)
            .dump_parts(info.at(&args.address.path), start..end, |part| out.part(part))?;
    match args.length {
        Some(length) if found < length => Err(Failure::Fatal(format!(
            "the file ends too early: expected {} from byte {start} on, found {found}",
            counted(length, "byte", "bytes")
        ))),
        _ => Ok(Outcome::Done),
    }
}
