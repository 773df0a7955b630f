//! Prints `repair`.

use ibid_repo::{Fault, Party, RepairReport, Result};
use ibid_terminal::escape;
use ibid_terminal::number::{count, counted, size};
use serde::Serialize;

use super::check::{JsonAffected, JsonFault, archived, json_affected, json_faults, print_affected};
use super::{About, Out};
use crate::failure::advice;

#[derive(Serialize)]
struct JsonRepair<'a> {
    dry_run: bool,
    clean: bool,
    config_made: bool,
    packs: u64,
    archived_packs: u64,
    archived_bytes: u64,
    salvaged_frames: u64,
    salvaged_bytes: u64,
    lost_frames: u64,
    listed_packs: u64,
    log_entries: u64,
    forgotten_packs: u64,
    lost_snapshots: u64,
    set_aside: Vec<JsonFault<'a>>,
    deleted: Vec<JsonFault<'a>>,
    left: Vec<JsonFault<'a>>,
    deleted_aside: u64,
    written_bytes: u64,
    faults: Vec<JsonFault<'a>>,
    faults_total: u64,
    affected: Vec<JsonAffected<'a>>,
    affected_total: u64,
}

/// Prints what a repair did, or would do, and what is lost.
pub(crate) fn repair(out: &mut Out, about: About, report: &RepairReport, config_made: bool) -> Result<()> {
    if out.json {
        return out.document("repair", about, &document(report, config_made));
    }
    if config_made {
        out.line(match (about.party, report.dry_run) {
            (Party::Keeper, true) => "the config of the writer would be made again",
            (Party::Keeper, false) => "made the config of the writer again",
            (_, true) => "the config would be made again from its copy",
            (_, false) => "made the config again from its copy",
        })?;
    }
    let would = if report.dry_run { "would be " } else { "" };
    list(out, &format!("{would}set aside"), &report.set_aside)?;
    list(out, &format!("{would}deleted"), &report.deleted)?;
    list(out, "left as it is", &report.left)?;
    print_affected(out, &report.check)?;
    if out.quiet && report.is_clean() {
        return Ok(());
    }
    let packs = |packs| counted(packs, "pack", "packs");
    out.line(format!("examined {}", packs(report.packs)))?;
    archived(out, report.archived, ["left as it is", "left as they are"])?;
    if report.salvaged_frames + report.lost_frames > 0 {
        out.line(format!(
            "  of damaged packs, {} ({}) {would}salvaged, {} lost",
            counted(report.salvaged_frames, "frame", "frames"),
            size(report.salvaged_bytes),
            count(report.lost_frames)
        ))?;
    }
    if report.listed_packs > 0 {
        out.line(format!("  {} {would}listed again", packs(report.listed_packs)))?;
    }
    if report.log_entries > 0 {
        let entries = counted(report.log_entries, "damaged entry", "damaged entries");
        out.line(format!(
            "  {entries} at the end of the log of prunes {would}followed by another one"
        ))?;
    }
    if report.forgotten_packs > 0 {
        let packs = counted(report.forgotten_packs, "missing pack", "missing packs");
        out.line(match about.party {
            // What needs them is lost, which the list above says.
            Party::Keeper => format!("  {packs} {would}forgotten"),
            Party::Owner | Party::Writer => format!("  {packs} that nothing needs {would}forgotten"),
        })?;
    }
    if report.deleted_aside > 0 {
        let files = counted(report.deleted_aside, "file", "files");
        out.line(format!("  {files} that earlier repairs had set aside {would}deleted"))?;
    }
    end(out, about, report, config_made)
}

/// Prints what is left to do.
fn end(out: &mut Out, about: About, report: &RepairReport, config_made: bool) -> Result<()> {
    if report.is_clean() && !config_made {
        return out.line("nothing to repair");
    }
    if report.dry_run {
        return out.line("nothing was written (--dry-run)");
    }
    if !report.set_aside.is_empty() {
        let writer = of_writer(about);
        out.line(format!(
            "What was set aside is below `damaged` in the repository. `ibid repair --delete-damaged{writer}` deletes it"
        ))?;
    }
    if !report.left.is_empty() {
        out.line(
            "Check the disk and the permissions of what was left, and move away what is no file, then run `ibid \
             repair` again",
        )?;
    }
    if report.set_aside.iter().any(|fault| fault.object.starts_with("keys/")) {
        out.line(
            "The passwords of keys that were set aside open the repository no more: add others with `ibid key add`",
        )?;
    }
    let lost_snapshots = report.lost_snapshots();
    if lost_snapshots > 0 {
        out.line(format!(
            "LOST: {}, unless a copy of the repository has the file",
            counted(lost_snapshots, "snapshot", "snapshots")
        ))?;
    }
    match report.check.affected_total {
        0 if report.check.is_clean() && lost_snapshots > 0 => Ok(()),
        0 if report.check.is_clean() => out.line("repaired: nothing is lost"),
        0 => {
            let faults = counted(report.check.faults_total, "fault is", "faults are");
            out.line(format!("{faults} left; no file of a snapshot is lost"))?;
            let is_of_log = |fault: &&Fault| fault.object.starts_with("prune/");
            let of_log: Vec<Fault> = report.check.faults.iter().filter(is_of_log).cloned().collect();
            // The others need a repair that can read them.
            advice::on_faults(&of_log)
                .into_iter()
                .try_for_each(|advice| out.line(advice))
        }
        files => out.line(format!(
            "LOST: {} of snapshots cannot be restored whole. {}: what they still have comes back, in these snapshots \
             too. What does not come back is reported until no snapshot has it: \
             `ibid rewrite --all --exclude-lost --forget{}` leaves it out",
            counted(files, "file or folder", "files or folders"),
            match about.party {
                Party::Keeper => "Have the writer back up the same files again",
                Party::Owner | Party::Writer => "Back up the same files again",
            },
            of_writer(about)
        )),
    }
}

/// Returns the option that a command needs which has to do with the files of a writer.
pub(super) fn of_writer(about: About) -> &'static str {
    match about.party {
        Party::Keeper => " --writer NAME",
        Party::Owner | Party::Writer => "",
    }
}

fn list(out: &mut Out, what: &str, faults: &[Fault]) -> Result<()> {
    for fault in faults {
        let (object, problem) = (escape(fault.object.as_bytes()), escape(fault.problem.as_bytes()));
        out.line(format!("{what}: {object}: {problem}"))?;
    }
    Ok(())
}

fn document(report: &RepairReport, config_made: bool) -> JsonRepair<'_> {
    JsonRepair {
        dry_run: report.dry_run,
        clean: report.is_clean() && !config_made,
        config_made,
        packs: report.packs,
        archived_packs: report.archived.packs,
        archived_bytes: report.archived.bytes,
        salvaged_frames: report.salvaged_frames,
        salvaged_bytes: report.salvaged_bytes,
        lost_frames: report.lost_frames,
        listed_packs: report.listed_packs,
        log_entries: report.log_entries,
        forgotten_packs: report.forgotten_packs,
        lost_snapshots: report.lost_snapshots(),
        set_aside: json_faults(&report.set_aside),
        deleted: json_faults(&report.deleted),
        left: json_faults(&report.left),
        deleted_aside: report.deleted_aside,
        written_bytes: report.written,
        faults: json_faults(&report.check.faults),
        faults_total: report.check.faults_total,
        affected: json_affected(&report.check),
        affected_total: report.check.affected_total,
    }
}
