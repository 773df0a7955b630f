//! Prints `records`.

mod compact;
mod get;
mod load;
mod repair;
mod scan;
mod stats;
mod verify;

pub(crate) use compact::{Compacted, records_compact};
pub(crate) use get::GetPrinter;
use ibid_record::replicate::TakenOver;
use ibid_record::{Log, Role, Version, Versions};
use ibid_repo::Result;
use ibid_terminal::escape;
use ibid_terminal::json::lossless;
use ibid_terminal::number::{counted, size};
use ibid_terminal::{Align, Table};
pub(crate) use load::{BadLine, Loaded, records_load};
pub(crate) use repair::records_repair;
pub(crate) use scan::{ScanPrinter, Scanned};
use serde::Serialize;
pub(crate) use stats::{StoreStats, records_stats};
pub(crate) use verify::records_verify;

use super::Out;

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
        } in versions
        {
            let body = JsonVersion {
                version,
                number,
                deleted,
            };
            out.item("version", body)?;
        }
        let versions = versions.len() as u64;
        return out.item("end", JsonVersionsEnd { versions });
    }
    let mut table = Table::new(&[("version", Align::Right), ("record", Align::Right), ("", Align::Left)]);
    for version in versions {
        let note = if version.deleted { "deleted" } else { "" };
        table.row(vec![
            version.version.to_string(),
            version.number.to_string(),
            note.to_owned(),
        ]);
    }
    table.lines().try_for_each(|line| out.line(line))
}
