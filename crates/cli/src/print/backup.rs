//! Prints the summary of a backup.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use ibid_repo::{BackupSummary, Party, Result};
use ibid_terminal::json::JsonPath;
use ibid_terminal::number::{count, counted, duration, percent, rate, size};
use serde::Serialize;

use super::json::JsonProblem;
use super::time::{local, rfc3339};
use super::{About, Out};

#[derive(Serialize)]
struct JsonBackup<'a> {
    snapshot: Option<String>,
    parent: Option<String>,
    dry_run: bool,
    skipped: bool,
    files: u64,
    directories: u64,
    others: u64,
    unchanged_files: u64,
    resumed_files: u64,
    resumed_bytes: u64,
    resumed_from: Option<String>,
    bytes: u64,
    new_chunks: u64,
    new_bytes: u64,
    new_metadata_bytes: u64,
    read_bytes: u64,
    taken_over_bytes: u64,
    hole_bytes: u64,
    attributes_lost: u64,
    damaged_frames: u64,
    lost_packs: u64,
    healed_chunks: u64,
    healed_bytes: u64,
    delta_chunks: u64,
    delta_bytes: u64,
    delta_stored_bytes: u64,
    incompressible_bytes: u64,
    dissimilar_bytes: u64,
    search_limited_bytes: u64,
    cut_by_hints_bytes: u64,
    stored_bytes: u64,
    written_bytes: u64,
    unreadable: u64,
    changed_while_read: u64,
    duration_ms: u64,
    problems: Vec<JsonProblem<'a>>,
}

/// A search that was cut short is mentioned if that concerns more than one byte in so many.
const LIMITED_SHARE: u64 = 100;

/// Prints the summary of a backup, and the files that it could not read.
pub(crate) fn backup(
    out: &mut Out,
    about: About,
    summary: &BackupSummary,
    problems: &[(PathBuf, String)],
) -> Result<()> {
    if out.json {
        return out.document("backup", about, &document(summary, problems));
    }
    if out.quiet {
        return Ok(());
    }
    contents(out, summary)?;
    stored(out, summary)?;
    flaws(out, about, summary)
}

/// Returns a count of what is neither a file nor a folder, with a comma after it; nothing if there is
/// none.
pub(super) fn others(number: u64) -> String {
    match number {
        0 => String::new(),
        1 => "1 symlink or device, ".to_owned(),
        _ => format!("{} symlinks and devices, ", count(number)),
    }
}

/// Prints the contents of the snapshot, and the part that was known.
fn contents(out: &mut Out, summary: &BackupSummary) -> Result<()> {
    let counters = &summary.counters;
    let what = match (summary.id, summary.parent) {
        (Some(id), _) => format!("snapshot {} of", &id.to_string()[..8]),
        (None, Some(parent)) if summary.skipped => format!(
            "nothing has changed since snapshot {}, so there is no new one (--skip-if-unchanged):",
            &parent.to_string()[..8]
        ),
        (None, _) => "nothing was stored (--dry-run); it would be a snapshot of".to_owned(),
    };
    let (files, folders) = (
        counted(counters.files, "file", "files"),
        counted(counters.directories, "folder", "folders"),
    );
    let others = others(counters.others);
    out.line(format!("{what} {files}, {folders}, {others}{}", size(counters.bytes)))?;
    let changed = counters.files.saturating_sub(summary.unchanged_files);
    out.line(format!(
        "  files   {} new or changed, {} unchanged",
        count(changed),
        count(summary.unchanged_files)
    ))?;
    if let Some(time) = summary.resumed_from {
        out.line(format!(
            "  resumed {} ({}) were taken over from a backup that was interrupted after {}",
            counted(summary.resumed_files, "file", "files"),
            size(summary.resumed_bytes),
            local(time)
        ))?;
    }
    if let Some(parent) = summary.parent.filter(|_| summary.taken_over_bytes > 0) {
        out.line(format!(
            "  blocks  {} were read, {} were taken from snapshot {} unread",
            size(summary.read_bytes),
            size(summary.taken_over_bytes),
            &parent.to_string()[..8]
        ))?;
    }
    let new = counters.new_bytes.saturating_sub(summary.new_metadata_bytes);
    let known = counters.bytes.saturating_sub(new).saturating_sub(summary.holes);
    out.line(format!(
        "  known   {} ({}) were in the repository already",
        size(known),
        percent(known, counters.bytes)
    ))?;
    if summary.cut_by_hints_bytes > 0 {
        out.line(format!(
            "  hints   {} were cut where the stored version was cut, without a search for boundaries",
            size(summary.cut_by_hints_bytes)
        ))?;
    }
    if summary.holes > 0 {
        out.line(format!("  holes   {} occupy no space", size(summary.holes)))?;
    }
    Ok(())
}

