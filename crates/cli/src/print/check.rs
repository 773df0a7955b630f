//! Prints `check`.

use std::os::unix::ffi::OsStrExt;

use ibid_repo::{CheckReport, Fault, PackBytes, Party, ReadData, Result};
use ibid_terminal::json::JsonPath;
use ibid_terminal::number::{count, counted, percent, size};
use ibid_terminal::{escape, path_text};
use serde::Serialize;

use super::repair::of_writer;
use super::unfinished::{JsonUnfinished, unfinished};
use super::{About, Out};
use crate::failure::advice;

#[derive(Serialize)]
pub(super) struct JsonFault<'a> {
    object: &'a str,
    problem: &'a str,
}

#[derive(Serialize)]
pub(super) struct JsonAffected<'a> {
    snapshot: String,
    #[serde(flatten)]
    path: JsonPath,
    problem: &'a str,
}

#[derive(Serialize)]
struct JsonCheck<'a> {
    clean: bool,
    snapshots: u64,
    packs: u64,
    packs_read: u64,
    read_bytes: u64,
    pack_bytes: u64,
    seed: Option<u64>,
    unlisted_packs: u64,
    archived_packs: u64,
    archived_bytes: u64,
    faults: Vec<JsonFault<'a>>,
    faults_total: u64,
    affected: Vec<JsonAffected<'a>>,
    affected_total: u64,
    notes: Vec<JsonFault<'a>>,
    unfinished: JsonUnfinished,
}

/// Prints the result of a check, with the seed if it chose a share of the packs.
pub(crate) fn check(out: &mut Out, about: About, report: &CheckReport, read: ReadData, as_of: bool) -> Result<()> {
    let seed = match read {
        ReadData::Share { seed, .. } => Some(seed),
        _ => None,
    };
    if out.json {
        return out.document("check", about, &document(report, seed));
    }
    for fault in &report.faults {
        out.line(format!(
            "fault: {}: {}",
            escape(fault.object.as_bytes()),
            escape(fault.problem.as_bytes())
        ))?;
    }
    let unnamed = report.faults_total.saturating_sub(report.faults.len() as u64);
    if unnamed > 0 {
        out.line(format!("fault: {} more", count(unnamed)))?;
    }
    print_affected(out, report)?;
    if out.quiet && report.is_clean() {
        return Ok(());
    }
    for note in &report.notes {
        out.line(format!(
            "note: {}: {}",
            escape(note.object.as_bytes()),
            escape(note.problem.as_bytes())
        ))?;
    }
    let mut how = match report.packs_read {
        0 => "without their data".to_owned(),
        packs if packs == report.packs => format!("all of them read ({})", size(report.pack_bytes)),
        packs => format!(
            "{} read whole ({} of {}, {})",
            count(packs),
            size(report.bytes_read),
            size(report.pack_bytes),
            percent(report.bytes_read, report.pack_bytes)
        ),
    };
    if let Some(seed) = seed {
        how += &format!("; --seed {seed} chooses the same packs");
    }
    let snapshots = counted(report.snapshots, "snapshot", "snapshots");
    out.line(format!(
        "checked {snapshots} and {}, {how}",
        counted(report.packs, "pack", "packs")
    ))?;
    let restore = match as_of {
        true => "`ibid restore latest DEST --thaw --thaw-only` with the same --as-of",
        false => "`ibid restore latest DEST --thaw --thaw-only`",
    };
    let (what, how) = match read {
        ReadData::No => ("not looked into", String::new()),
        _ => (
            "not thawed and not read",
            format!(". {restore} asks for what the latest snapshot needs"),
        ),
    };
    let not_read = [
        format!("{what}: it is there, in its size{how}"),
        format!("{what}: they are there, in their size{how}"),
    ];
    archived(out, report.archived, not_read.each_ref().map(String::as_str))?;
    if report.unlisted_packs > 0 {
        let packs = counted(report.unlisted_packs, "pack", "packs");
        out.line(match about.party {
            // Some may lack what they are encoded against.
            Party::Keeper => format!("{packs} in no index file; the next prune lists those that are whole"),
            Party::Owner | Party::Writer => format!("{packs} in no index file; the next backup lists them"),
        })?;
    }
    unfinished(out, &report.unfinished)?;
    if report.is_clean() {
        return out.line("no faults");
    }
    let faults = counted(report.faults_total, "fault", "faults");
    let files = counted(report.affected_total, "file or folder", "files or folders");
    match (report.faults_total, report.affected_total) {
        (_, 0) => out.line(format!("FOUND {faults}"))?,
        // A repair of a writer's files has ended all but this.
        (0, _) => out.line(format!(
            "LOST: {files} of snapshots cannot be restored whole. What a backup finds of them comes back. \
             `ibid rewrite --all --exclude-lost --forget{}` leaves out the rest",
            of_writer(about)
        ))?,
        _ => out.line(format!("FOUND {faults}; {files} of snapshots cannot be restored whole"))?,
    }
    let advices = advice::on_faults(&report.faults);
    let has_advice = !advices.is_empty();
    for advice in advices {
        out.line(advice)?;
    }
    match about.party {
        Party::Keeper if has_advice => out.line("Give these commands the same --writer. The writer makes the backups."),
        _ => Ok(()),
    }
}

/// Says what was not done with packs in an archive, if there are any.
pub(super) fn archived(out: &mut Out, archived: PackBytes, [of_one, of_many]: [&str; 2]) -> Result<()> {
    match archived.packs {
        0 => Ok(()),
        packs => out.line(format!(
            "{} ({}) in an archive, {}",
            counted(packs, "pack", "packs"),
            size(archived.bytes),
            if packs == 1 { of_one } else { of_many }
        )),
    }
}

/// Prints the files of snapshots that can't be restored.
pub(super) fn print_affected(out: &mut Out, report: &CheckReport) -> Result<()> {
    for affected in &report.affected {
        let snapshot = &affected.snapshot.to_string()[..8];
        out.line(format!(
            "affected: {snapshot}:{}  {}",
            path_text(&affected.path),
            escape(affected.problem.as_bytes())
        ))?;
    }
    let unnamed = report.affected_total.saturating_sub(report.affected.len() as u64);
    if unnamed > 0 {
        out.line(format!("affected: {} more", count(unnamed)))?;
    }
    Ok(())
}

fn document(report: &CheckReport, seed: Option<u64>) -> JsonCheck<'_> {
    JsonCheck {
        clean: report.is_clean(),
        snapshots: report.snapshots,
        packs: report.packs,
        packs_read: report.packs_read,
        read_bytes: report.bytes_read,
        pack_bytes: report.pack_bytes,
        seed,
        unlisted_packs: report.unlisted_packs,
        archived_packs: report.archived.packs,
        archived_bytes: report.archived.bytes,
        faults: json_faults(&report.faults),
        faults_total: report.faults_total,
        affected: json_affected(report),
        affected_total: report.affected_total,
        notes: json_faults(&report.notes),
        unfinished: JsonUnfinished::new(&report.unfinished),
    }
}

pub(super) fn json_affected(report: &CheckReport) -> Vec<JsonAffected<'_>> {
    let affected = report.affected.iter().map(|affected| JsonAffected {
        snapshot: affected.snapshot.to_string(),
        path: JsonPath::new(affected.path.as_os_str().as_bytes()),
        problem: &affected.problem,
    });
    affected.collect()
}

pub(super) fn json_faults<'a>(faults: &'a [Fault]) -> Vec<JsonFault<'a>> {
    let json = |fault: &'a Fault| JsonFault {
        object: &fault.object,
        problem: &fault.problem,
    };
    faults.iter().map(json).collect()
}
