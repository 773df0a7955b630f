//! Prints `forget`, `prune` and `sessions`.

use ibid_repo::{
    CheckpointInfo, FileId, PolicyGroup, PruneEstimate, PruneSummary, Result, SessionInfo, SessionState, SnapshotInfo,
    Time, WaitingFor,
};
use ibid_terminal::escape;
use ibid_terminal::json::JsonPath;
use ibid_terminal::number::{counted, percent, size};
use ibid_terminal::{Align, Table};
use serde::Serialize;

use super::json::JsonSnapshot;
use super::repair::of_writer;
use super::time::{local, rfc3339};
use super::{About, Out};

/// What `forget` has done, or would do.
pub(crate) struct Forgotten<'a> {
    pub(crate) groups: &'a [PolicyGroup],
    pub(crate) by_rule: bool,
    pub(crate) dry_run: bool,
}

/// The prune of a `forget`.
pub(crate) enum Pruned {
    /// None was asked for.
    No,
    Would(PruneEstimate),
    Done(PruneSummary),
}

#[derive(Serialize)]
struct JsonDecision {
    snapshot: JsonSnapshot,
    keep: bool,
    reasons: Vec<&'static str>,
}

#[derive(Serialize)]
struct JsonGroup {
    host: Option<String>,
    paths: Option<Vec<JsonPath>>,
    tags: Option<Vec<String>>,
    snapshots: Vec<JsonDecision>,
}

#[derive(Serialize)]
struct JsonForget {
    dry_run: bool,
    kept: u64,
    forgotten: u64,
    groups: Vec<JsonGroup>,
    prune: Option<JsonPrune>,
    prune_estimate: Option<JsonEstimate>,
}

/// Prints which snapshots are kept and forgotten, and why.
pub(crate) fn forgotten(out: &mut Out, about: About, forgotten: &Forgotten<'_>, pruned: &Pruned) -> Result<()> {
    let count = |kept| {
        let all = forgotten.groups.iter().flat_map(|group| &group.snapshots);
        all.filter(|one| one.is_kept() == kept).count() as u64
    };
    if out.json {
        let body = JsonForget {
            dry_run: forgotten.dry_run,
            kept: count(true),
            forgotten: count(false),
            groups: forgotten.groups.iter().map(json_group).collect(),
            prune: match pruned {
                Pruned::Done(summary) => Some(JsonPrune::new(summary)),
                Pruned::No | Pruned::Would(_) => None,
            },
            prune_estimate: match pruned {
                Pruned::Would(estimate) => Some(JsonEstimate::new(estimate)),
                Pruned::No | Pruned::Done(_) => None,
            },
        };
        return out.document("forget", about, &body);
    }
    if out.quiet {
        return Ok(());
    }
    if forgotten.by_rule {
        for group in forgotten.groups {
            table(out, group)?;
        }
    }
    let (kept, gone) = (count(true), count(false));
    let what = counted(gone, "snapshot", "snapshots");
    let verb = if forgotten.dry_run {
        "would be forgotten"
    } else {
        "forgotten"
    };
    match forgotten.by_rule {
        true => out.line(format!("{what} {verb}, {kept} kept"))?,
        false => out.line(format!("{what} {verb}"))?,
    }
    match pruned {
        Pruned::Done(summary) => text_pruned(out, about, summary),
        Pruned::Would(estimate) => text_would(out, about, estimate),
        Pruned::No if gone > 0 && !forgotten.dry_run => {
            out.line("`ibid prune` frees what they took; until then `ibid forget --undo` brings them back")
        }
        Pruned::No => Ok(()),
    }
}

fn json_group(group: &PolicyGroup) -> JsonGroup {
    let paths = group.paths.as_ref();
    JsonGroup {
        host: group.host.clone(),
        paths: paths.map(|paths| paths.iter().map(|path| JsonPath::new(path)).collect()),
        tags: group.tags.clone(),
        snapshots: group
            .snapshots
            .iter()
            .map(|one| JsonDecision {
                snapshot: JsonSnapshot::new(&one.info),
                keep: one.is_kept(),
                reasons: one.reasons.clone(),
            })
            .collect(),
    }
}

