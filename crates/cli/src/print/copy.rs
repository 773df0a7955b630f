//! Prints `copy`.

use ibid_repo::{BackupSummary, CopiedSnapshot, CopyOutcome, CopySummary, Result};
use ibid_terminal::number::{counted, size};
use serde::Serialize;

use super::time::local;
use super::{About, Out, not_copied};

#[derive(Serialize)]
struct JsonCopy {
    destination: String,
    destination_encrypted: bool,
    dry_run: bool,
    copied: u64,
    present: u64,
    forgotten: u64,
    failed: u64,
    written_bytes: u64,
    missing: Option<JsonMissing>,
    snapshots: Vec<JsonOne>,
}

#[derive(Serialize)]
struct JsonMissing {
    chunks: u64,
    frames: u64,
    packed_bytes: u64,
    moved_frames: u64,
    moved_bytes: u64,
}

#[derive(Serialize)]
struct JsonOne {
    source: String,
    snapshot: Option<String>,
    state: &'static str,
    problem: Option<String>,
    files: u64,
    bytes: u64,
    read_bytes: u64,
    new_chunks: u64,
    new_bytes: u64,
    stored_bytes: u64,
    moved_frames: u64,
    moved_bytes: u64,
    written_bytes: u64,
    duration_ms: u64,
}

impl JsonOne {
    fn new(one: &CopiedSnapshot) -> JsonOne {
        let nothing = BackupSummary::default();
        let (state, id, summary, problem) = match &one.outcome {
            CopyOutcome::Copied(summary) => ("copied", summary.id, summary.as_ref(), None),
            CopyOutcome::WouldBeCopied => ("would_be_copied", None, &nothing, None),
            CopyOutcome::IsThere(id) => ("present", Some(*id), &nothing, None),
            CopyOutcome::Forgotten => ("forgotten", None, &nothing, None),
            CopyOutcome::Failed(error) => ("failed", None, &nothing, Some(error.to_string())),
        };
        let counters = one.source.snapshot.counters;
        JsonOne {
            source: one.source.id.to_string(),
            snapshot: id.map(|id| id.to_string()),
            state,
            problem,
            files: counters.files,
            bytes: counters.bytes,
            read_bytes: summary.read_bytes,
            new_chunks: summary.counters.new_chunks,
            new_bytes: summary.counters.new_bytes,
            stored_bytes: summary.counters.stored_bytes,
            moved_frames: summary.moved_frames,
            moved_bytes: summary.moved.stored,
            written_bytes: summary.written,
            duration_ms: summary.duration_ms,
        }
    }
}

/// Prints what became of each snapshot, with the ids of the copies.
pub(crate) fn copied(
    out: &mut Out,
    about: About,
    destination: About,
    summary: &CopySummary,
    dry_run: bool,
) -> Result<()> {
    let all = &summary.snapshots;
    let count = |is_meant: fn(&CopyOutcome) -> bool| all.iter().filter(|one| is_meant(&one.outcome)).count() as u64;
    let copied = count(|outcome| matches!(outcome, CopyOutcome::Copied(_)));
    let wanted = count(|outcome| matches!(outcome, CopyOutcome::WouldBeCopied));
    let present = count(|outcome| matches!(outcome, CopyOutcome::IsThere(_)));
    let forgotten = count(|outcome| matches!(outcome, CopyOutcome::Forgotten));
    let failed = count(|outcome| matches!(outcome, CopyOutcome::Failed(_)));
    let archived = count(|outcome| matches!(outcome, CopyOutcome::Failed(error) if error.is_archived()));
    let (mut written, mut moved) = (0, 0);
    for one in all {
        if let CopyOutcome::Copied(summary) = &one.outcome {
            written += summary.written;
            moved += summary.moved.stored;
        }
    }
    if out.json {
        let body = JsonCopy {
            destination: destination.repository.to_string(),
            destination_encrypted: destination.encrypted,
            dry_run,
            copied,
            present,
            forgotten,
            failed,
            written_bytes: written,
            missing: summary.missing.map(|missing| JsonMissing {
                chunks: missing.chunks,
                frames: missing.frames,
                packed_bytes: missing.packed,
                moved_frames: missing.moved_frames,
                moved_bytes: missing.moved,
            }),
            snapshots: all.iter().map(JsonOne::new).collect(),
        };
        return out.document("copy", about, &body);
    }
    for one in all {
        line(out, one)?;
    }
    if out.quiet {
        return Ok(());
    }
    let some = |number: u64, what: &str| match number {
        0 => String::new(),
        _ => format!(", {number} {what}"),
    };
    let were_there = some(present, "there already");
    let could_not = [
        some(forgotten, "forgotten meanwhile"),
        some(failed - archived, "damaged and NOT copied"),
        some(archived, "in an archive and NOT copied"),
    ]
    .concat();
    let as_they_were = match moved {
        0 => String::new(),
        _ => format!(" ({} as they were)", size(moved)),
    };
    if let Some(missing) = summary.missing {
        out.line(format!(
            "{} would be copied, {} of the source ({} as they are)",
            counted(missing.chunks, "chunk", "chunks"),
            size(missing.packed),
            size(missing.moved)
        ))?;
    }
    match dry_run {
        true => out.line(format!(
            "{} would be copied{were_there}",
            counted(wanted, "snapshot", "snapshots")
        )),
        false => out.line(format!(
            "{} copied with {} written{as_they_were}{were_there}{could_not}",
            counted(copied, "snapshot", "snapshots"),
            size(written)
        )),
    }
}

fn line(out: &mut Out, one: &CopiedSnapshot) -> Result<()> {
    let source = &one.source;
    let what = format!("{} of {}", source.short_id(), local(source.snapshot.time));
    let said = match &one.outcome {
        CopyOutcome::Failed(error) => {
            not_copied(&what, error);
            return Ok(());
        }
        _ if out.quiet => return Ok(()),
        CopyOutcome::Copied(summary) => {
            let id = summary.id.map_or_else(String::new, |id| id.to_string()[..8].to_owned());
            format!(
                "is copied as {id}  {} of {} new, {} stored",
                size(summary.counters.new_bytes),
                size(source.snapshot.counters.bytes),
                size(summary.written)
            )
        }
        CopyOutcome::WouldBeCopied => format!("would be copied  {}", size(source.snapshot.counters.bytes)),
        CopyOutcome::Forgotten => "was forgotten meanwhile, and is not copied".to_owned(),
        CopyOutcome::IsThere(id) => format!("is there as {}", &id.to_string()[..8]),
    };
    out.line(format!("{what} {said}"))
}
