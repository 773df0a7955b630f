//! Prints `records scan`.

use ibid_record::Record;
use ibid_repo::Result;
use ibid_terminal::escape;
use ibid_terminal::json::hex;
use ibid_terminal::number::size;
use serde::Serialize;

use super::super::Out;
use super::JsonKey;

#[derive(Serialize)]
struct JsonBegin<'n> {
    namespace: &'n str,
}

/// A record. `ibid records load --scanned` reads these fields.
#[derive(Serialize)]
struct JsonRecord<'r> {
    #[serde(flatten)]
    key: JsonKey,
    version: u32,
    number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_bytes: Option<String>,
}

impl<'r> JsonRecord<'r> {
    fn new(record: &'r Record, keys_only: bool) -> JsonRecord<'r> {
        let text = std::str::from_utf8(&record.body).ok();
        JsonRecord {
            key: JsonKey::new(&record.key),
            version: record.version,
            number: record.number,
            body: text.filter(|_| !keys_only),
            body_bytes: (text.is_none() && !keys_only).then(|| hex(&record.body)),
        }
    }
}

#[derive(Serialize)]
struct JsonEnd {
    records: u64,
}

/// Prints records as they arrive, without collecting them.
pub(crate) struct ScanPrinter<'a> {
    out: &'a mut Out,
    keys_only: bool,
    records: u64,
}

impl<'a> ScanPrinter<'a> {
    pub(crate) fn begin(out: &'a mut Out, namespace: &str, keys_only: bool) -> Result<ScanPrinter<'a>> {
        if out.json {
            out.begin_with("records scan", None, &JsonBegin { namespace })?;
        } else if out.is_terminal() && !keys_only {
            out.line("    record  version       size  key")?;
        }
        Ok(ScanPrinter {
            out,
            keys_only,
            records: 0,
        })
    }

    pub(crate) fn record(&mut self, record: &Record) -> Result<()> {
        self.records += 1;
        if self.out.json {
            return self.out.item("record", JsonRecord::new(record, self.keys_only));
        }
        if self.keys_only {
            return self.out.line(escape(&record.key));
        }
        if !self.out.is_terminal() {
            return self.out.json(&JsonRecord::new(record, false));
        }
        let (number, version, size) = (record.number, record.version, size(record.body.len() as u64));
        let key = escape(&record.key);
        self.out.line(format!("{number:>10}  {version:>7} {size:>10}  {key}"))
    }

    pub(crate) fn end(self) -> Result<()> {
        match self.out.json {
            true => self.out.item("end", JsonEnd { records: self.records }),
            false => Ok(()),
        }
    }
}
