//! `ibid restore`.

use super::open::Context;
use super::watch::Watch;
use crate::args::{OverwriteRule, RestoreArgs};
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Asked, Verb};
use ibid_repo::{Overwrite, RestoreOptions};
use std::time::Instant;

pub(crate) fn run(context: &mut Context, args: RestoreArgs) -> Result<Outcome> {
    let opened = context.open()?;
    let info = opened.snapshot(&args.address.snapshot, &args.select)?;
    let options = RestoreOptions {
        overwrite: match args.overwrite {
            None => Overwrite::Refuse,
            Some(OverwriteRule::Always) => Overwrite::Always,
            Some(OverwriteRule::IfChanged) => Overwrite::IfChanged,
            Some(OverwriteRule::Never) => Overwrite::Never,
        },
        include: args.include,
        exclude: args.exclude,
        dry_run: args.dry_run,
        verify: args.verify,
        numeric_ids: args.numeric_ids,
        threads: args.threads.map(usize::from),
    };
    let started = Instant::now();
    let watch = Watch::start(Verb::Restore, context.global.quiet)?;
    let result = opened
        .repository
        .restore(&info, &args.address.path, &args.destination, &options, &watch.monitor);
    let problems = watch.finish();
    let left = "files restored so far are whole; with --overwrite if-changed the next restore goes on from there";
    let summary = result.map_err(Failure::if_interrupted(left))?;
    let asked = Asked {
        dry_run: options.dry_run,
        verify: options.verify,
        duration_ms: started.elapsed().as_millis() as u64,
    };
    print::restore(&mut context.out, opened.about, &info, asked, &summary, &problems)?;
    Ok(if summary.failed > 0 {
        Outcome::Partial
    } else {
        Outcome::Done
    })
}
