//! Records from a file, one JSON object a line: `{"key": …, "rev": …, "body": …}`, in the order of
//! time.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

/// Most records of a transaction.
const BATCH_RECORDS: usize = 100;
/// A transaction ends once its records have at least so many bytes.
const BATCH_BYTES: usize = 8 << 20;
/// The largest window of compressed corpora.
const WINDOW_LOG_MAX: u32 = 31;

/// A version of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    /// The version, from 1 in the order of the file.
    pub(crate) version: u32,
    pub(crate) body: Vec<u8>,
}

/// A line. Other fields are ignored.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    rev: u64,
    #[serde(borrow)]
    body: Cow<'a, str>,
}

/// Reads the file, a line at a time.
pub(crate) struct Input {
    path: PathBuf,
    lines: Box<dyn BufRead>,
    line: String,
    number: u64,
    distinct: bool,
    /// The last version of each key.
    versions: HashMap<Vec<u8>, u32>,
}

impl Input {
    /// Opens a file, which is decompressed if its name ends in `.zst`. With `distinct`, every
    /// version is a record of its own, under `key/rev`.
    pub(crate) fn open(path: &Path, distinct: bool) -> Result<Input> {
        let file = File::open(path).with_context(|| format!("reading {}", path.display()))?;
        let lines: Box<dyn BufRead> = if path.extension().is_some_and(|extension| extension == "zst") {
            let mut decoder = zstd::stream::read::Decoder::new(file)?;
            decoder.window_log_max(WINDOW_LOG_MAX)?;
            Box::new(BufReader::new(decoder))
        } else {
            Box::new(BufReader::new(file))
        };
        Ok(Input {
            path: path.to_owned(),
            lines,
            line: String::new(),
            number: 0,
            distinct,
            versions: HashMap::new(),
        })
    }

    /// Returns the next record.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>> {
        self.line.clear();
        self.number += 1;
        let place = || format!("{}, line {}", self.path.display(), self.number);
        if self.lines.read_line(&mut self.line).with_context(place)? == 0 {
            return Ok(None);
        }
        let line: Line<'_> = serde_json::from_str(&self.line).with_context(place)?;
        let key = if self.distinct {
            format!("{}/{}", line.key, line.rev)
        } else {
            line.key.into_owned()
        };
        let key = key.into_bytes();
        let version = self.versions.entry(key.clone()).or_insert(0);
        *version += 1;
        Ok(Some(Entry {
            key,
            version: *version,
            body: line.body.into_owned().into_bytes(),
        }))
    }

    /// Returns the next records, as many as a transaction takes; none at the end.
    pub(crate) fn next_batch(&mut self) -> Result<Vec<Entry>> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_RECORDS && bytes < BATCH_BYTES {
            let Some(entry) = self.next()? else { break };
            bytes += entry.body.len();
            batch.push(entry);
        }
        Ok(batch)
    }

    /// Returns every key with its number of versions so far, in the order of the keys.
    pub(crate) fn into_keys(self) -> Vec<(Vec<u8>, u32)> {
        let mut keys: Vec<_> = self.versions.into_iter().collect();
        keys.sort();
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, version: u32, body: &str) -> Entry {
        Entry {
            key: key.into(),
            version,
            body: body.into(),
        }
    }

    fn read(path: &Path, distinct: bool) -> Result<Vec<Entry>> {
        let mut input = Input::open(path, distinct)?;
        std::iter::from_fn(|| input.next().transpose()).collect()
    }

    #[test]
    fn versions_count_from_one_unless_every_version_is_a_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let text = concat!(
            r#"{"key":"a","rev":7,"body":"x\n"}"#,
            "\n",
            r#"{"key":"b","rev":1,"body":"","commit":0}"#,
            "\n",
            r#"{"key":"a","rev":9,"body":"y"}"#,
            "\n"
        );
        std::fs::write(&path, text).unwrap();
        let expected = [entry("a", 1, "x\n"), entry("b", 1, ""), entry("a", 2, "y")];
        assert_eq!(read(&path, false).unwrap(), expected);
        let expected = [entry("a/7", 1, "x\n"), entry("b/1", 1, ""), entry("a/9", 1, "y")];
        assert_eq!(read(&path, true).unwrap(), expected);
        let compressed = folder.path().join("a.jsonl.zst");
        std::fs::write(&compressed, zstd::bulk::compress(text.as_bytes(), 1).unwrap()).unwrap();
        assert_eq!(read(&compressed, true).unwrap(), expected);
        let mut input = Input::open(&path, false).unwrap();
        assert_eq!(input.next_batch().unwrap().len(), 3);
        assert!(input.next_batch().unwrap().is_empty());
        assert_eq!(input.into_keys(), [(b"a".to_vec(), 2), (b"b".to_vec(), 1)]);
    }

    #[test]
    fn lines_without_a_record_are_refused_by_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        std::fs::write(&path, "{\"key\":\"a\",\"rev\":1,\"body\":\"x\"}\n{\"key\":\"a\"}\n").unwrap();
        let error = read(&path, false).unwrap_err();
        assert!(
            format!("{error:#}").contains("a.jsonl, line 2: missing field `rev`"),
            "{error:#}"
        );
        assert!(read(&folder.path().join("none"), false).is_err());
    }
}
