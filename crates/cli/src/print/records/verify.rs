//! Prints `records verify`.

use ibid_record::{Fault, Verification};
use ibid_repo::Result;
use ibid_terminal::escape_text;
use ibid_terminal::json::lossless;
use ibid_terminal::number::{count, counted, size};
use serde::Serialize;

use super::super::Out;
use super::stats::{JsonNamespace, json_namespaces};
use crate::failure::advice::SALVAGE;

#[derive(Serialize)]
struct JsonFault {
    table: &'static str,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_bytes: Option<String>,
    problem: String,
}

impl JsonFault {
    fn new(fault: &Fault) -> JsonFault {
        let (key, key_bytes) = lossless(&fault.key);
        JsonFault {
            table: fault.table.name(),
            key,
            key_bytes,
            problem: fault.to_string(),
        }
    }
}

#[derive(Serialize)]
struct JsonVerify<'v> {
    clean: bool,
    namespaces: Vec<JsonNamespace<'v>>,
    /// Pieces of long bodies, and their lists.
    pieces: u64,
    faults_total: u64,
    faults: Vec<JsonFault>,
}

pub(crate) fn records_verify(out: &mut Out, found: &Verification) -> Result<()> {
    if out.json {
        let body = JsonVerify {
            clean: found.is_clean(),
            namespaces: json_namespaces(&found.namespaces),
            pieces: found.pieces.as_ref().map_or(0, |pieces| pieces.records),
            faults_total: found.faults_total,
            faults: found.faults.iter().map(JsonFault::new).collect(),
        };
        return out.document("records verify", None, &body);
    }
    for fault in &found.faults {
        out.line(format!("fault: {}", escape_text(&fault.to_string())))?;
    }
    let unnamed = found.faults_total - found.faults.len() as u64;
    if unnamed > 0 {
        out.line(format!("fault: {} more", count(unnamed)))?;
    }
    if out.quiet && found.is_clean() {
        return Ok(());
    }
    let sum = |of: fn(&ibid_record::NamespaceCounts) -> u64| found.namespaces.iter().map(of).sum();
    let (keys, records, bytes) = (
        sum(|counts| counts.keys + counts.keys_deleted),
        sum(|counts| counts.records),
        sum(|counts| counts.body_bytes),
    );
    out.line(format!(
        "verified {} of {}, {}",
        counted(records, "record", "records"),
        counted(keys, "key", "keys"),
        size(bytes)
    ))?;
    match found.faults_total {
        0 => out.line("no faults"),
        faults => {
            out.line(format!("FOUND {}", counted(faults, "fault", "faults")))?;
            out.line(SALVAGE)
        }
    }
}
