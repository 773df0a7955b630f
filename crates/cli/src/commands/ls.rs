//! `ibid ls`.

use std::path::{Component, PathBuf};

use ibid_repo::{EntryKind, Visit};

use super::open::Context;
use super::watch::Watch;
use crate::args::LsArgs;
use crate::failure::{Outcome, Result};
use crate::print::{Format, LsPrinter, Verb};

pub(crate) fn run(context: &mut Context, args: &LsArgs) -> Result<Outcome> {
    let opened = context.open()?;
    let info = opened.snapshot(&args.address.snapshot, &args.select)?;
    let watch = Watch::silent(Verb::Look)?;
    let mut printer = LsPrinter::begin(
        &mut context.out,
        opened.about,
        &info,
        Format {
            long: args.long,
            null: args.null,
        },
    )?;
    let base: PathBuf = args
        .address
        .path
        .components()
        .filter(|component| matches!(component, Component::Normal(_) | Component::ParentDir))
        .collect();
    opened
        .repository
        .watched_by(&watch.monitor)
        .visit(info.at(&args.address.path), |path, entry| {
            // The requested folder itself is not listed.
            let is_base = path == base;
            if is_base && matches!(entry.kind, EntryKind::Directory(_)) {
                return Ok(Visit::Descend);
            }
            printer.entry(path, entry)?;
            Ok(if args.recursive { Visit::Descend } else { Visit::Skip })
        })?;
    printer.end()?;
    Ok(Outcome::Done)
}
