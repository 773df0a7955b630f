//! `ibid diff`.

use super::open::Context;
use super::watch::Watch;
use crate::args::DiffArgs;
use crate::failure::{Outcome, Result};
use crate::print::{DiffPrinter, Verb};

pub(crate) fn run(context: &mut Context, args: &DiffArgs) -> Result<Outcome> {
    let opened = context.open()?;
    let old = opened.snapshot(&args.old.snapshot, &args.select)?;
    let new = opened.snapshot(&args.new.snapshot, &args.select)?;
    let watch = Watch::silent(Verb::Look)?;
    let mut printer = DiffPrinter::begin(&mut context.out, opened.about, &old, &new)?;
    let (old, new) = (old.at(&args.old.path), new.at(&args.new.path));
    opened
        .repository
        .watched_by(&watch.monitor)
        .diff(old, new, |difference| printer.difference(difference))?;
    printer.end()?;
    Ok(Outcome::Done)
}
