//! The settings of the encoder, and what they cost.

use std::time::Duration;

use ibid_delta::{FeatureBytes, Interval};
use ibid_format::record::BODY_BYTES_MAX;

use super::{Governor, Retrieval};

/// How records that resemble each other are stored as deltas.
///
/// The defaults suit most data. The settings change how records are stored from now on, never the
/// bodies that you read. They may differ each time a store is opened.
///
/// - To store all records whole, set [`enabled`](Self::enabled).
/// - To read old versions faster or store them smaller, set [`retrieval`](Self::retrieval).
/// - To use less memory, set [`source_cache_bytes`](Self::source_cache_bytes),
///   [`write_back_bytes`](Self::write_back_bytes), [`index_bytes_max`](Self::index_bytes_max) and
///   [`compared_bytes_max`](Self::compared_bytes_max).
/// - To find more of what records share, or take less time, set [`interval`](Self::interval),
///   [`feature_bytes`](Self::feature_bytes), [`reward`](Self::reward),
///   [`size_filter_percent`](Self::size_filter_percent) and [`governor`](Self::governor).
/// - To decide when deltas are written, set [`lossy`](Self::lossy),
///   [`idle_after`](Self::idle_after) and [`idle_requests_max`](Self::idle_requests_max).
///
/// ```
/// use ibid_record::{Encoding, Options, Retrieval};
/// let encoding = Encoding::default().with_retrieval(Retrieval::Hop { distance: 32 });
/// let options = Options::default().with_encoding(encoding);
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Encoding {
    /// Whether records are encoded. Records that are encoded already are read in any case.
    pub enabled: bool,
    /// How many other records must be read for an old one.
    pub retrieval: Retrieval,
    /// How densely a record is searched for copies: the anchor interval (dDedup §4.2, figure 12b).
    /// A denser search finds more copies and takes longer.
    pub interval: Interval,
    /// The bytes that a feature hashes, which is also the average distance between positions that
    /// may be features. It corresponds to the chunk size of dDedup (figures 1 and 9). A record has
    /// at most [the eight largest](ibid_delta::Sketcher::spaced). Features of fewer bytes find
    /// similarity in smaller records and between denser edits. Features of more bytes tell records
    /// apart that share boilerplate, and take a little less memory. A record that replaces another
    /// of the same key is compared with that one without features.
    ///
    /// Each record is stored with the kind of its features. Records with features of different
    /// kinds are not compared: until new records replace the old ones, those are found by their
    /// keys only.
    pub feature_bytes: FeatureBytes,
    /// Memory for bodies of the newest records of chains, bytes; and as much again for records that wait for the
    /// encoder.
    pub source_cache_bytes: usize,
    /// How many more features a record outside this cache must share to be preferred to one in it:
    /// the reward of dDedup §3.1.3.
    pub reward: u8,
    /// Memory for deltas that wait to be written, bytes.
    pub write_back_bytes: usize,
    /// Whether deltas are dropped when that memory is full. Otherwise they are written at once.
    pub lossy: bool,
    /// Waiting deltas are written when nothing was committed for this time and at most
    /// [`idle_requests_max`](Self::idle_requests_max) requests wait for the writer.
    pub idle_after: Duration,
    /// See [`idle_after`](Self::idle_after).
    pub idle_requests_max: usize,
    /// When encoding is given up.
    pub governor: Governor,
    /// A record is not compared with records of other keys if it is smaller than this percentage of
    /// the records before it. dDedup §3.4.2 has 40. For revisions of wiki pages and JSON documents
    /// that come without their keys, 40 saves a seventh of the time, and stores 2.3 and 1.5 times
    /// as much.
    pub size_filter_percent: u8,
    /// Most memory for the feature index of a namespace, bytes.
    pub index_bytes_max: usize,
    /// Bodies that may wait to be encoded, or to be [compressed together](crate::Compacting), bytes; 64 count for each
    /// beside its length. From half of it on, writers have to wait the longer the more there are. So files do not grow
    /// without end while the encoder cannot keep up.
    pub lag_bytes_max: u64,
    /// Longest body that becomes a delta or the base of one, bytes. To compare two of n bytes takes up to 5·n of memory
    /// and 64 MiB. Longer ones stay whole.
    pub compared_bytes_max: usize,
}

