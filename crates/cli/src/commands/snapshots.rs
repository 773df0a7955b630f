//! `ibid snapshots`.

use ibid_repo::{Repository, SnapshotFilter};

use super::open::{Context, filter};
use crate::args::SnapshotsArgs;
use crate::failure::{Outcome, Result};
use crate::print::{self, Listed};

pub(crate) fn run(context: &mut Context, args: &SnapshotsArgs) -> Result<Outcome> {
    let opened = context.open()?;
    let (own, mut outcome) = opened.snapshots(&args.select)?;
    let mut listed: Vec<Listed> = own.into_iter().map(|info| Listed { writer: None, info }).collect();
    if context.global.writer.is_none()
        && !add_those_of_writers(&opened.repository, &filter(&args.select)?, &mut listed)?
    {
        outcome = Outcome::Partial;
    }
    let from = args.latest.map_or(0, |latest| listed.len().saturating_sub(latest));
    print::snapshots(&mut context.out, opened.about, &listed[from..])?;
    Ok(outcome)
}

/// Adds the snapshots of all writers, by time. Names what can't be read, and returns whether that was nothing.
fn add_those_of_writers(repository: &Repository, filter: &SnapshotFilter, listed: &mut Vec<Listed>) -> Result<bool> {
    let mut is_all = true;
    let mut is_any = false;
    for writer in repository.writers()? {
        is_any = true;
        let of_writer = match repository.writer(&writer.id.to_string()) {
            Ok(of_writer) => of_writer,
            Err(error) => {
                print::failure(&error.into());
                is_all = false;
                continue;
            }
        };
        let mut found = of_writer.snapshots_with(|_, error| {
            print::failure(&error.into());
            is_all = false;
        })?;
        found.retain(|info| filter.matches(&info.snapshot));
        let name = match writer.label() {
            "" => writer.id.to_string()[..8].to_owned(),
            label => label.to_owned(),
        };
        let of_writer = |info| Listed {
            writer: Some(name.clone()),
            info,
        };
        listed.extend(found.into_iter().map(of_writer));
    }
    if is_any {
        listed.sort_by_key(|listed| listed.info.snapshot.time);
    }
    Ok(is_all)
}
