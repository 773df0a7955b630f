//! The statistics of a store.

use ibid_delta::FeatureIndex;

use super::sizes::BodySizes;
use crate::encode::EncodingReport;
use crate::index::Unique;
use crate::latest::Latest;
use crate::versions::Versions;

/// The number, bytes and forms of the records in a store. Damaged entries are counted in
/// [`damaged`](Self::damaged) only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// The contents of each namespace, in the order in which the namespaces were made.
    pub namespaces: Vec<NamespaceStatistics>,
    /// The pieces of long bodies of all namespaces, and the lists of these pieces; [`None`] if there never were any. In
    /// its namespace a long body counts with its length, and with what is stored of its list.
    pub pieces: Option<NamespaceStatistics>,
    /// Blocks of compressed records.
    pub blocks: Amount,
    /// The work of the encoder since the store was opened.
    pub encoding: EncodingReport,
    /// Entries that cannot be read. [`Store::verify`](crate::Store::verify) lists them.
    pub damaged: u64,
    /// Whether it was stopped early, so that there is more than was counted.
    pub stopped: bool,
}

/// The contents of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamespaceStatistics {
    /// Its name.
    pub name: String,
    /// Which versions it keeps.
    pub versions: Versions,
    /// How the latest versions of its keys are stored.
    pub latest_as: Latest,
    /// Keys that have a body now.
    pub keys: u64,
    /// Deleted keys whose versions are kept.
    pub keys_deleted: u64,
    /// Versions of the keys that are there that were purged. If records are damaged or the count was stopped, these
    /// count as well.
    pub purged: u64,
    /// Versions of all keys, deletions included, with the bytes of their bodies.
    pub records: Amount,
    /// The latest version of each key that is not deleted, with the bytes of their bodies.
    pub latest: Amount,
    /// Versions that delete their key.
    pub deletions: u64,
    /// Versions that are stored whole, with the bytes that are stored of them.
    pub whole: Amount,
    /// Versions that are stored as deltas, with the bytes that are stored of them.
    pub deltas: Amount,
    /// Records that no key has any more and that are the bases of others, with the bytes that are
    /// stored of them.
    pub obsolete: Amount,
    /// Versions by the size of their bodies, without deletions.
    pub sizes: BodySizes,
    /// Records of all these kinds that are in blocks, with the bytes that are stored of them before
    /// compression.
    pub in_blocks: Amount,
    /// Records that the encoder has not looked at yet.
    pub unencoded: u64,
    /// How many other records must be read for a version.
    pub retrievals: Retrievals,
    /// How many other records must be read for a latest version.
    pub latest_retrievals: Retrievals,
    /// Whether the [`Governor`](crate::Governor) gave encoding up.
    pub encoding_stopped: bool,
    /// Whether it gave up to compare records with those of other keys. Versions are still compared with the next ones
    /// of their keys, unless encoding was given up, too.
    pub search_stopped: bool,
    /// Its indexes, in the order in which they were made.
    pub indexes: Vec<IndexStatistics>,
    /// Chains of two or more records, each a delta of a newer one.
    pub chains: u64,
    /// Records of the longest chain, removed ones included.
    pub chain_longest: u64,
    /// Features of the newest records of chains, which are the entries that the feature index of
    /// the namespace needs.
    pub index_entries: u64,
}

impl NamespaceStatistics {
    pub(super) fn new(name: String, versions: Versions, latest_as: Latest) -> Self {
        NamespaceStatistics {
            name,
            versions,
            latest_as,
            keys: 0,
            keys_deleted: 0,
            purged: 0,
            records: Amount::default(),
            latest: Amount::default(),
            deletions: 0,
            whole: Amount::default(),
            deltas: Amount::default(),
            obsolete: Amount::default(),
            sizes: BodySizes::default(),
            in_blocks: Amount::default(),
            unencoded: 0,
            retrievals: Retrievals::default(),
            latest_retrievals: Retrievals::default(),
            encoding_stopped: false,
            search_stopped: false,
            indexes: Vec::new(),
            chains: 0,
            chain_longest: 0,
            index_entries: 0,
        }
    }

    /// Returns the least memory that the feature index of the namespace takes, bytes.
    pub fn index_bytes_min(&self) -> u64 {
        self.index_entries * FeatureIndex::BYTES_PER_ENTRY as u64
    }

    /// Returns the bytes that are stored of all records, whole or as deltas, before compression.
    pub fn stored_bytes(&self) -> u64 {
        self.whole.bytes + self.deltas.bytes + self.obsolete.bytes
    }
}

/// The contents of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexStatistics {
    /// Its name.
    pub name: String,
    /// Whether each value is of one key at most.
    pub unique: Unique,
    /// Values of all keys, with their bytes.
    pub values: Amount,
}

/// A number of things, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// The number of things.
    pub count: u64,
    /// The bytes of all of them.
    pub bytes: u64,
}

impl Amount {
    pub(super) fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}

/// A histogram of how many other records must be read for a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retrievals {
    /// Records that need 0, 1, 2 to 3, 4 to 7 and so on.
    counts: Vec<u64>,
    records: u64,
    total: u64,
    max: u64,
}

impl Retrievals {
    pub(super) fn add(&mut self, others: u64) {
        let place = (u64::BITS - others.leading_zeros()) as usize;
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.records += 1;
        self.total += others;
        self.max = self.max.max(others);
    }

    /// Returns the most that one record needs.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the average; [`None`] if there are no records.
    pub fn mean(&self) -> Option<f64> {
        (self.records > 0).then(|| self.total as f64 / self.records as f64)
    }

    /// Returns the bars of the histogram: 0, 1, 2 to 3, 4 to 7, 8 to 15 and so on, up to the
    /// records that need most.
    ///
    /// ```
    /// # use ibid_record::Retrievals;
    /// assert_eq!(Retrievals::default().buckets().count(), 0);
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        let bar = |(place, &records): (usize, &u64)| {
            let from = if place == 0 { 0 } else { 1 << (place - 1) };
            let to = (2 * from).max(1) - 1;
            Bucket { from, to, records }
        };
        self.counts.iter().enumerate().map(bar)
    }
}

/// A bar of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The fewest other records that these need.
    pub from: u64,
    /// The most other records that these need.
    pub to: u64,
    /// How many records there are.
    pub records: u64,
}
