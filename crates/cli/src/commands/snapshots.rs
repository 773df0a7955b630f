//! `ibid snapshots`.

use super::open::Context;
use crate::args::SnapshotsArgs;
use crate::failure::{Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context, args: &SnapshotsArgs) -> Result<Outcome> {
    let opened = context.open()?;
    let (snapshots, outcome) = opened.snapshots(&args.select)?;
    let from = args.latest.map_or(0, |latest| snapshots.len().saturating_sub(latest));
    print::snapshots(&mut context.out, opened.about, &snapshots[from..])?;
    Ok(outcome)
}