/// Prints the stored bytes, their compression, and the duration.
fn stored(out: &mut Out, summary: &BackupSummary) -> Result<()> {
    let counters = &summary.counters;
    let compressed = format!(
        "{} in packs ({})",
        size(counters.stored_bytes),
        percent(counters.stored_bytes, counters.new_bytes)
    );
    out.line(format!(
        "  new     {} including lists of folders, {compressed}",
        size(counters.new_bytes)
    ))?;
    let deltas = summary.deltas;
    if deltas.chunks > 0 {
        out.line(format!(
            "  similar {} of these resemble stored data, and take {} as deltas ({})",
            size(deltas.bytes),
            size(deltas.stored),
            percent(deltas.stored, deltas.bytes)
        ))?;
    }
    if summary.incompressible_bytes > 0 {
        out.line(format!(
            "  {} do not compress, so they were not compared with stored data (--similarity max does)",
            size(summary.incompressible_bytes)
        ))?;
    }
    if summary.dissimilar_bytes > 0 {
        out.line(format!(
            "  {} are in kinds of files that resembled nothing before, so they were not compared with stored data \
             (--similarity max does)",
            size(summary.dissimilar_bytes)
        ))?;
    }
    if summary.search.limited_bytes > counters.new_bytes / LIMITED_SHARE {
        out.line(format!(
            "  {} were compared with a part of stored data only: what is known of all of it does not fit into memory",
            size(summary.search.limited_bytes)
        ))?;
    }
    if summary.id.is_some() {
        out.line(format!(
            "  stored  {} in total, with lists of folders and index",
            size(summary.written)
        ))?;
    }
    out.line(format!(
        "  time    {}, {}",
        duration(summary.duration_ms),
        rate(counters.bytes, summary.duration_ms)
    ))
}

/// Prints what may be missing from the snapshot or wrong in it.
fn flaws(out: &mut Out, about: About, summary: &BackupSummary) -> Result<()> {
    let counters = &summary.counters;
    if counters.changed_while_read > 0 {
        let changed = counted(counters.changed_while_read, "file", "files");
        out.line(format!(
            "  {changed} changed while being read (named above; marked in the snapshot)"
        ))?;
    }
    if summary.attributes_lost > 0 {
        let attributes = counted(summary.attributes_lost, "attribute", "attributes");
        out.line(format!("  {attributes} could not be stored (named above)"))?;
    }
    if summary.healed_chunks > 0 {
        out.line(format!(
            "  healed  {} ({}) that were lost are stored again, for older snapshots too",
            counted(summary.healed_chunks, "chunk", "chunks"),
            size(summary.healed_bytes)
        ))?;
    }
    if summary.lost_packs > 0 {
        let packs = counted(summary.lost_packs, "pack is", "packs are");
        out.line(format!(
            "  {packs} not whole (see above): older snapshots may have lost data. {}",
            match about.party {
                Party::Owner | Party::Keeper => "Run `ibid repair`",
                Party::Writer => "Tell the keeper of the repository",
            }
        ))?;
    }
    if summary.damaged_frames > 0 {
        let places = counted(summary.damaged_frames, "place", "places");
        out.line(format!(
            "  {places} in the repository can't be read (named above), and this snapshot may need it. \
             Run `ibid check --read-data`"
        ))?;
    }
    if counters.unreadable > 0 {
        out.line(format!(
            "  {} could not be read (named above): MISSING from the snapshot",
            count(counters.unreadable)
        ))?;
    }
    Ok(())
}

fn document<'a>(summary: &BackupSummary, problems: &'a [(PathBuf, String)]) -> JsonBackup<'a> {
    let counters = &summary.counters;
    JsonBackup {
        snapshot: summary.id.map(|id| id.to_string()),
        parent: summary.parent.map(|id| id.to_string()),
        dry_run: summary.id.is_none() && !summary.skipped,
        skipped: summary.skipped,
        files: counters.files,
        directories: counters.directories,
        others: counters.others,
        unchanged_files: summary.unchanged_files,
        resumed_files: summary.resumed_files,
        resumed_bytes: summary.resumed_bytes,
        resumed_from: summary.resumed_from.map(rfc3339),
        bytes: counters.bytes,
        new_chunks: counters.new_chunks,
        new_bytes: counters.new_bytes,
        new_metadata_bytes: summary.new_metadata_bytes,
        read_bytes: summary.read_bytes,
        taken_over_bytes: summary.taken_over_bytes,
        hole_bytes: summary.holes,
        attributes_lost: summary.attributes_lost,
        damaged_frames: summary.damaged_frames,
        lost_packs: summary.lost_packs,
        healed_chunks: summary.healed_chunks,
        healed_bytes: summary.healed_bytes,
        delta_chunks: summary.deltas.chunks,
        delta_bytes: summary.deltas.bytes,
        delta_stored_bytes: summary.deltas.stored,
        incompressible_bytes: summary.incompressible_bytes,
        dissimilar_bytes: summary.dissimilar_bytes,
        search_limited_bytes: summary.search.limited_bytes,
        cut_by_hints_bytes: summary.cut_by_hints_bytes,
        stored_bytes: counters.stored_bytes,
        written_bytes: summary.written,
        unreadable: counters.unreadable,
        changed_while_read: counters.changed_while_read,
        duration_ms: summary.duration_ms,
        problems: json_problems(problems),
    }
}

pub(super) fn json_problems(problems: &[(PathBuf, String)]) -> Vec<JsonProblem<'_>> {
    problems
        .iter()
        .map(|(path, problem)| JsonProblem {
            path: JsonPath::new(path.as_os_str().as_bytes()),
            problem,
        })
        .collect()
}
