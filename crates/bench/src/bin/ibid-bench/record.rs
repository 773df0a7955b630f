//! The record of a run: place and time, every sample, the results.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::aging::Aging;
use crate::databases::Records;
use crate::hours::Hours;
use crate::measure::Cost;

/// One run of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) experiment: String,
    /// The time when the run began, UTC.
    pub(crate) date: String,
    pub(crate) machine: Machine,
    /// Load averages over 1, 5 and 15 minutes; -1 if they can't be read.
    pub(crate) load_before: [f64; 3],
    pub(crate) load_after: [f64; 3],
    pub(crate) outcome: Outcome,
}

/// The samples and results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    Repositories(Repositories),
    RandomRead(RandomRead),
    IndexLookups(IndexLookups),
    Similarity(SimilarityRun),
    Soak(Soak),
    Aging(Aging),
    Records(Records),
    Hours(Hours),
}

/// The samples and results of backups and restores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Repositories {
    pub(crate) rounds: u32,
    pub(crate) tools: Vec<ToolInfo>,
    pub(crate) corpora: Vec<CorpusInfo>,
    /// The commands as they were run, once each.
    pub(crate) commands: Vec<String>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) results: Vec<Row>,
}

/// One measure of one corpus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) corpus: String,
    pub(crate) measure: String,
    pub(crate) unit: String,
    /// The value in each round, by tool.
    pub(crate) values: BTreeMap<String, Vec<f64>>,
    /// The median of these values, by tool.
    pub(crate) medians: BTreeMap<String, f64>,
    /// ibid's value divided by restic's, in each round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ratios: Vec<f64>,
    /// The median of these ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) goal: Option<Goal>,
}

/// A goal of ibid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Goal {
    pub(crate) text: String,
    pub(crate) reached: bool,
}

/// The samples and results of reading single chunks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RandomRead {
    /// The name of the file with the chunks.
    pub(crate) file: String,
    pub(crate) average: u32,
    pub(crate) chunks: u64,
    /// Bytes of these chunks.
    pub(crate) bytes: u64,
    pub(crate) frames: Vec<FrameResult>,
}

/// The result for one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FrameResult {
    /// Bytes of chunks that are compressed together.
    pub(crate) frame: u32,
    pub(crate) frames: u64,
    /// Bytes of all packs.
    pub(crate) stored_bytes: u64,
    /// Bytes fetched from storage for one chunk, on average.
    pub(crate) read_bytes_mean: f64,
    pub(crate) median_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
    /// The time of every read, microseconds.
    pub(crate) samples_us: Vec<f64>,
}

/// The costs of commands on more than fits into memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Soak {
    /// Budget of every command, bytes.
    pub(crate) memory: u64,
    pub(crate) steps: Vec<SoakStep>,
}

impl Soak {
    /// Returns the commands of ibid that took more memory than they may.
    pub(crate) fn beyond_budget(&self) -> impl Iterator<Item = &SoakStep> {
        let most = self.memory + crate::soak::BESIDE;
        let is_beyond = move |step: &&SoakStep| step.tool == "ibid" && step.cost.rss_bytes > most;
        self.steps.iter().filter(is_beyond)
    }
}

/// The cost of one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SoakStep {
    pub(crate) case: String,
    pub(crate) tool: String,
    pub(crate) command: String,
    pub(crate) cost: Cost,
}

/// The results of lookups in a large index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct IndexLookups {
    pub(crate) chunks: u64,
    pub(crate) packs: u64,
    /// Budget of the repository, bytes.
    pub(crate) memory: u64,
    /// Size of the index on disk, bytes.
    pub(crate) run_bytes: u64,
    pub(crate) write_s: f64,
    /// Time to load the index from the disk, and to compare it with the list of packs.
    pub(crate) open_s: f64,
    /// Memory that the index says it takes, bytes.
    pub(crate) index_memory_bytes: u64,
    /// The most resident memory while it was loaded and used, bytes.
    pub(crate) peak_bytes: u64,
    pub(crate) results: Vec<LookupResult>,
}

/// The result of one measurement of lookups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LookupResult {
    pub(crate) what: String,
    pub(crate) threads: u32,
    pub(crate) lookups: u64,
    pub(crate) seconds: f64,
    /// Pages that were read from the file for a lookup, on average.
    pub(crate) pages_each: f64,
    /// Bytes that came from a disk, and not from the page cache, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) disk_bytes_each: Option<f64>,
}

/// The results of backups among much other data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SimilarityRun {
    /// Budget of the repositories, bytes.
    pub(crate) memory: u64,
    pub(crate) results: Vec<SimilarityResult>,
}

