//! Prints `records`.

mod compact;
mod expire;
mod find;
mod get;
mod load;
mod repair;
mod salvage;
mod scan;
mod stats;
mod verify;

pub(crate) use compact::{Compacted, records_compact};
pub(crate) use expire::ExpirePrinter;
pub(crate) use find::{FoundPrinter, Indexed, records_index};
pub(crate) use get::GetPrinter;
use ibid_record::replicate::TakenOver;
use ibid_record::{Latest, Log, Retention, Role, Time, Version, Versions};
use ibid_repo::Result;
use ibid_terminal::escape;
use ibid_terminal::json::lossless;
use ibid_terminal::number::{counted, size};
use ibid_terminal::{Align, Table};
pub(crate) use load::{BadLine, Loaded, records_load};
pub(crate) use repair::records_repair;
pub(crate) use salvage::records_salvage;
pub(crate) use scan::{ScanPrinter, Scanned};
use serde::Serialize;
pub(crate) use stats::{StoreStats, records_stats};
pub(crate) use verify::records_verify;

use super::{Out, time};

/// A key: as text, or as hexadecimal digits if it is not text.
#[derive(Serialize)]
struct JsonKey {
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_bytes: Option<String>,
}

impl JsonKey {
    fn new(key: &[u8]) -> JsonKey {
        let (key, key_bytes) = lossless(key);
        JsonKey { key, key_bytes }
    }
}

/// Returns `kept` or `latest`, as in `--versions`.
fn versions_word(versions: Versions) -> &'static str {
    match versions {
        Versions::Kept => "kept",
        Versions::Latest => "latest",
    }
}

#[derive(Serialize)]
struct JsonPut {
    #[serde(flatten)]
    key: JsonKey,
    version: u32,
    number: u64,
    bytes: u64,
}

/// Prints the stored record.
pub(crate) fn records_put(out: &mut Out, key: &[u8], stored: Version, bytes: u64) -> Result<()> {
    let Version { version, number, .. } = stored;
    if out.json {
        let key = JsonKey::new(key);
        let body = JsonPut {
            key,
            version,
            number,
            bytes,
        };
        return out.document("records put", None, &body);
    }
    if out.quiet {
        return Ok(());
    }
    out.line(format!(
        "stored {} as version {version} of {}",
        size(bytes),
        escape(key)
    ))
}

#[derive(Serialize)]
struct JsonBatch {
    conditions: u64,
    changes: Vec<JsonChange>,
}

#[derive(Serialize)]
struct JsonChange {
    number: Option<u64>,
}

/// Says how many changes a batch made, given the number of the record that each wrote.
pub(crate) fn records_batch(out: &mut Out, conditions: u64, numbers: Vec<Option<u64>>) -> Result<()> {
    if out.json {
        let changes = numbers.into_iter().map(|number| JsonChange { number }).collect();
        return out.document("records batch", None, &JsonBatch { conditions, changes });
    }
    if out.quiet {
        return Ok(());
    }
    let changes = counted(numbers.len() as u64, "change", "changes");
    match conditions {
        0 => out.line(format!("made {changes}")),
        conditions => out.line(format!(
            "made {changes}; {} held",
            counted(conditions, "condition", "conditions")
        )),
    }
}

#[derive(Serialize)]
struct JsonDelete {
    #[serde(flatten)]
    key: JsonKey,
    removed_versions: u64,
}

/// Says that a key was deleted, and how many versions were removed.
pub(crate) fn records_delete(out: &mut Out, key: &[u8], removed_versions: u64) -> Result<()> {
    if out.json {
        let key = JsonKey::new(key);
        return out.document("records delete", None, &JsonDelete { key, removed_versions });
    }
    if out.quiet {
        return Ok(());
    }
    let versions = match removed_versions {
        0 => "its versions are kept".to_owned(),
        removed => format!("removed {}", counted(removed, "version", "versions")),
    };
    out.line(format!("deleted {}; {versions}", escape(key)))
}

