//! `ibid rewrite`.

use ibid_repo::{Error, Excludes, RewriteOptions};

use super::PROGRAM;
use super::open::Context;
use super::watch::Watch;
use crate::args::RewriteArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Rewritten, Verb};

pub(crate) fn run(context: &mut Context, args: &RewriteArgs) -> Result<Outcome> {
    let opened = context.open()?;
    let chosen = match args.all {
        true => opened.snapshots_strictly(&args.select)?,
        false => opened.chosen(&args.snapshots, &args.select)?,
    };
    if chosen.is_empty() {
        print::none_match(&mut context.out)?;
    }
    let excludes = Excludes::default()
        .patterns(args.exclude.clone())
        .any_case(args.iexclude.clone())
        .files(args.exclude_file.clone());
    let options = RewriteOptions::default()
        .excludes(excludes)
        .exclude_lost(args.exclude_lost)
        .forget(args.forget)
        .dry_run(args.dry_run)
        .program(PROGRAM);
    let watch = Watch::start(Verb::Look, context.global.quiet)?;
    let repository = opened.repository.watched_by(&watch.monitor);
    let mut done = Vec::new();
    let (mut failed, mut emptied) = (None, Vec::new());
    for info in chosen {
        match repository.rewrite(&info, &options) {
            Ok(summary) => done.push(Rewritten { info, summary }),
            Err(error @ Error::NothingLeft { .. }) => emptied.push(error),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    watch.finish();
    let outcome = if emptied.is_empty() {
        Outcome::Done
    } else {
        Outcome::Partial
    };
    for error in emptied {
        print::failure(&error.into());
    }
    // If one failed, those before have new ids, which the user must learn.
    print::rewritten(&mut context.out, opened.about, &done, args.dry_run, args.forget)?;
    match failed {
        Some(error) => Err(Failure::if_interrupted("snapshots that were complete stay")(error)),
        None => Ok(outcome),
    }
}
