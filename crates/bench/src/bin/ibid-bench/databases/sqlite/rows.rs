//! A row for each version, with each body compressed on its own, or with a dictionary.

use std::path::Path;

use anyhow::Result;
use rusqlite::{Connection, OptionalExtension};

use super::{INSERT, LATEST, TABLE, VALUE_BYTES, VERSION, body, bytes, connect, finish, version};
use crate::databases::compressed::Codec;
use crate::databases::input::Entry;
use crate::databases::subject::{CACHE_BYTES, Finished, Load, Read, Subject};

const DICTIONARY_TABLE: &str = "CREATE TABLE dictionary (bytes BLOB)";
const INSERT_DICTIONARY: &str = "INSERT INTO dictionary VALUES (?1)";
const DICTIONARY: &str = "SELECT bytes FROM dictionary";
const UPDATE: &str = "UPDATE records SET body = ?3 WHERE key = ?1 AND version = ?2";
const DICTIONARY_VALUE_BYTES: &str = "SELECT coalesce(sum(length(bytes)), 0) FROM dictionary";

/// The size of a dictionary, as of `zstd --train`.
const DICTIONARY_BYTES: usize = 110 << 10;
/// Bodies on which it is trained: zstd recommends a hundred times its size.
const SAMPLE_BYTES: usize = 100 * DICTIONARY_BYTES;
/// A store with fewer bodies than that gets a dictionary of at most this part of them.
const SAMPLES_PER_DICTIONARY: usize = 10;

pub(crate) struct Rows {
    /// Whether bodies are compressed with a dictionary, which is trained on the first ones.
    pub(crate) dictionary: bool,
}

struct Opened {
    connection: Connection,
    /// Of all rows: with the dictionary, if there is one.
    codec: Codec,
    /// All records until now; [`None`] without a dictionary, and when it is trained.
    samples: Option<Vec<Entry>>,
}

impl Opened {
    /// Trains the dictionary on all records until now, and stores them with it.
    fn train(&mut self) -> Result<()> {
        let Some(samples) = self.samples.take() else {
            return Ok(());
        };
        let bodies: Vec<_> = samples.iter().map(|entry| &entry.body).collect();
        let size = DICTIONARY_BYTES.min(body_bytes(&samples) / SAMPLES_PER_DICTIONARY);
        // zstd finds nothing in a few records; their rows are right without a dictionary.
        let Ok(dictionary) = zstd::dict::from_samples(&bodies, size) else {
            return Ok(());
        };
        self.codec = Codec::with_dictionary(&dictionary)?;
        let transaction = self.connection.transaction()?;
        transaction.execute(INSERT_DICTIONARY, [dictionary])?;
        {
            let mut statement = transaction.prepare(UPDATE)?;
            for entry in &samples {
                statement.execute((&entry.key, entry.version, self.codec.compress(&entry.body)?))?;
            }
        }
        Ok(transaction.commit()?)
    }
}

fn body_bytes(entries: &[Entry]) -> usize {
    entries.iter().map(|entry| entry.body.len()).sum()
}

impl Subject for Rows {
    fn create(&self, folder: &Path) -> Result<Box<dyn Load>> {
        let connection = connect(folder, CACHE_BYTES)?;
        connection.execute(TABLE, [])?;
        connection.execute(DICTIONARY_TABLE, [])?;
        Ok(Box::new(Opened {
            connection,
            codec: Codec::new()?,
            samples: self.dictionary.then(Vec::new),
        }))
    }

    fn open(&self, folder: &Path) -> Result<Box<dyn Read>> {
        let connection = connect(folder, CACHE_BYTES)?;
        let dictionary = connection.query_row(DICTIONARY, [], |row| row.get(0)).optional()?;
        let codec = dictionary.map_or_else(Codec::new, |bytes: Vec<u8>| Codec::with_dictionary(&bytes))?;
        Ok(Box::new(Opened {
            connection,
            codec,
            samples: None,
        }))
    }

    fn version(&self) -> Result<Option<String>> {
        Ok(Some(version()))
    }
}

impl Load for Opened {
    fn load(&mut self, batch: &[Entry]) -> Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let mut statement = transaction.prepare_cached(INSERT)?;
            for entry in batch {
                statement.execute((&entry.key, entry.version, self.codec.compress(&entry.body)?))?;
            }
        }
        transaction.commit()?;
        if let Some(samples) = &mut self.samples {
            samples.extend_from_slice(batch);
            if body_bytes(samples) >= SAMPLE_BYTES {
                self.train()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Finished> {
        self.train()?;
        finish(self.connection)
    }
}

impl Read for Opened {
    fn latest(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        body(&self.connection, &mut self.codec, LATEST, [key])
    }

    fn version(&mut self, key: &[u8], version: u32) -> Result<Option<Vec<u8>>> {
        body(&self.connection, &mut self.codec, VERSION, (key, version))
    }

    fn value_bytes(self: Box<Self>) -> Result<Option<u64>> {
        let rows = bytes(&self.connection, VALUE_BYTES)?;
        Ok(Some(rows + bytes(&self.connection, DICTIONARY_VALUE_BYTES)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_from_before_and_after_the_training_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Rows { dictionary: true }.create(folder.path()).unwrap();
        let entry = |number: usize| Entry {
            key: format!("key {number}").into_bytes(),
            version: 1,
            body: format!("{number} is the number of this body, ")
                .repeat(1 + number % 7)
                .into_bytes(),
        };
        // With this one, there are samples enough.
        let long = Entry {
            key: b"long".to_vec(),
            version: 1,
            body: b"long ".repeat(SAMPLE_BYTES / 5),
        };
        let (before, after): (Vec<_>, Vec<_>) = ((0..500).map(entry).collect(), (500..600).map(entry).collect());
        store.load(&before).unwrap();
        let rows = |query| bytes(&connect(folder.path(), CACHE_BYTES).unwrap(), query).unwrap();
        assert_eq!(rows(DICTIONARY_VALUE_BYTES), 0);
        let without = rows(VALUE_BYTES);
        store.load(std::slice::from_ref(&long)).unwrap();
        assert!(rows(DICTIONARY_VALUE_BYTES) > 0);
        let with = rows(VALUE_BYTES);
        assert!(with < without, "{with} bytes with a dictionary, {without} without");
        store.load(&after).unwrap();
        store.finish().unwrap();

        let mut store = Rows { dictionary: true }.open(folder.path()).unwrap();
        for entry in before.iter().chain([&long]).chain(&after) {
            assert_eq!(store.latest(&entry.key).unwrap().as_ref(), Some(&entry.body));
            assert_eq!(store.version(&entry.key, 1).unwrap().as_ref(), Some(&entry.body));
        }
    }
}
