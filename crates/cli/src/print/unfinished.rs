//! Prints what a check has found unfinished: sessions, condemned packs and the like.

use ibid_repo::{PackBytes, Result, SessionState, Unfinished};
use ibid_terminal::escape;
use ibid_terminal::number::{count, counted, size};
use serde::Serialize;

use super::Out;
use super::time::{local, rfc3339};
use super::upkeep::state;

#[derive(Serialize)]
struct JsonOpenSession {
    session: String,
    state: &'static str,
    host: String,
    since: String,
}

#[derive(Serialize)]
pub(super) struct JsonUnfinished {
    sessions: Vec<JsonOpenSession>,
    void_snapshots: u64,
    log_entry: u64,
    condemned_packs: u64,
    condemned_bytes: u64,
    doomed_packs: u64,
    doomed_bytes: u64,
    untrusted_index_files: u64,
    orphaned_frames: u64,
    orphaned_bytes: u64,
}

impl JsonUnfinished {
    pub(super) fn new(unfinished: &Unfinished) -> JsonUnfinished {
        let sessions = unfinished.sessions.iter().map(|info| JsonOpenSession {
            session: info.id.to_string(),
            state: state(info.state),
            host: info.session.host.clone(),
            since: rfc3339(info.session.time),
        });
        JsonUnfinished {
            sessions: sessions.collect(),
            void_snapshots: unfinished.void_snapshots,
            log_entry: unfinished.log_entry,
            condemned_packs: unfinished.condemned.packs,
            condemned_bytes: unfinished.condemned.bytes,
            doomed_packs: unfinished.doomed.packs,
            doomed_bytes: unfinished.doomed.bytes,
            untrusted_index_files: unfinished.untrusted_index_files,
            orphaned_frames: unfinished.orphaned_frames,
            orphaned_bytes: unfinished.orphaned_bytes,
        }
    }
}

/// Prints a line for each kind of thing that is unfinished.
pub(super) fn unfinished(out: &mut Out, found: &Unfinished) -> Result<()> {
    if let Some(oldest) = found.sessions.first() {
        let open = found.sessions.len() as u64;
        let is_killed = |session: &&ibid_repo::SessionInfo| session.state == SessionState::Dead;
        let killed = match found.sessions.iter().filter(is_killed).count() as u64 {
            0 => String::new(),
            killed => format!("; {killed} killed on this machine, which the next prune ends"),
        };
        out.line(format!(
            "{} not ended, the oldest on {} since {}{killed}",
            counted(open, "session has", "sessions have"),
            escape(oldest.session.host.as_bytes()),
            local(oldest.session.time),
        ))?;
    }
    if found.void_snapshots > 0 {
        out.line(format!(
            "{} in place of the snapshots of sessions that a prune has ended",
            counted(found.void_snapshots, "void file", "void files")
        ))?;
    }
    if found.log_entry > 0 {
        out.line(format!("the log of prunes ends with entry {}", count(found.log_entry)))?;
    }
    packs(out, found.condemned, "condemned", "a later prune deletes or releases")?;
    packs(out, found.doomed, "doomed", "the next prune deletes")?;
    if found.untrusted_index_files > 0 {
        out.line(format!(
            "{} not used, of backups that a prune has ended; the next prune deletes them",
            counted(found.untrusted_index_files, "index file", "index files")
        ))?;
    }
    if found.orphaned_frames > 0 {
        out.line(format!(
            "{} ({}) whose bases are gone, and that no snapshot needs; a later prune frees them",
            counted(found.orphaned_frames, "frame", "frames"),
            size(found.orphaned_bytes)
        ))?;
    }
    Ok(())
}

fn packs(out: &mut Out, packs: PackBytes, what: &str, fate: &str) -> Result<()> {
    if packs.packs == 0 {
        return Ok(());
    }
    out.line(format!(
        "{} {what} ({}); {fate} them",
        counted(packs.packs, "pack", "packs"),
        size(packs.bytes)
    ))
}