/// The result of backing up all versions of a corpus.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SimilarityResult {
    pub(crate) corpus: String,
    /// How many times the sketches that fit into memory were added, and the number of their chunks.
    pub(crate) times: u64,
    pub(crate) other_chunks: u64,
    /// Bytes of new chunks, and of those stored as deltas.
    pub(crate) new_bytes: u64,
    pub(crate) delta_bytes: u64,
    /// Bytes of packs.
    pub(crate) stored_bytes: u64,
    /// What deltas saved, of what they save without other data.
    pub(crate) saved_share: f64,
    /// Chunks for which a base was searched, and how the first one was found.
    pub(crate) chunks: u64,
    pub(crate) in_memory: u64,
    pub(crate) by_neighbours: u64,
    pub(crate) by_features: u64,
    /// Bytes of chunks for which the search was cut short.
    pub(crate) limited_bytes: u64,
    pub(crate) cpu_s: f64,
    /// Bytes of sketches in the cache at the end.
    pub(crate) sketch_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToolInfo {
    pub(crate) label: String,
    pub(crate) version: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CorpusInfo {
    pub(crate) name: String,
    pub(crate) versions: u64,
    pub(crate) bytes: u64,
    pub(crate) first_bytes: u64,
    pub(crate) last_bytes: u64,
}

/// A measured step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Step {
    Backup,
    /// Lists the snapshots.
    Open,
    /// Backs up an unchanged version once more, and reads all of it.
    Rebackup,
    Restore,
    /// Restores over the existing files.
    RestoreOver,
    /// Runs `cat` on the last version, for comparison.
    Cat,
    /// Runs `cp` on the last version, for comparison.
    Cp,
}

/// The cost of one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) round: u32,
    pub(crate) corpus: String,
    pub(crate) tool: String,
    pub(crate) step: Step,
    pub(crate) version: String,
    #[serde(flatten)]
    pub(crate) cost: Cost,
    /// Bytes of the repository after a backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) repository_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    pub(crate) memory_bytes: u64,
}

impl Record {
    /// Returns a record of a run that begins now.
    pub(crate) fn begin(experiment: &str, outcome: Outcome) -> Record {
        let load = load();
        Record {
            experiment: experiment.to_owned(),
            date: jiff::Timestamp::now().strftime("%FT%TZ").to_string(),
            machine: Machine::this(),
            load_before: load,
            load_after: load,
            outcome,
        }
    }

    /// Notes the load, and writes all results so far. The file is complete at any moment.
    pub(crate) fn save(&mut self, path: Option<&Path>) -> Result<()> {
        self.load_after = load();
        let Some(path) = path else { return Ok(()) };
        let mut text = String::new();
        write_value(&serde_json::to_value(&*self)?, 0, &mut text);
        text.push('\n');
        let unfinished = path.with_extension("unfinished");
        std::fs::write(&unfinished, text)
            .and_then(|()| std::fs::rename(&unfinished, path))
            .with_context(|| format!("writing {}", path.display()))
    }
}

/// Reads a record that [`Record::save`] wrote.
pub(crate) fn read(path: &Path) -> Result<Record> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no record of a run", path.display()))
}

/// Formats JSON for people and version control: a value that fits a line is on one line.
fn write_value(value: &Value, depth: usize, out: &mut String) {
    const WIDTH: usize = 260;
    let line = value.to_string();
    let numbers = |list: &[Value]| list.iter().all(Value::is_number);
    let (open, close, entries): (_, _, Vec<(String, &Value)>) = match value {
        Value::Array(list) if line.len() > WIDTH && !numbers(list) => {
            ('[', ']', list.iter().map(|entry| (String::new(), entry)).collect())
        }
        Value::Object(map) if line.len() > WIDTH => {
            let key = |key: &String| format!("{}: ", Value::from(key.as_str()));
            ('{', '}', map.iter().map(|(name, entry)| (key(name), entry)).collect())
        }
        _ => return out.push_str(&line),
    };
    out.push(open);
    for (at, (key, entry)) in entries.into_iter().enumerate() {
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        out.push_str(&" ".repeat(depth + 1));
        out.push_str(&key);
        write_value(entry, depth + 1, out);
    }
    out.push('\n');
    out.push_str(&" ".repeat(depth));
    out.push(close);
}

impl Machine {
    fn this() -> Machine {
        let field = |path: &str, name: &str| -> Option<String> {
            let text = std::fs::read_to_string(path).ok()?;
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory_kib: Option<u64> =
            field("/proc/meminfo", "MemTotal").and_then(|value| value.split(' ').next()?.parse().ok());
        Machine {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            memory_bytes: memory_kib.unwrap_or(0) << 10,
        }
    }
}

fn load() -> [f64; 3] {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut values = text.split(' ').map_while(|word| word.parse().ok());
    [(); 3].map(|()| values.next().unwrap_or(-1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_run_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        let sample = Sample {
            round: 1,
            corpus: "lnx".into(),
            tool: "ibid".into(),
            step: Step::Backup,
            version: "v01.tar".into(),
            cost: Cost {
                wall_s: 0.123_456_789,
                cpu_s: 0.25,
                rss_bytes: 1 << 20,
            },
            repository_bytes: Some(17),
        };
        let outcome = Outcome::Repositories(Repositories {
            rounds: 1,
            tools: Vec::new(),
            corpora: Vec::new(),
            commands: vec!["say \"this\"".into()],
            samples: vec![sample; 5],
            results: Vec::new(),
        });
        let mut record = Record::begin("repositories", outcome);
        record.save(Some(&path)).unwrap();
        assert_eq!(read(&path).unwrap(), record);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter(|line| line.contains("\"round\"")).count();
        assert_eq!(lines, 5, "one line a sample:\n{text}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
