//! Prints what is thawed.

use std::io::IsTerminal;

use ibid_repo::{ArchivedPacks, PackBytes, Result};
use ibid_terminal::message as line;
use ibid_terminal::number::{counted, size};
use serde::Serialize;

use super::costs::{JsonThaw, thaw_text};
use super::{About, Out};
use crate::commands::ThawCost;

#[derive(Serialize)]
struct JsonThawed<'a> {
    asked: u64,
    readable_packs: u64,
    readable_bytes: u64,
    currency: &'a str,
    #[serde(flatten)]
    thaw: JsonThaw,
}

/// Says what the service is asked to thaw.
pub(crate) fn thaw_begins(thaw: &ThawCost, currency: &str) {
    line(&match thaw.frozen.packs {
        0 => format!(
            "waiting for {} ({}), which the service is thawing",
            counted(thaw.thawing.packs, "pack", "packs"),
            size(thaw.thawing.bytes)
        ),
        _ => format!("thawing {}", thaw_text(thaw, currency)),
    });
}

/// Says how far the thawing is.
pub(crate) fn thaw_goes_on(packs: &ArchivedPacks) {
    if std::io::stderr().is_terminal() {
        let (all, waiting) = (packs.all(), packs.waiting());
        line(&format!(
            "{} of {} can be read, {} are still in the archive",
            all.packs - waiting.packs,
            counted(all.packs, "pack", "packs"),
            size(waiting.bytes)
        ));
    }
}

/// Says how much could not be restored or copied because it is in an archive, if there is any, and `with` which options
/// it can.
pub(crate) fn still_archived(packs: PackBytes, with: &str) {
    if packs.packs > 0 {
        line(&format!(
            "{} ({}) of what is left {} in an archive: run it again with {with}",
            counted(packs.packs, "pack", "packs"),
            size(packs.bytes),
            if packs.packs == 1 { "is" } else { "are" }
        ));
    }
}

/// Says after a dry run how much must be thawed first, if that is anything.
pub(crate) fn must_be_thawed(packs: PackBytes) {
    if packs.packs > 0 {
        line(&format!(
            "{} ({}) must be thawed before: --thaw --estimate says what that costs",
            counted(packs.packs, "pack", "packs"),
            size(packs.bytes)
        ));
    }
}

/// Prints what was asked for, if the command ends with that.
pub(crate) fn thaw_asked(
    out: &mut Out,
    (about, of): (About, &str),
    packs: &ArchivedPacks,
    thaw: &ThawCost,
    asked: u64,
    currency: &str,
) -> Result<()> {
    let (all, waiting) = (packs.all(), packs.waiting());
    if out.json {
        let body = JsonThawed {
            asked,
            readable_packs: all.packs - waiting.packs,
            readable_bytes: all.bytes - waiting.bytes,
            currency,
            thaw: JsonThaw::new(thaw),
        };
        return out.document("thaw", about, &body);
    }
    if out.quiet {
        return Ok(());
    }
    out.line(match all.packs {
        0 => "nothing that is needed is in an archive".to_owned(),
        packs => format!(
            "asked for {}; {} of {} can be read by now",
            counted(asked, "pack", "packs"),
            packs - waiting.packs,
            counted(packs, "pack", "packs")
        ),
    })?;
    let and = if waiting.packs > 0 { "to wait, and to" } else { "to" };
    out.line(format!(
        "nothing else was done: run it again without --thaw-only {and} {of}"
    ))
}
