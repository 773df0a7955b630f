//! Prints `records find` and `records index`.

use ibid_record::{IndexedKey, IndexedRecord, Record, Unique, Version};
use ibid_repo::Result;
use ibid_terminal::escape;
use ibid_terminal::json::lossless;
use ibid_terminal::number::{counted, size};
use serde::Serialize;

use super::super::Out;
use super::JsonKey;
use super::scan::{JsonEnd, JsonRecord};

#[derive(Serialize)]
struct JsonBegin<'n> {
    namespace: &'n str,
    index: &'n str,
}

/// The value by which a record is found.
#[derive(Serialize)]
struct JsonValue {
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_bytes: Option<String>,
}

impl JsonValue {
    fn new(value: &[u8]) -> JsonValue {
        let (value, value_bytes) = lossless(value);
        JsonValue { value, value_bytes }
    }
}

/// A key or a record with its value.
#[derive(Serialize)]
struct JsonFound<T> {
    #[serde(flatten)]
    value: JsonValue,
    #[serde(flatten)]
    found: T,
}

/// Prints records as they are found.
pub(crate) struct FoundPrinter<'a> {
    out: &'a mut Out,
    records: u64,
}

impl<'a> FoundPrinter<'a> {
    pub(crate) fn begin(out: &'a mut Out, namespace: &str, index: &str, keys_only: bool) -> Result<FoundPrinter<'a>> {
        if out.json {
            out.begin_with("records find", None, &JsonBegin { namespace, index })?;
        } else if out.is_terminal() && !keys_only {
            out.line("    record  version       size  value  key")?;
        }
        Ok(FoundPrinter { out, records: 0 })
    }

    pub(crate) fn record(&mut self, found: &IndexedRecord) -> Result<()> {
        self.records += 1;
        let IndexedRecord { value, record } = found;
        let Record { key, body, .. } = record;
        if !self.out.json && self.out.is_terminal() {
            let (number, version, size) = (record.number, record.version, size(body.len() as u64));
            let (value, key) = (escape(value), escape(key));
            let line = format!("{number:>10}  {version:>7} {size:>10}  {value}  {key}");
            return self.out.line(line);
        }
        let version = Version {
            version: record.version,
            number: record.number,
            deleted: false,
            time: record.time,
        };
        let (value, found) = (JsonValue::new(value), JsonRecord::new(key, version, body));
        let found = JsonFound { value, found };
        match self.out.json {
            true => self.out.item("record", found),
            false => self.out.json(&found),
        }
    }

    /// Prints a key without its body.
    pub(crate) fn key(&mut self, found: &IndexedKey) -> Result<()> {
        self.records += 1;
        let IndexedKey { value, key } = found;
        if !self.out.json {
            return self.out.line(escape(key));
        }
        let (value, found) = (JsonValue::new(value), JsonKey::new(key));
        self.out.item("record", JsonFound { value, found })
    }

    pub(crate) fn end(self, unreadable: u64) -> Result<()> {
        let end = JsonEnd {
            records: self.records,
            unknown: None,
            unreadable: Some(unreadable),
        };
        match self.out.json {
            true => self.out.item("end", end),
            false => Ok(()),
        }
    }
}

/// An index that was made, or filled.
#[derive(Debug)]
pub(crate) struct Indexed {
    pub(crate) namespace: String,
    pub(crate) index: String,
    pub(crate) unique: Unique,
    /// Records that are found in it from then on, because of a field.
    pub(crate) records: u64,
    /// Records whose bodies could not be read for that.
    pub(crate) left_out: u64,
}

#[derive(Serialize)]
struct JsonIndexed<'i> {
    namespace: &'i str,
    index: &'i str,
    unique: bool,
    records: u64,
    left_out: u64,
}

pub(crate) fn records_index(out: &mut Out, done: &Indexed) -> Result<()> {
    let Indexed {
        namespace,
        index,
        unique,
        records,
        left_out,
    } = done;
    let (records, left_out) = (*records, *left_out);
    if out.json {
        let unique = *unique == Unique::Yes;
        let body = JsonIndexed {
            namespace,
            index,
            unique,
            records,
            left_out,
        };
        return out.document("records index", None, &body);
    }
    if out.quiet {
        return Ok(());
    }
    let (namespace, index) = (escape(namespace.as_bytes()), escape(index.as_bytes()));
    out.line(format!("{namespace} has the index {index}, {unique}"))?;
    if records > 0 {
        out.line(format!("  filled with {}", counted(records, "record", "records")))?;
    }
    if left_out > 0 {
        let left_out = counted(left_out, "record", "records");
        out.line(format!(
            "  left out {left_out}: their bodies can't be read, are no JSON objects, or have no text or number in this \
             field"
        ))?;
    }
    Ok(())
}