/// The result of a purge of versions.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Purged {
    pub(crate) removed_versions: u64,
    /// Whether the log for replicas still names them.
    pub(crate) in_log: bool,
}

#[derive(Serialize)]
struct JsonPurge {
    #[serde(flatten)]
    key: JsonKey,
    #[serde(flatten)]
    purged: Purged,
}

/// Says how many versions were purged, and what is left to do.
pub(crate) fn records_purge(out: &mut Out, key: &[u8], purged: Purged) -> Result<()> {
    if out.json {
        let key = JsonKey::new(key);
        return out.document("records purge", None, &JsonPurge { key, purged });
    }
    if out.quiet {
        return Ok(());
    }
    let versions = counted(purged.removed_versions, "version", "versions");
    out.line(format!("purged {versions} of {}", escape(key)))?;
    match purged {
        Purged {
            removed_versions: 0, ..
        } => Ok(()),
        Purged { in_log: true, .. } => out.line(
            "  the log for replicas keeps their bytes: add --truncate-log to remove what it has, and run `compact`",
        ),
        Purged { in_log: false, .. } => out.line("  run `ibid records compact` to remove their bytes from the files"),
    }
}

#[derive(Serialize)]
struct JsonLatest<'n> {
    namespace: &'n str,
    versions: &'static str,
    latest: String,
}

/// Says how a namespace stores latest versions.
pub(crate) fn records_latest(out: &mut Out, name: &str, versions: Versions, latest: Latest) -> Result<()> {
    if out.json {
        let body = JsonLatest {
            namespace: name,
            versions: versions_word(versions),
            latest: latest.to_string(),
        };
        return out.document("records latest", None, &body);
    }
    if out.quiet {
        return Ok(());
    }
    let how = match (latest, versions) {
        (Latest::Automatic, Versions::Kept) => {
            "as suits them: whole, and the same bytes once, or as deltas if practically no key has a second version"
        }
        (Latest::Automatic, Versions::Latest) => "as suits them: as deltas of similar records",
        (Latest::Whole, _) => "whole",
        (Latest::Shared, _) => "whole, and the same bytes once",
        (Latest::Deltas, _) => "as deltas of similar records",
    };
    out.line(format!("{} stores latest versions {how}", escape(name.as_bytes())))
}

#[derive(Serialize)]
struct JsonRetention<'n> {
    namespace: &'n str,
    versions: &'static str,
    keep_last: Option<u32>,
    keep_within_seconds: Option<u64>,
    expire_after_seconds: Option<u64>,
}

/// Says what a namespace keeps.
pub(crate) fn records_retention(out: &mut Out, name: &str, versions: Versions, retention: Retention) -> Result<()> {
    let seconds = |span: Option<std::time::Duration>| span.map(|span| span.as_secs());
    let Retention {
        versions: keep_last,
        within,
        lifetime,
        ..
    } = retention;
    if out.json {
        let body = JsonRetention {
            namespace: name,
            versions: versions_word(versions),
            keep_last,
            keep_within_seconds: seconds(within),
            expire_after_seconds: seconds(lifetime),
        };
        return out.document("records retention", None, &body);
    }
    if out.quiet {
        return Ok(());
    }
    let mut kept = Vec::new();
    kept.extend(keep_last.map(|last| format!("the last {}", counted(last.into(), "version", "versions"))));
    kept.extend(within.map(|span| format!("versions of the last {}", span_text(span))));
    let kept = match (versions, kept.is_empty()) {
        (Versions::Latest, _) => "the latest version of each key".to_owned(),
        (Versions::Kept, true) => "all versions".to_owned(),
        (Versions::Kept, false) => kept.join(", and "),
    };
    out.line(format!("{} keeps {kept}", escape(name.as_bytes())))?;
    match lifetime {
        Some(span) => out.line(format!("  keys expire {} after their latest version", span_text(span))),
        None => Ok(()),
    }
}

