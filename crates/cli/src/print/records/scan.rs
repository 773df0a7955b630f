//! Prints `records scan`.

use ibid_record::{KeyState, Record, Version};
use ibid_repo::Result;
use ibid_terminal::escape;
use ibid_terminal::json::Hex;
use ibid_terminal::number::size;
use serde::Serialize;

use super::super::Out;
use super::{JsonKey, json_time};

#[derive(Serialize)]
pub(super) struct JsonBegin<'n> {
    pub(super) namespace: &'n str,
}

/// A record, or a key without its body. `ibid records load --scanned` reads records.
#[derive(Serialize)]
pub(super) struct JsonRecord<'r> {
    #[serde(flatten)]
    key: JsonKey,
    version: u32,
    number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deleted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_bytes: Option<Hex<'r>>,
}

impl<'r> JsonRecord<'r> {
    pub(super) fn new(key: &[u8], version: Version, body: &'r [u8]) -> JsonRecord<'r> {
        let text = std::str::from_utf8(body).ok();
        JsonRecord {
            key: JsonKey::new(key),
            version: version.version,
            number: version.number,
            time: json_time(version.time),
            deleted: false,
            body: text,
            body_bytes: text.is_none().then_some(Hex(body)),
        }
    }

    fn of(record: &'r Record) -> JsonRecord<'r> {
        let version = Version {
            version: record.version,
            number: record.number,
            deleted: false,
            time: record.time,
        };
        JsonRecord::new(&record.key, version, &record.body)
    }

    fn without_body(state: &KeyState) -> JsonRecord<'r> {
        let Version {
            version,
            number,
            deleted,
            time,
        } = state.latest;
        JsonRecord {
            key: JsonKey::new(&state.key),
            version,
            number,
            time: json_time(time),
            deleted,
            body: None,
            body_bytes: None,
        }
    }
}

#[derive(Serialize)]
pub(super) struct JsonEnd {
    pub(super) records: u64,
    /// With `--as-of`: keys of which nothing is known at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unknown: Option<u64>,
    /// Records that could not be read, each of which was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unreadable: Option<u64>,
}

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scanned {
    /// Records with their bodies.
    Records,
    /// Keys.
    Keys,
    /// Deleted keys.
    Deleted,
}

/// Prints records as they arrive, without collecting them.
pub(crate) struct ScanPrinter<'a> {
    out: &'a mut Out,
    keys_only: bool,
    records: u64,
}

impl<'a> ScanPrinter<'a> {
    pub(crate) fn begin(
        out: &'a mut Out,
        namespace: &str,
        scanned: Scanned,
        keys_only: bool,
    ) -> Result<ScanPrinter<'a>> {
        if out.json {
            out.begin_with("records scan", None, &JsonBegin { namespace })?;
        } else if out.is_terminal() && !keys_only {
            out.line(match scanned {
                Scanned::Records | Scanned::Keys => "    record  version       size  key",
                Scanned::Deleted => "    record  version  deleted key",
            })?;
        }
        Ok(ScanPrinter {
            out,
            keys_only,
            records: 0,
        })
    }

    /// Whether bodies are printed: a table for a terminal has their lengths.
    pub(crate) fn shows_bodies(&self) -> bool {
        self.out.json || !self.out.is_terminal()
    }

    /// Prints a record with its body.
    pub(crate) fn record(&mut self, record: &Record) -> Result<()> {
        self.records += 1;
        match self.out.json {
            true => self.out.item("record", JsonRecord::of(record)),
            false => self.out.json(&JsonRecord::of(record)),
        }
    }

    /// Prints a key with the length of its body.
    pub(crate) fn length(&mut self, state: &KeyState, bytes: u64) -> Result<()> {
        self.records += 1;
        let (number, version, size) = (state.latest.number, state.latest.version, size(bytes));
        let key = escape(&state.key);
        self.out.line(format!("{number:>10}  {version:>7} {size:>10}  {key}"))
    }

    /// Prints a key without its body.
    pub(crate) fn key(&mut self, state: &KeyState) -> Result<()> {
        self.records += 1;
        if self.out.json {
            return self.out.item("record", JsonRecord::without_body(state));
        }
        if self.keys_only {
            return self.out.line(escape(&state.key));
        }
        if !self.out.is_terminal() {
            return self.out.json(&JsonRecord::without_body(state));
        }
        let Version { version, number, .. } = state.latest;
        self.out
            .line(format!("{number:>10}  {version:>7}  {}", escape(&state.key)))
    }

    /// Ends the list. `unknown` is how many keys could not be listed as they were at a time, and `unreadable` how many
    /// records could not be read.
    pub(crate) fn end(self, unknown: Option<u64>, unreadable: u64) -> Result<()> {
        if let Some(keys @ 1..) = unknown {
            super::super::not_as_of(keys);
        }
        let records = self.records;
        match self.out.json {
            true => {
                let end = JsonEnd {
                    records,
                    unknown,
                    unreadable: Some(unreadable),
                };
                self.out.item("end", end)
            }
            false => Ok(()),
        }
    }
}