fn table(out: &mut Out, group: &PolicyGroup) -> Result<()> {
    let paths = group.paths.iter().flatten().map(|path| escape(path));
    let tags = group.tags.iter().flatten().map(|tag| escape(tag.as_bytes()));
    let title: Vec<String> = group
        .host
        .iter()
        .map(|host| escape(host.as_bytes()))
        .chain(paths)
        .chain(tags)
        .collect();
    if !title.is_empty() {
        out.line(title.join(" "))?;
    }
    let titles = [
        ("", Align::Left),
        ("id", Align::Left),
        ("time", Align::Left),
        ("tags", Align::Left),
        ("size", Align::Right),
        ("kept as", Align::Left),
    ];
    let mut table = Table::new(&titles);
    for one in &group.snapshots {
        let snapshot = &one.info.snapshot;
        let tags: Vec<String> = snapshot.tags.iter().map(|tag| escape(tag.as_bytes())).collect();
        table.row(vec![
            if one.is_kept() { "keep" } else { "forget" }.to_owned(),
            one.info.short_id(),
            local(snapshot.time),
            tags.join(","),
            size(snapshot.counters.bytes),
            one.reasons.join(", "),
        ]);
    }
    for line in table.lines() {
        out.line(line)?;
    }
    out.line("")
}

#[derive(Serialize)]
struct JsonRemembered {
    snapshots: Vec<JsonBack>,
}

#[derive(Serialize)]
struct JsonBack {
    forgotten: String,
    snapshot: Option<String>,
}

/// Prints the forgotten snapshots that are back, with their new ids.
pub(crate) fn remembered(out: &mut Out, about: About, back: &[(SnapshotInfo, Option<FileId>)]) -> Result<()> {
    if out.json {
        let back = back.iter().map(|(info, id)| JsonBack {
            forgotten: info.id.to_string(),
            snapshot: id.map(|id| id.to_string()),
        });
        let body = JsonRemembered {
            snapshots: back.collect(),
        };
        return out.document("forget --undo", about, &body);
    }
    if out.quiet {
        return Ok(());
    }
    for (info, id) in back {
        let what = match id {
            Some(id) => format!("is back as {}", &id.to_string()[..8]),
            None => "would come back".to_owned(),
        };
        let time = local(info.snapshot.time);
        out.line(format!("{} of {time} {what}", info.short_id()))?;
    }
    match back.is_empty() {
        true => out.line("no snapshot was forgotten since the last prune"),
        false => Ok(()),
    }
}

#[derive(Serialize)]
pub(super) struct JsonEstimate {
    packs: u64,
    pack_bytes: u64,
    lost_packs: u64,
    needed_bytes: u64,
    base_bytes: u64,
    held_bytes: u64,
    unused_bytes: u64,
    archived_bytes: u64,
    packs_deleted: u64,
    packs_repacked: u64,
    freed_bytes: u64,
    moved_bytes: u64,
    encoded_anew_bytes: u64,
}

impl JsonEstimate {
    pub(super) fn new(estimate: &PruneEstimate) -> JsonEstimate {
        JsonEstimate {
            packs: estimate.packs,
            pack_bytes: estimate.pack_bytes,
            lost_packs: estimate.lost_packs,
            needed_bytes: estimate.needed,
            base_bytes: estimate.bases,
            held_bytes: estimate.held,
            unused_bytes: estimate.unused,
            archived_bytes: estimate.archived,
            packs_deleted: estimate.packs_deleted,
            packs_repacked: estimate.packs_repacked,
            freed_bytes: estimate.freed,
            moved_bytes: estimate.moved,
            encoded_anew_bytes: estimate.encoded_anew,
        }
    }
}

#[derive(Serialize)]
struct JsonPruned {
    dry_run: bool,
    estimate: JsonEstimate,
    done: Option<JsonPrune>,
}

/// Prints what a prune would do.
pub(crate) fn prune_estimate(out: &mut Out, about: About, estimate: &PruneEstimate) -> Result<()> {
    if out.json {
        let body = JsonPruned {
            dry_run: true,
            estimate: JsonEstimate::new(estimate),
            done: None,
        };
        return out.document("prune", about, &body);
    }
    text_estimate(out, estimate)?;
    text_would(out, about, estimate)
}

/// Prints what a prune would do, before what that costs.
pub(crate) fn would_prune(out: &mut Out, about: About, estimate: &PruneEstimate) -> Result<()> {
    match out.json {
        true => Ok(()),
        false => text_would(out, about, estimate),
    }
}

fn text_would(out: &mut Out, about: About, estimate: &PruneEstimate) -> Result<()> {
    out.line(format!(
        "would free     {}  {} deleted, {} written anew",
        size(estimate.freed),
        counted(estimate.packs_deleted, "pack", "packs"),
        estimate.packs_repacked
    ))?;
    out.line(format!("would move     {}  read, and written", size(estimate.moved)))?;
    if estimate.encoded_anew > 0 {
        let what = "of chunks, so that their bases can go";
        out.line(format!("would encode   {}  {what}", size(estimate.encoded_anew)))?;
    }
    text_archived(out, estimate)?;
    text_lost(out, about, estimate)
}