/// Returns a span in the largest unit that it is a multiple of: `30d`, `12h`, `15m` or `90s`.
fn span_text(span: std::time::Duration) -> String {
    let seconds = span.as_secs();
    let unit = [(86_400, "d"), (3600, "h"), (60, "m")].into_iter();
    let mut fits = unit.filter(|(unit, _)| seconds.is_multiple_of(*unit) && seconds > 0);
    let (unit, name) = fits.next().unwrap_or((1, "s"));
    format!("{}{name}", seconds / unit)
}

#[derive(Serialize)]
struct JsonLog {
    position: u64,
    epoch: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    complete: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fenced: Option<JsonFenced>,
}

#[derive(Serialize)]
struct JsonFenced {
    position: u64,
    epoch: u64,
}

/// Prints the position of a replica, and whether it is up to date.
pub(crate) fn records_followed(out: &mut Out, log: &Log, complete: bool) -> Result<()> {
    let Log { next, epoch, role, .. } = log;
    if out.json {
        let body = JsonLog {
            position: *next,
            epoch: *epoch,
            complete: Some(complete),
            fenced: None,
        };
        return out.document("records replicate", None, &body);
    }
    if out.quiet {
        return Ok(());
    }
    if let Role::Incomplete { .. } = role {
        return out.line("a part of the whole store is copied, and cannot be read yet");
    }
    let what = if complete {
        "has all that the primary had"
    } else {
        "not up to date yet"
    };
    out.line(format!("at position {next} of epoch {epoch}: {what}"))
}

/// Says that a replica is the primary now, and which store it has fenced.
pub(crate) fn records_promoted(
    out: &mut Out,
    position: u64,
    epoch: u64,
    fenced: Option<(&str, TakenOver)>,
) -> Result<()> {
    if out.json {
        let body = JsonLog {
            position,
            epoch,
            complete: None,
            fenced: fenced.map(|(_, TakenOver { position, epoch, .. })| JsonFenced { position, epoch }),
        };
        return out.document("records promote", None, &body);
    }
    if out.quiet {
        return Ok(());
    }
    if let Some((address, TakenOver { position, epoch, .. })) = fenced {
        out.line(format!(
            "the store at {address} takes no more changes, from position {position} of epoch {epoch} on"
        ))?;
    }
    out.line(format!(
        "now the primary, from position {position} on, in epoch {epoch}"
    ))
}

#[derive(Serialize)]
struct JsonVersion {
    version: u32,
    number: u64,
    deleted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
}

#[derive(Serialize)]
struct JsonVersionsEnd {
    versions: u64,
}

/// Prints the versions of a key, oldest first.
pub(crate) fn records_versions(out: &mut Out, key: &[u8], versions: &[Version]) -> Result<()> {
    if out.json {
        out.begin_with("records versions", None, &JsonKey::new(key))?;
        for &Version {
            version,
            number,
            deleted,
            time,
        } in versions
        {
            let body = JsonVersion {
                version,
                number,
                deleted,
                time: json_time(time),
            };
            out.item("version", body)?;
        }
        let versions = versions.len() as u64;
        return out.item("end", JsonVersionsEnd { versions });
    }
    let mut table = Table::new(&[
        ("version", Align::Right),
        ("record", Align::Right),
        ("stored", Align::Left),
        ("", Align::Left),
    ]);
    for version in versions {
        let note = if version.deleted { "deleted" } else { "" };
        table.row(vec![
            version.version.to_string(),
            version.number.to_string(),
            version.time.map_or_else(|| "–".to_owned(), local_time),
            note.to_owned(),
        ]);
    }
    table.lines().try_for_each(|line| out.line(line))
}

/// Returns the time of a version as JSON has it.
fn json_time(time: Option<Time>) -> Option<String> {
    time.map(|time| time.to_string())
}

/// Formats the time of a version in the local time zone, with the milliseconds that tell versions apart.
fn local_time(time: Time) -> String {
    let millis = time.as_millis();
    let seconds = ibid_format::tree::Time {
        seconds: (millis / 1000) as i64,
        nanos: 0,
    };
    format!("{}.{:03}", time::local(seconds), millis % 1000)
}
