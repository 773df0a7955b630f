//! Prints `records get` of several records, or as JSON.

use ibid_record::Version;
use ibid_repo::Result;

use super::super::Out;
use super::scan::{JsonBegin, JsonEnd, JsonRecord};

/// Prints records as they are read, one JSON object a line.
pub(crate) struct GetPrinter<'a> {
    out: &'a mut Out,
    records: u64,
}

impl<'a> GetPrinter<'a> {
    pub(crate) fn begin(out: &'a mut Out, namespace: &str) -> Result<GetPrinter<'a>> {
        if out.json {
            out.begin_with("records get", None, &JsonBegin { namespace })?;
        }
        Ok(GetPrinter { out, records: 0 })
    }

    pub(crate) fn record(&mut self, key: &[u8], version: Version, body: &[u8]) -> Result<()> {
        self.records += 1;
        let record = JsonRecord::new(key, version, body);
        match self.out.json {
            true => self.out.item("record", record),
            false => self.out.json(&record),
        }
    }

    pub(crate) fn end(self) -> Result<()> {
        match self.out.json {
            true => {
                let end = JsonEnd {
                    records: self.records,
                    unknown: None,
                    unreadable: None,
                };
                self.out.item("end", end)
            }
            false => Ok(()),
        }
    }
}
