//! `ibid stats`.

use super::open::Context;
use super::watch::Watch;
use crate::args::StatsArgs;
use crate::failure::{Outcome, Result};
use crate::print::{self, Verb};

pub(crate) fn run(context: &mut Context, args: &StatsArgs) -> Result<Outcome> {
    let opened = context.open()?;
    let (mut snapshots, outcome) = match args.snapshots.is_empty() {
        true => opened.snapshots(&args.select)?,
        false => (Vec::new(), Outcome::Done),
    };
    for name in &args.snapshots {
        let info = opened.snapshot(name, &args.select)?;
        if snapshots.iter().all(|other| other.id != info.id) {
            snapshots.push(info);
        }
    }
    let watch = Watch::start(Verb::Look, context.global.quiet)?;
    let stats = opened.repository.watched_by(&watch.monitor).stats(&snapshots);
    watch.finish();
    print::stats(&mut context.out, opened.about, &stats?)?;
    Ok(outcome)
}