impl Default for Encoding {
    /// Hops at distance 16, anchors at one position in 16, features of 64 bytes, caches of 32 and
    /// 8 MiB, reward 2, idle after 5 ms without waiting requests, the governor of dDedup, no size
    /// filter, indexes of at most 64 MiB, bodies of any length, and 256 MiB that may wait.
    fn default() -> Self {
        Encoding {
            enabled: true,
            retrieval: Retrieval::Hop { distance: 16 },
            interval: Interval::I16,
            feature_bytes: FeatureBytes::B64,
            source_cache_bytes: 32 << 20,
            reward: 2,
            write_back_bytes: 8 << 20,
            lossy: true,
            idle_after: Duration::from_millis(5),
            idle_requests_max: 0,
            governor: Governor::default(),
            size_filter_percent: 0,
            index_bytes_max: 64 << 20,
            lag_bytes_max: 256 << 20,
            compared_bytes_max: BODY_BYTES_MAX,
        }
    }
}

impl Encoding {
    /// Sets [`enabled`](Self::enabled).
    #[must_use]
    pub fn with_enabled(self, enabled: bool) -> Self {
        Encoding { enabled, ..self }
    }

    /// Sets [`retrieval`](Self::retrieval).
    #[must_use]
    pub fn with_retrieval(self, retrieval: Retrieval) -> Self {
        Encoding { retrieval, ..self }
    }

    /// Sets [`interval`](Self::interval).
    #[must_use]
    pub fn with_interval(self, interval: Interval) -> Self {
        Encoding { interval, ..self }
    }

    /// Sets [`feature_bytes`](Self::feature_bytes).
    #[must_use]
    pub fn with_feature_bytes(self, feature_bytes: FeatureBytes) -> Self {
        Encoding { feature_bytes, ..self }
    }

    /// Sets [`source_cache_bytes`](Self::source_cache_bytes).
    #[must_use]
    pub fn with_source_cache_bytes(self, source_cache_bytes: usize) -> Self {
        Encoding {
            source_cache_bytes,
            ..self
        }
    }

    /// Sets [`reward`](Self::reward).
    #[must_use]
    pub fn with_reward(self, reward: u8) -> Self {
        Encoding { reward, ..self }
    }

    /// Sets [`write_back_bytes`](Self::write_back_bytes).
    #[must_use]
    pub fn with_write_back_bytes(self, write_back_bytes: usize) -> Self {
        Encoding {
            write_back_bytes,
            ..self
        }
    }

    /// Sets [`lossy`](Self::lossy).
    #[must_use]
    pub fn with_lossy(self, lossy: bool) -> Self {
        Encoding { lossy, ..self }
    }

    /// Sets [`idle_after`](Self::idle_after).
    #[must_use]
    pub fn with_idle_after(self, idle_after: Duration) -> Self {
        Encoding { idle_after, ..self }
    }

    /// Sets [`idle_requests_max`](Self::idle_requests_max).
    #[must_use]
    pub fn with_idle_requests_max(self, idle_requests_max: usize) -> Self {
        Encoding {
            idle_requests_max,
            ..self
        }
    }

    /// Sets [`governor`](Self::governor).
    #[must_use]
    pub fn with_governor(self, governor: Governor) -> Self {
        Encoding { governor, ..self }
    }

    /// Sets [`size_filter_percent`](Self::size_filter_percent).
    #[must_use]
    pub fn with_size_filter_percent(self, size_filter_percent: u8) -> Self {
        Encoding {
            size_filter_percent,
            ..self
        }
    }

    /// Sets [`compared_bytes_max`](Self::compared_bytes_max).
    #[must_use]
    pub fn with_compared_bytes_max(self, compared_bytes_max: usize) -> Self {
        Encoding {
            compared_bytes_max,
            ..self
        }
    }

    /// Sets [`index_bytes_max`](Self::index_bytes_max).
    #[must_use]
    pub fn with_index_bytes_max(self, index_bytes_max: usize) -> Self {
        Encoding {
            index_bytes_max,
            ..self
        }
    }

    /// Sets [`lag_bytes_max`](Self::lag_bytes_max).
    #[must_use]
    pub fn with_lag_bytes_max(self, lag_bytes_max: u64) -> Self {
        Encoding { lag_bytes_max, ..self }
    }
}
