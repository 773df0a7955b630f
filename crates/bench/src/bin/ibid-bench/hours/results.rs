//! What is kept of a run.

use serde::{Deserialize, Serialize};

use crate::measure::Cost;
use crate::statistics::Latency;

/// The samples of all subjects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hours {
    #[serde(flatten)]
    pub(crate) load: Load,
    pub(crate) subjects: Vec<Lived>,
}

/// What is asked of a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) hours: u32,
    /// How long an hour took, seconds.
    pub(crate) hour_s: f64,
    /// Keys at any time.
    pub(crate) keys: u64,
    /// Operations a second in the busiest hour; 0 if each client began one when the last one ended.
    pub(crate) rate: u64,
    pub(crate) clients: u64,
    pub(crate) seed: u64,
}

/// What one subject did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lived {
    pub(crate) subject: String,
    #[serde(flatten)]
    pub(crate) seen: Seen,
    /// The cost of its process.
    pub(crate) cost: Cost,
}

/// What was seen of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) hours: Vec<Hour>,
    /// Of all hours.
    pub(crate) latest: Latency,
    pub(crate) any: Latency,
    pub(crate) commit: Latency,
    /// Bytes on disk when it had settled, and when it was compacted.
    pub(crate) settled_bytes: u64,
    pub(crate) compacted_bytes: u64,
    /// Bytes of the bodies that could be read in the end.
    pub(crate) body_bytes: u64,
}

/// One hour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hour {
    pub(crate) hour: u32,
    pub(crate) seconds: f64,
    pub(crate) operations: u64,
    /// Bytes of the bodies that could be read at its end.
    pub(crate) body_bytes: u64,
    /// On disk at its end, and the most within it.
    pub(crate) disk_bytes: u64,
    pub(crate) disk_bytes_max: u64,
    /// The most memory of the process within it.
    pub(crate) rss_bytes: u64,
    pub(crate) latest: Latency,
    pub(crate) any: Latency,
    pub(crate) commit: Latency,
}

impl Seen {
    pub(crate) fn operations_a_second(&self) -> f64 {
        let operations: u64 = self.hours.iter().map(|hour| hour.operations).sum();
        let seconds: f64 = self.hours.iter().map(|hour| hour.seconds).sum();
        operations as f64 / seconds.max(f64::MIN_POSITIVE)
    }
}
