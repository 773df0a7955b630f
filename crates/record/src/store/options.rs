//! The options with which a store is opened.

use std::time::Duration;

use ibid_format::record::BODY_BYTES_MAX;

use crate::compact::Compacting;
use crate::encode::Encoding;
use crate::write::request::Durability;

/// Which [`Engine`](crate::engine::Engine) stores the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineKind {
    /// [`Redb`](crate::engine::Redb).
    Redb,
    /// `Fjall`.
    #[cfg(feature = "fjall")]
    Fjall,
}

/// The options with which a store is opened. The defaults suit most programs.
///
/// ```
/// use std::time::Duration;
/// use ibid_record::{Durability, Options};
/// let options = Options::default()
///     .with_cache_bytes(256 << 20)
///     .with_durability(Durability::Batched(Duration::from_millis(100)));
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The engine. A store is always opened with the engine that it was made with.
    pub engine: EngineKind,
    /// Memory for pages of the engine, bytes.
    pub cache_bytes: usize,
    /// Memory for what was read last, decompressed, bytes: records, their frames, and where they are.
    pub frame_cache_bytes: usize,
    /// Memory for answering replicas, bytes, however many there are: half of it for bodies that were sent and may be
    /// the bases of others, a quarter to know which bodies are similar to later ones, and a quarter for answers on
    /// their way. An answer is made with memory beyond that, one at a time: about four times 1 MiB, or the longest body
    /// in it.
    pub replication_bytes: usize,
    /// Longest body that is read at once, bytes. Longer ones are [`Error::BodyTooLong`](crate::Error::BodyTooLong), and
    /// [`Namespace::open`](crate::Namespace::open) reads them if they are in pieces. To read one
    /// takes up to four times its length of memory, and to compact the store up to six times.
    pub body_bytes_max: usize,
    /// Longest body that is stored in one record, bytes; [`BODY_BYTES_MAX`] at most. A longer one is stored in pieces,
    /// of which each takes memory by itself, and each is stored once.
    pub whole_bytes_max: usize,
    /// The durability of changes that do not have their own.
    pub durability: Durability,
    /// How records that resemble each other are stored as deltas.
    pub encoding: Encoding,
    /// How records are compressed together in the background.
    pub compacting: Compacting,
    /// Whether to begin a log, which [replicas](crate::replicate) read. A store that has a log
    /// keeps it in any case.
    pub oplog: bool,
    /// Entries of the log that a primary keeps. It removes older ones [as `truncate_log`
    /// does](crate::Store::truncate_log), and a replica that needs them takes all contents instead.
    /// [`None`] keeps all entries. How many are enough depends on how long a replica may be away.
    pub log_entries_max: Option<u64>,
    /// How long to wait between two looks at what namespaces no longer keep, which is removed then:
    /// [`Namespace::set_retention`](crate::Namespace::set_retention). After a look that took long the
    /// wait is ten times as long as that. [`None`] removes nothing by itself. A replica removes what
    /// its primary does.
    pub retention_interval: Option<Duration>,
    /// Whether to open the store only to read it: also while another process has it open, or where nothing may be
    /// written. Nothing on disk is changed. Every change is [`Error::ReadOnly`](crate::Error::ReadOnly). The store
    /// shows what had been synced when it was opened, or [refreshed](crate::Store::refresh) last. A store that is not
    /// there, or that an earlier version of the program wrote last, has to be opened for writing first.
    pub read_only: bool,
}

impl Default for Options {
    /// redb, caches of 32 and 48 MiB, 64 MiB for replicas, bodies of any length, [`Durability::Sync`],
    /// [`Encoding::default`], [`Compacting::default`], no log, a look at what is no longer kept each minute, and not
    /// read only.
    fn default() -> Self {
        Options {
            engine: EngineKind::Redb,
            cache_bytes: 32 << 20,
            frame_cache_bytes: 48 << 20,
            replication_bytes: 64 << 20,
            body_bytes_max: BODY_BYTES_MAX,
            whole_bytes_max: 4 << 20,
            durability: Durability::Sync,
            encoding: Encoding::default(),
            compacting: Compacting::default(),
            oplog: false,
            log_entries_max: None,
            retention_interval: Some(Duration::from_secs(60)),
            read_only: false,
        }
    }
}

impl Options {
    /// Sets [`engine`](Self::engine).
    #[must_use]
    pub fn with_engine(self, engine: EngineKind) -> Self {
        Options { engine, ..self }
    }

    /// Sets [`cache_bytes`](Self::cache_bytes).
    #[must_use]
    pub fn with_cache_bytes(self, cache_bytes: usize) -> Self {
        Options { cache_bytes, ..self }
    }

    /// Sets [`frame_cache_bytes`](Self::frame_cache_bytes).
    #[must_use]
    pub fn with_frame_cache_bytes(self, frame_cache_bytes: usize) -> Self {
        Options {
            frame_cache_bytes,
            ..self
        }
    }

    /// Sets [`replication_bytes`](Self::replication_bytes).
    #[must_use]
    pub fn with_replication_bytes(self, replication_bytes: usize) -> Self {
        Options {
            replication_bytes,
            ..self
        }
    }

    /// Sets [`body_bytes_max`](Self::body_bytes_max).
    #[must_use]
    pub fn with_body_bytes_max(self, body_bytes_max: usize) -> Self {
        Options { body_bytes_max, ..self }
    }

    /// Sets [`whole_bytes_max`](Self::whole_bytes_max).
    #[must_use]
    pub fn with_whole_bytes_max(self, whole_bytes_max: usize) -> Self {
        Options {
            whole_bytes_max,
            ..self
        }
    }

    /// Sets [`durability`](Self::durability).
    #[must_use]
    pub fn with_durability(self, durability: Durability) -> Self {
        Options { durability, ..self }
    }

    /// Sets [`encoding`](Self::encoding).
    #[must_use]
    pub fn with_encoding(self, encoding: Encoding) -> Self {
        Options { encoding, ..self }
    }

    /// Sets [`compacting`](Self::compacting).
    #[must_use]
    pub fn with_compacting(self, compacting: Compacting) -> Self {
        Options { compacting, ..self }
    }

    /// Sets [`oplog`](Self::oplog).
    #[must_use]
    pub fn with_oplog(self, oplog: bool) -> Self {
        Options { oplog, ..self }
    }

    /// Sets [`log_entries_max`](Self::log_entries_max), to a number or [`None`].
    #[must_use]
    pub fn with_log_entries_max(self, log_entries_max: impl Into<Option<u64>>) -> Self {
        Options {
            log_entries_max: log_entries_max.into(),
            ..self
        }
    }

    /// Sets [`retention_interval`](Self::retention_interval), to a duration or [`None`].
    #[must_use]
    pub fn with_retention_interval(self, retention_interval: impl Into<Option<Duration>>) -> Self {
        Options {
            retention_interval: retention_interval.into(),
            ..self
        }
    }

    /// Sets [`read_only`](Self::read_only).
    #[must_use]
    pub fn with_read_only(self, read_only: bool) -> Self {
        Options { read_only, ..self }
    }
}
