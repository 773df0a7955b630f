//! Prints the summary of a restore.

use std::path::{Path, PathBuf};

use ibid_repo::{Planned, RestoreSummary, Result, SnapshotInfo};
use ibid_terminal::number::{count, counted, duration, rate, size};
use ibid_terminal::path_text;
use serde::Serialize;

use super::backup::{json_problems, others};
use super::json::JsonProblem;
use super::{About, Out};

#[derive(Serialize)]
struct JsonRestore<'a> {
    snapshot: String,
    dry_run: bool,
    files: u64,
    directories: u64,
    others: u64,
    bytes: u64,
    written_bytes: u64,
    kept: u64,
    failed: u64,
    damaged: u64,
    verified: Option<u64>,
    owners_lost: u64,
    inode_flags_lost: u64,
    duration_ms: u64,
    problems: Vec<JsonProblem<'a>>,
}

/// The options of a restore, and how long it took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) dry_run: bool,
    pub(crate) verify: bool,
    pub(crate) duration_ms: u64,
}

/// Prints what would be done with one file or folder.
pub(crate) fn planned(out: &mut Out, path: &Path, planned: Planned) -> Result<()> {
    if out.json || out.quiet {
        return Ok(());
    }
    let word = match planned {
        Planned::Write => "write  ",
        Planned::Replace => "replace",
        Planned::Keep => "keep   ",
    };
    out.line(format!("{word} {}", path_text(path)))
}

/// Prints what a restore did, and which files it could not restore.
pub(crate) fn restore(
    out: &mut Out,
    about: About,
    info: &SnapshotInfo,
    asked: Asked,
    summary: &RestoreSummary,
    problems: &[(PathBuf, String)],
) -> Result<()> {
    if out.json {
        let body = JsonRestore {
            snapshot: info.id.to_string(),
            dry_run: asked.dry_run,
            files: summary.files,
            directories: summary.directories,
            others: summary.others,
            bytes: summary.bytes,
            written_bytes: summary.bytes_written,
            kept: summary.kept,
            failed: summary.failed,
            damaged: summary.damaged,
            verified: asked.verify.then_some(summary.verified),
            owners_lost: summary.owners_lost,
            inode_flags_lost: summary.inode_flags_lost,
            duration_ms: asked.duration_ms,
            problems: json_problems(problems),
        };
        return out.document("restore", about, &body);
    }
    if out.quiet {
        return Ok(());
    }
    text(out, info, asked, summary)
}

/// Prints the summary for a reader.
fn text(out: &mut Out, info: &SnapshotInfo, asked: Asked, summary: &RestoreSummary) -> Result<()> {
    let (files, folders) = (
        counted(summary.files, "file", "files"),
        counted(summary.directories, "folder", "folders"),
    );
    let did = if asked.dry_run { "would restore" } else { "restored" };
    out.line(format!(
        "{did} {files}, {folders}, {}{} of snapshot {}",
        others(summary.others),
        size(summary.bytes),
        info.short_id()
    ))?;
    let (written, is_there) = match asked.dry_run {
        false => ("written ", "was there already"),
        true => ("to write", "is there already"),
    };
    let rest = match summary.bytes.saturating_sub(summary.bytes_written) {
        0 => String::new(),
        rest => format!("; {} {is_there}, or is holes and hard links", size(rest)),
    };
    out.line(format!("  {written}  {}{rest}", size(summary.bytes_written)))?;
    if summary.kept > 0 {
        out.line(format!("  kept      {} that existed", count(summary.kept)))?;
    }
    if asked.verify {
        out.line(format!("  verified  {}", counted(summary.verified, "file", "files")))?;
    }
    if !asked.dry_run {
        out.line(format!(
            "  time      {}, {}",
            duration(asked.duration_ms),
            rate(summary.bytes, asked.duration_ms)
        ))?;
    }
    if summary.owners_lost > 0 {
        out.line(format!(
            "  owners    {} you instead of their owners, and had to do without set-user-ID bits: only root can \
             restore both. Run it again as root, with --overwrite if-changed, if you need them",
            match summary.owners_lost {
                1 => "1 file or folder belongs to".to_owned(),
                more => format!("{} files and folders belong to", count(more)),
            }
        ))?;
    }
    if summary.inode_flags_lost > 0 {
        let lack = match summary.inode_flags_lost {
            1 => "1 file or folder lacks".to_owned(),
            more => format!("{} files and folders lack", count(more)),
        };
        out.line(format!(
            "  flags     {lack} inode flags (chattr): only root can set some of them, and this file system may not \
             have others"
        ))?;
    }
    if summary.damaged > 0 {
        out.line(format!(
            "  damaged   {} kept as NAME.damaged, with zeros in place of lost bytes",
            count(summary.damaged)
        ))?;
    }
    if summary.failed > 0 {
        out.line(format!(
            "  {} could NOT be restored (named above)",
            count(summary.failed)
        ))?;
    }
    Ok(())
}