/// Prints what stays because it is in an archive.
fn text_archived(out: &mut Out, estimate: &PruneEstimate) -> Result<()> {
    match estimate.archived {
        0 => Ok(()),
        bytes => out.line(format!(
            "stays          {}  unused, in packs of an archive of which other parts are needed",
            size(bytes)
        )),
    }
}

/// Prints how many packs are damaged.
fn text_lost(out: &mut Out, about: About, estimate: &PruneEstimate) -> Result<()> {
    if estimate.lost_packs == 0 {
        return Ok(());
    }
    let packs = counted(estimate.lost_packs, "pack is", "packs are");
    out.line(format!(
        "{packs} not whole (see above), and only the others are pruned: snapshots may have lost data. Run `ibid \
         repair{}`",
        of_writer(about)
    ))
}

fn text_estimate(out: &mut Out, estimate: &PruneEstimate) -> Result<()> {
    let all = estimate.needed + estimate.bases + estimate.held + estimate.unused;
    let packs = counted(estimate.packs, "pack", "packs");
    out.line(format!("stored         {}  in {packs}", size(estimate.pack_bytes)))?;
    let parts = [
        ("needed", estimate.needed, "by snapshots"),
        ("bases", estimate.bases, "needed only to read deltas"),
        (
            "held",
            estimate.held,
            "perhaps needed to read what is in packs that are not whole",
        ),
        ("unused", estimate.unused, ""),
    ];
    for (name, bytes, what) in parts
        .into_iter()
        .filter(|(name, bytes, _)| *name != "held" || *bytes > 0)
    {
        let line = format!("{name:<15}{}  {}  {what}", size(bytes), percent(bytes, all));
        out.line(line.trim_end())?;
    }
    Ok(())
}

#[derive(Serialize)]
struct JsonWaiting {
    session: String,
    host: Option<String>,
    since: Option<String>,
}

#[derive(Serialize)]
struct JsonPrune {
    freed_bytes: u64,
    deleted_bytes: u64,
    packs_deleted: u64,
    packs_written: u64,
    written_bytes: u64,
    encoded_anew_bytes: u64,
    files_merged: u64,
    stored_bytes: u64,
    lost_packs: u64,
    waiting: Vec<JsonWaiting>,
    locks_renewed: u64,
    locked_until: Option<String>,
}

impl JsonPrune {
    fn new(summary: &PruneSummary) -> JsonPrune {
        JsonPrune {
            freed_bytes: summary.freed(),
            deleted_bytes: summary.deleted,
            packs_deleted: summary.packs_deleted,
            packs_written: summary.packs_written,
            written_bytes: summary.written,
            encoded_anew_bytes: summary.encoded_anew,
            files_merged: summary.files_merged,
            stored_bytes: summary.stored,
            lost_packs: summary.estimate.lost_packs,
            waiting: summary.waiting.iter().map(json_waiting).collect(),
            locks_renewed: summary.locks_renewed,
            locked_until: summary.locked_until.map(|seconds| rfc3339(Time { seconds, nanos: 0 })),
        }
    }
}

fn json_waiting(waiting: &WaitingFor) -> JsonWaiting {
    let session = waiting.info.as_ref().map(|info| &info.session);
    JsonWaiting {
        session: waiting.id.to_string(),
        host: session.map(|session| session.host.clone()),
        since: session.map(|session| rfc3339(session.time)),
    }
}

/// Prints what a prune has done.
pub(crate) fn pruned(out: &mut Out, about: About, summary: &PruneSummary) -> Result<()> {
    if out.json {
        let body = JsonPruned {
            dry_run: false,
            estimate: JsonEstimate::new(&summary.estimate),
            done: Some(JsonPrune::new(summary)),
        };
        return out.document("prune", about, &body);
    }
    if out.quiet {
        return Ok(());
    }
    text_estimate(out, &summary.estimate)?;
    text_pruned(out, about, summary)
}

fn text_pruned(out: &mut Out, about: About, summary: &PruneSummary) -> Result<()> {
    text_freed(out, summary)?;
    text_locks(out, summary)?;
    text_lost(out, about, &summary.estimate)
}

