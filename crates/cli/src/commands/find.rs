//! `ibid find`.

use std::path::Path;

use ibid_repo::{Patterns, SnapshotInfo};

use super::open::Context;
use super::watch::Watch;
use crate::args::FindArgs;
use crate::failure::{Outcome, Result};
use crate::print::{FindPrinter, Verb};

pub(crate) fn run(context: &mut Context, args: &FindArgs) -> Result<Outcome> {
    let patterns = Patterns::new(&args.patterns, args.ignore_case)?;
    let opened = context.open()?;
    let mut places: Vec<(SnapshotInfo, &Path)> = Vec::new();
    let mut outcome = Outcome::Done;
    if args.snapshot.is_empty() {
        let snapshots;
        (snapshots, outcome) = opened.snapshots(&args.select)?;
        places.extend(snapshots.into_iter().map(|info| (info, Path::new(""))));
    } else {
        for address in &args.snapshot {
            places.push((opened.snapshot(&address.snapshot, &args.select)?, &address.path));
        }
        places.sort_by_key(|(info, _)| (info.snapshot.time, info.id));
    }
    let watch = Watch::silent(Verb::Look)?;
    let mut printer = FindPrinter::begin(&mut context.out, opened.about, args.null)?;
    let repository = opened.repository.watched_by(&watch.monitor);
    let mut search = repository.search(&patterns)?;
    search.prefetch(places.iter().map(|(info, _)| info))?;
    for (info, path) in &places {
        search.visit(info.at(path), |path, entry| printer.found(info, path, entry))?;
    }
    printer.end()?;
    Ok(outcome)
}
