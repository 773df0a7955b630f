//! What is kept of a run.

use serde::{Deserialize, Serialize};

use crate::measure::Cost;
use crate::statistics::percentile;

/// The samples of all subjects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hours {
    pub(crate) hours: u32,
    /// How long an hour took, seconds.
    pub(crate) hour_s: f64,
    /// Keys at any time.
    pub(crate) keys: u64,
    /// Operations a second in the busiest hour; 0 if each client began one when the last one ended.
    pub(crate) rate: u64,
    pub(crate) clients: u64,
    pub(crate) seed: u64,
    pub(crate) subjects: Vec<Lived>,
}

/// What one subject did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lived {
    pub(crate) subject: String,
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
    pub(crate) cost: Cost,
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

/// Times from when an operation began to when it was done, µs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) operations: u64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    #[serde(rename = "p99.9_us")]
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
}

impl Latency {
    pub(crate) fn of(took_us: &[f64]) -> Self {
        let at = |percent| percentile(took_us, percent).unwrap_or(0.0);
        Latency {
            operations: took_us.len() as u64,
            p50_us: at(50.0),
            p99_us: at(99.0),
            p999_us: at(99.9),
            max_us: at(100.0),
        }
    }
}

impl Lived {
    pub(crate) fn operations_a_second(&self) -> f64 {
        let operations: u64 = self.hours.iter().map(|hour| hour.operations).sum();
        let seconds: f64 = self.hours.iter().map(|hour| hour.seconds).sum();
        operations as f64 / seconds.max(f64::MIN_POSITIVE)
    }
}
