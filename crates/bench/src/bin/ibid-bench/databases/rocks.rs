//! RocksDB: key and version → the body, in blocks that are compressed by zstd.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use rocksdb::properties::{AGGREGATED_TABLE_PROPERTIES, BACKGROUND_ERRORS};
use rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, CompactOptions, DB, DBCompressionType, Options, WriteBatch,
    WriteOptions,
};

use super::input::Entry;
use super::ordered::{place, prefix};
use super::subject::{CACHE_BYTES, Finished, LEVEL, Load, Read, Subject};

/// RocksDB's default. zstd ignores it, and has the window of its level.
const WINDOW_BITS: i32 = -14;
/// zstd recommends samples of a hundred times the size of the dictionary.
const SAMPLES: i32 = 100;
/// Bits of the filter for each key: one in a hundred keys that a file does not have passes.
const FILTER_BITS: f64 = 10.0;

pub(crate) struct Rocks {
    /// Bodies are added to a block until it has so many bytes.
    pub(crate) block_bytes: usize,
    /// The most bytes of each file's dictionary, trained on its blocks; 0 for none.
    pub(crate) dictionary_bytes: i32,
}

struct Opened(DB);

impl Rocks {
    fn options(&self) -> Result<Options> {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_size(self.block_bytes);
        blocks.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES)?);
        blocks.set_bloom_filter(FILTER_BITS, false);
        // Outside the cache they would come on top of its bytes.
        blocks.set_cache_index_and_filter_blocks(true);

        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        // What is soon merged into the next level by LZ4, and the last level by zstd, as RocksDB's guide
        // recommends.
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_bottommost_compression_type(DBCompressionType::Zstd);
        options.set_bottommost_compression_options(WINDOW_BITS, LEVEL, 0, self.dictionary_bytes, true);
        options.set_bottommost_zstd_max_train_bytes(SAMPLES * self.dictionary_bytes, true);
        Ok(options)
    }

    fn at(&self, folder: &Path) -> Result<Box<Opened>> {
        Ok(Box::new(Opened(DB::open(&self.options()?, folder)?)))
    }
}

impl Subject for Rocks {
    fn create(&self, folder: &Path) -> Result<Box<dyn Load>> {
        Ok(self.at(folder)?)
    }

    fn open(&self, folder: &Path) -> Result<Box<dyn Read>> {
        Ok(self.at(folder)?)
    }

    /// Makes an empty store: the library says its version only in the options that it writes there.
    fn version(&self) -> Result<Option<String>> {
        let folder = tempfile::tempdir()?;
        drop(self.at(folder.path())?);
        for entry in std::fs::read_dir(folder.path())? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b"OPTIONS-") {
                let text = std::fs::read_to_string(entry.path())?;
                let version = text
                    .lines()
                    .find_map(|line| line.trim().strip_prefix("rocksdb_version="));
                return Ok(version.map(|version| format!("RocksDB {version}")));
            }
        }
        Ok(None)
    }
}

impl Load for Opened {
    fn load(&mut self, batch: &[Entry]) -> Result<()> {
        let mut changes = WriteBatch::default();
        for entry in batch {
            changes.put(place(&entry.key, entry.version), &entry.body);
        }
        let mut options = WriteOptions::default();
        options.set_sync(true);
        Ok(self.0.write_opt(changes, &options)?)
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        self.0.flush()?;
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
        self.0.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &options);
        // Compacting itself returns no error.
        let failures = self.0.property_int_value(BACKGROUND_ERRORS)?;
        ensure!(
            failures == Some(0),
            "RocksDB failed to flush or compact; look whether the disk is full"
        );
        Ok(Finished::default())
    }
}

impl Read for Opened {
    fn latest(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let prefix = prefix(key);
        let mut places = self.0.raw_iterator();
        places.seek(&prefix);
        let of_key = places.item().filter(|(place, _)| place.starts_with(&prefix));
        let body = of_key.map(|(_, body)| body.to_vec());
        places.status()?;
        Ok(body)
    }

    fn version(&mut self, key: &[u8], version: u32) -> Result<Option<Vec<u8>>> {
        let found = self.0.get_pinned(place(key, version))?;
        Ok(found.map(|body| body.to_vec()))
    }

    /// Returns the bytes of compressed blocks, with keys.
    fn value_bytes(self: Box<Self>) -> Result<Option<u64>> {
        let properties = self.0.property_value(AGGREGATED_TABLE_PROPERTIES)?.unwrap_or_default();
        let bytes = properties
            .split(';')
            .find_map(|one| one.trim().strip_prefix("data block size="));
        let bytes = bytes.with_context(|| format!("no size of blocks in the properties {properties:?}"))?;
        Ok(Some(bytes.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_dictionary() {
        let folder = tempfile::tempdir().unwrap();
        let rocks = Rocks {
            block_bytes: 4 << 10,
            dictionary_bytes: 4 << 10,
        };
        let mut store = rocks.create(folder.path()).unwrap();
        let entries = (0..2000u32).map(|number| Entry {
            key: number.to_be_bytes().to_vec(),
            version: 1,
            body: format!("the body of the record with the number {number}\n")
                .repeat(10)
                .into_bytes(),
        });
        store.load(&entries.collect::<Vec<_>>()).unwrap();
        store.finish().unwrap();
        let tables = || {
            let files = std::fs::read_dir(folder.path())
                .unwrap()
                .map(|file| file.unwrap().path());
            files.filter(|path| path.extension().is_some_and(|extension| extension == "sst"))
        };
        assert!(tables().count() > 0);
        for table in tables() {
            let bytes = std::fs::read(table).unwrap();
            let name = b"rocksdb.compression_dict";
            assert!(bytes.windows(name.len()).any(|window| window == name));
        }
    }
}
