//! The output of `tune seqcdc`.

use std::io::Result;

use ibid_bench::{Entry, Speed, TunePlan, Tuning};
use ibid_chunk::Settings;
use ibid_terminal::number::{counted, size};
use ibid_terminal::{Align, Table};
use serde::Serialize;

use super::chunker::JsonChunker;
use super::chunkers::{JsonMachine, JsonSpeed, shown};
use crate::output::Out;

#[derive(Serialize)]
struct JsonCandidate {
    #[serde(flatten)]
    chunker: JsonChunker,
    mean_on_random: f64,
    mean: f64,
    savings: f64,
    ratio: f64,
    ratio_with_metadata: f64,
    #[serde(flatten)]
    speed: JsonSpeed,
    best: bool,
}

#[derive(Serialize)]
struct JsonTuning {
    machine: JsonMachine,
    average: usize,
    random_bytes: usize,
    seed: u64,
    files: u64,
    bytes: u64,
    candidates: Vec<JsonCandidate>,
}

/// Returns the JSON document.
pub(crate) fn document(plan: &TunePlan, tuning: &Tuning) -> impl Serialize {
    let entries = tuning.candidates.iter().zip(&tuning.comparison.entries).enumerate();
    let candidates = entries.map(|(at, (candidate, entry))| JsonCandidate {
        chunker: JsonChunker::new(&entry.settings),
        mean_on_random: candidate.mean_on_random,
        mean: entry.sizes.mean(),
        savings: entry.savings(),
        ratio: entry.ratio(),
        ratio_with_metadata: entry.ratio_with_metadata(),
        speed: JsonSpeed::new(speed(entry)),
        best: at == tuning.best,
    });
    JsonTuning {
        machine: JsonMachine::new(&tuning.comparison.machine),
        average: plan.base.size_average,
        random_bytes: plan.random_bytes,
        seed: plan.seed,
        files: tuning.comparison.files,
        bytes: tuning.comparison.bytes,
        candidates: candidates.collect(),
    }
}

/// Returns the speed on the only backend, the preferred one.
fn speed(entry: &Entry) -> Speed {
    entry.speeds.first().map_or(Speed::of(&[]), |(_, speed)| *speed)
}

/// Prints all candidates, and the best one as options to paste.
pub(crate) fn text(out: &mut Out, plan: &TunePlan, tuning: &Tuning) -> Result<()> {
    let mut table = Table::new(&[
        ("", Align::Left),
        ("seq_length", Align::Right),
        ("skip_trigger", Align::Right),
        ("skip_size", Align::Right),
        ("mean, random", Align::Right),
        ("mean, data", Align::Right),
        ("savings", Align::Right),
        ("with metadata", Align::Right),
        ("GB/s", Align::Right),
    ]);
    for (at, (candidate, entry)) in tuning.candidates.iter().zip(&tuning.comparison.entries).enumerate() {
        let rounded = |bytes: f64| size(bytes.round() as u64);
        table.row(vec![
            if at == tuning.best { "*" } else { "" }.to_owned(),
            candidate.settings.seq_length.to_string(),
            candidate.settings.skip_trigger.to_string(),
            candidate.settings.skip_size.to_string(),
            rounded(candidate.mean_on_random),
            rounded(entry.sizes.mean()),
            format!("{:.2} %", entry.savings() * 100.0),
            format!("{:.3}", entry.ratio_with_metadata()),
            shown(speed(entry)),
        ]);
    }
    table.lines().try_for_each(|line| out.line(line))?;
    let data = match plan.paths.is_empty() {
        true => format!("edited versions of random bytes, {}", size(tuning.comparison.bytes)),
        false => {
            let files = counted(tuning.comparison.files, "file", "files");
            format!("{files}, {}", size(tuning.comparison.bytes))
        }
    };
    out.line(format!("data: {data}; with metadata: how many times less is stored"))?;
    out.line("")?;
    out.line("The best, to paste:")?;
    out.line(format!(
        "  ibid-bench chunk FILE {}",
        options(&tuning.comparison.entries[tuning.best].settings)
    ))
}

/// Returns the options for these settings.
fn options(settings: &Settings) -> String {
    let mut text = format!("--algorithm {} --average {}", settings.name(), settings.size_average());
    let usual = Settings::for_average(settings.name(), settings.size_average());
    let usual = usual.map_or_else(|_| Vec::new(), |usual| usual.parameter_values());
    for value in settings.parameter_values() {
        if !usual.contains(&value) {
            text += &format!(" --param {}={}", value.0, value.1);
        }
    }
    text
}
