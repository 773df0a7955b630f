//! Prints `rewrite`.

use ibid_repo::{Result, RewriteSummary, SnapshotInfo};
use ibid_terminal::number::{counted, size};
use serde::Serialize;

use super::{About, Out};

/// A snapshot that was to lose files.
pub(crate) struct Rewritten {
    pub(crate) info: SnapshotInfo,
    pub(crate) summary: RewriteSummary,
}

#[derive(Serialize)]
struct JsonRewrite {
    dry_run: bool,
    rewritten: u64,
    snapshots: Vec<JsonOne>,
}

#[derive(Serialize)]
struct JsonOne {
    old: String,
    new: Option<String>,
    forgotten: bool,
    files_left_out: u64,
    directories_left_out: u64,
    others_left_out: u64,
    bytes_left_out: u64,
    written_bytes: u64,
}

impl JsonOne {
    fn new(one: &Rewritten, forget: bool) -> JsonOne {
        let (before, after) = (one.info.snapshot.counters, one.summary.counters);
        JsonOne {
            old: one.info.id.to_string(),
            new: one.summary.id.map(|id| id.to_string()),
            forgotten: forget && one.summary.id.is_some(),
            files_left_out: before.files.saturating_sub(after.files),
            directories_left_out: before.directories.saturating_sub(after.directories),
            others_left_out: before.others.saturating_sub(after.others),
            bytes_left_out: before.bytes.saturating_sub(after.bytes),
            written_bytes: one.summary.written,
        }
    }
}

/// Prints what each snapshot has lost, and the new ids.
pub(crate) fn rewritten(out: &mut Out, about: About, done: &[Rewritten], dry_run: bool, forget: bool) -> Result<()> {
    let snapshots: Vec<JsonOne> = done.iter().map(|one| JsonOne::new(one, forget)).collect();
    if out.json {
        let rewritten = done.iter().filter(|one| one.summary.id.is_some()).count() as u64;
        let body = JsonRewrite {
            dry_run,
            rewritten,
            snapshots,
        };
        return out.document("rewrite", about, &body);
    }
    if out.quiet {
        return Ok(());
    }
    for one in snapshots {
        let lost = format!(
            "without {}, {}, {}",
            counted(one.files_left_out, "file", "files"),
            counted(one.directories_left_out, "folder", "folders"),
            size(one.bytes_left_out)
        );
        let is_less = one.files_left_out + one.directories_left_out + one.others_left_out > 0;
        let old = &one.old[..8];
        match (&one.new, dry_run && is_less) {
            (Some(new), _) if forget => out.line(format!("{old} is now {}  {lost}", &new[..8]))?,
            (Some(new), _) => out.line(format!("{old} is stored again as {}  {lost}", &new[..8]))?,
            (None, true) => out.line(format!("{old} would be stored again {lost}"))?,
            (None, false) => out.line(format!("{old} has nothing that matches"))?,
        }
    }
    Ok(())
}