/// Prints which locks were renewed, and when the space comes free that locks keep.
fn text_locks(out: &mut Out, summary: &PruneSummary) -> Result<()> {
    if let Some(seconds) = summary.locked_until {
        let time = local(Time { seconds, nanos: 0 });
        out.line(format!(
            "locked         what was deleted takes space until {time}; then a rule of the bucket can remove it"
        ))?;
    }
    match summary.locks_renewed {
        0 => Ok(()),
        count => out.line(format!("renewed        {}", counted(count, "lock", "locks"))),
    }
}

fn text_freed(out: &mut Out, summary: &PruneSummary) -> Result<()> {
    if summary.packs_deleted == 0 && summary.waiting.is_empty() {
        return out.line(format!("nothing to free; {} stored", size(summary.stored)));
    }
    if summary.packs_deleted > 0 {
        out.line(format!(
            "freed          {}  {} deleted, {} written with {}",
            size(summary.freed()),
            counted(summary.packs_deleted, "pack", "packs"),
            summary.packs_written,
            size(summary.written)
        ))?;
    }
    for waiting in &summary.waiting {
        let id = &waiting.id.to_string()[..8];
        match &waiting.info {
            Some(info) => out.line(format!(
                "waiting for session {id}: {} on {} since {}",
                escape(info.session.action.as_bytes()),
                escape(info.session.host.as_bytes()),
                local(info.session.time)
            ))?,
            None => out.line(format!("waiting for session {id}, whose file can't be read"))?,
        }
    }
    if !summary.waiting.is_empty() {
        out.line("the rest is freed by the next prune after it has ended; --give-up-on ends it now")?;
    }
    out.line(format!("stored now     {}", size(summary.stored)))
}

#[derive(Serialize)]
struct JsonSession {
    id: String,
    state: &'static str,
    action: String,
    time: String,
    host: String,
    user: String,
    program: String,
    process: u64,
    paths: Vec<JsonPath>,
    checkpoint: Option<JsonCheckpoint>,
}

#[derive(Serialize)]
struct JsonCheckpoint {
    time: String,
    files: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct JsonEnd {
    sessions: u64,
}

pub(super) fn state(state: SessionState) -> &'static str {
    match state {
        SessionState::Running => "running",
        SessionState::Dead => "killed",
        SessionState::Unknown => "open",
        SessionState::Ended => "ended",
    }
}

/// Prints the sessions, oldest first.
pub(crate) fn sessions(
    out: &mut Out,
    about: About,
    sessions: &[SessionInfo],
    checkpoints: &[CheckpointInfo],
) -> Result<()> {
    let count = sessions.len() as u64;
    // They are in their order, so this is the last one.
    let kept = |session: &SessionInfo| {
        let all = checkpoints.iter().map(|info| &info.checkpoint);
        all.rev().find(|checkpoint| checkpoint.session == session.id)
    };
    if out.json {
        out.begin("sessions", about)?;
        for info in sessions {
            let session = &info.session;
            let item = JsonSession {
                id: info.id.to_string(),
                state: state(info.state),
                action: session.action.clone(),
                time: rfc3339(session.time),
                host: session.host.clone(),
                user: session.user.clone(),
                program: session.program.clone(),
                process: session.process.pid,
                paths: session.paths.iter().map(|path| JsonPath::new(path)).collect(),
                checkpoint: kept(info).map(|checkpoint| JsonCheckpoint {
                    time: rfc3339(checkpoint.time),
                    files: checkpoint.files,
                    bytes: checkpoint.bytes,
                }),
            };
            out.item("session", item)?;
        }
        return out.item("end", JsonEnd { sessions: count });
    }
    let titles = [
        ("id", Align::Left),
        ("state", Align::Left),
        ("since", Align::Left),
        ("host", Align::Left),
        ("user", Align::Left),
        ("process", Align::Right),
        ("kept", Align::Right),
        ("what", Align::Left),
    ];
    let mut table = Table::new(&titles);
    for info in sessions {
        let session = &info.session;
        let paths = session.paths.iter().map(|path| escape(path));
        let what: Vec<String> = std::iter::once(escape(session.action.as_bytes()))
            .chain(paths)
            .collect();
        table.row(vec![
            info.id.to_string()[..8].to_owned(),
            state(info.state).to_owned(),
            local(session.time),
            escape(session.host.as_bytes()),
            escape(session.user.as_bytes()),
            session.process.pid.to_string(),
            kept(info).map_or_else(String::new, |checkpoint| size(checkpoint.bytes)),
            what.join(" "),
        ]);
    }
    if count > 0 {
        for line in table.lines() {
            out.line(line)?;
        }
    }
    match out.quiet {
        true => Ok(()),
        false => out.line(counted(count, "session", "sessions")),
    }
}
