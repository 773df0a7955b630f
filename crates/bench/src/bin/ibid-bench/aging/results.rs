//! What is kept of a run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::measure::Cost;
use crate::record::ToolInfo;
use crate::statistics::median;

/// The samples of all series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Aging {
    /// Days of a complete series.
    pub(crate) rounds: u32,
    pub(crate) seed: u64,
    pub(crate) tools: Vec<ToolInfo>,
    /// The commands of one day.
    pub(crate) commands: Vec<String>,
    pub(crate) series: Vec<Series>,
}

/// The samples of one tree, or of one corpus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// Files and their bytes on the first day.
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) days: Vec<Day>,
    pub(crate) fresh: Vec<Fresh>,
}

/// What a tool did on one day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Day {
    pub(crate) day: u32,
    pub(crate) tool: String,
    pub(crate) backup: Cost,
    pub(crate) forget: Cost,
    pub(crate) prune: Cost,
    /// Bytes of files in the repository that the prune made or changed.
    pub(crate) prune_written_bytes: u64,
    /// Bytes of the repository after the prune.
    pub(crate) repository_bytes: u64,
    /// What the prune printed, if that was JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) said: Option<Value>,
}

/// A repository beside a fresh one with the same snapshots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fresh {
    pub(crate) day: u32,
    pub(crate) tool: String,
    /// The days of the snapshots.
    pub(crate) snapshots: Vec<u32>,
    pub(crate) aged_bytes: u64,
    pub(crate) fresh_bytes: u64,
    /// The cost of listing the snapshots: every command has it.
    pub(crate) open: Cost,
    pub(crate) newest: Restores,
    pub(crate) oldest: Restores,
}

/// Restores of one snapshot from both repositories.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Restores {
    pub(crate) aged: Vec<Cost>,
    pub(crate) fresh: Vec<Cost>,
}

impl Series {
    pub(super) fn new(name: &str) -> Series {
        Series {
            name: name.to_owned(),
            files: 0,
            bytes: 0,
            days: Vec::new(),
            fresh: Vec::new(),
        }
    }

    /// Returns the days of a tool.
    pub(super) fn of<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a Day> {
        self.days.iter().filter(move |day| day.tool == tool)
    }

    /// Returns the comparisons of a tool with a fresh repository.
    pub(super) fn fresh_of<'a>(&'a self, tool: &'a str) -> impl DoubleEndedIterator<Item = &'a Fresh> {
        self.fresh.iter().filter(move |fresh| fresh.tool == tool)
    }

    /// Returns the CPU seconds of all prunes of a tool: as measured, and less the median of what
    /// opening the repository takes, if that was measured.
    pub(super) fn prune_cpu(&self, tool: &str) -> (f64, Option<f64>) {
        let measured: f64 = self.of(tool).map(|day| day.prune.cpu_s).sum();
        let open: Vec<f64> = self.fresh_of(tool).map(|fresh| fresh.open.cpu_s).collect();
        let alone = |open: f64| self.of(tool).map(|day| (day.prune.cpu_s - open).max(0.0)).sum();
        (measured, median(&open).map(alone))
    }
}

impl Fresh {
    /// Returns how many times the size of the fresh repository the aged one has.
    pub(super) fn ratio(&self) -> f64 {
        self.aged_bytes as f64 / self.fresh_bytes.max(1) as f64
    }
}

impl Restores {
    /// Returns the median wall seconds, aged and fresh.
    pub(super) fn medians(&self) -> (f64, f64) {
        let of = |costs: &[Cost]| median(&costs.iter().map(|cost| cost.wall_s).collect::<Vec<_>>()).unwrap_or(0.0);
        (of(&self.aged), of(&self.fresh))
    }
}
