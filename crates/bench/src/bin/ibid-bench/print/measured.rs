//! The output of `breakdown`, `hashes` and `cpu`.

use std::io::Result;

use ibid_bench::{Breakdown, Cpu, HashEntry, Hashes, Part};
use ibid_chunk::Settings;
use ibid_terminal::number::{count, counted, size};
use ibid_terminal::{Align, Table, escape};
use serde::Serialize;

use super::chunker::JsonChunker;
use super::chunkers::{JsonBackend, JsonMachine, JsonSpeed, shown};
use crate::output::Out;

#[derive(Serialize)]
struct JsonStep {
    name: String,
    part: &'static str,
    backend: &'static str,
    chunker: JsonChunker,
    mean: f64,
    #[serde(flatten)]
    speed: JsonSpeed,
}

#[derive(Serialize)]
struct JsonBreakdown {
    machine: JsonMachine,
    sample_bytes: u64,
    rounds: u32,
    steps: Vec<JsonStep>,
}

/// Returns the JSON document of `breakdown`.
pub(crate) fn breakdown_document(found: &Breakdown) -> impl Serialize {
    let step = |step: &ibid_bench::Step| JsonStep {
        name: step.name(),
        part: match step.part {
            Part::Boundaries => "boundaries",
            Part::Minimum => "minimum",
            Part::Skips => "skips",
        },
        backend: step.backend.name(),
        chunker: JsonChunker::new(&Settings::SeqCdc(step.settings)),
        mean: step.mean,
        speed: JsonSpeed::new(step.speed),
    };
    JsonBreakdown {
        machine: JsonMachine::new(&found.machine),
        sample_bytes: found.sample,
        rounds: found.rounds,
        steps: found.steps.iter().map(step).collect(),
    }
}

/// Prints the speed of each part, and its ratio to the first.
pub(crate) fn breakdown(out: &mut Out, found: &Breakdown) -> Result<()> {
    let base = found.steps.iter().find(|step| step.part == Part::Minimum);
    let base = base.map_or(0.0, |step| step.speed.median);
    let mut table = Table::new(&[
        ("", Align::Left),
        ("what is in use", Align::Left),
        ("mean chunk", Align::Right),
        ("GB/s", Align::Right),
        ("of BASE", Align::Right),
    ]);
    for step in &found.steps {
        let part = match step.part {
            Part::Boundaries => "boundaries alone",
            Part::Minimum => "and the minimum size",
            Part::Skips => "and content-defined skips",
        };
        table.row(vec![
            step.name(),
            part.to_owned(),
            size(step.mean.round() as u64),
            shown(step.speed),
            format!("{:.2}", step.speed.median / base.max(1.0)),
        ]);
    }
    table.lines().try_for_each(|line| out.line(line))?;
    out.line(measured_on(found.sample, found.rounds))
}

fn measured_on(sample: u64, rounds: u32) -> String {
    let rounds = counted(u64::from(rounds), "round", "rounds");
    format!("one thread, {} in memory, median of {rounds}", size(sample))
}

#[derive(Serialize)]
struct JsonHash<'a> {
    hash: &'a str,
    window: usize,
    bins: &'a [u64],
    fullest: f64,
    emptiest: f64,
    unevenness: f64,
    speeds: Vec<JsonBackend>,
}

#[derive(Serialize)]
struct JsonHashes<'a> {
    machine: JsonMachine,
    windows: u64,
    sample_bytes: u64,
    rounds: u32,
    hashes: Vec<JsonHash<'a>>,
}

fn hash(entry: &HashEntry) -> JsonHash<'_> {
    JsonHash {
        hash: &entry.name,
        window: entry.hash.window(),
        bins: &entry.bins,
        fullest: entry.fullest(),
        emptiest: entry.emptiest(),
        unevenness: entry.unevenness(),
        speeds: entry.speeds.iter().map(JsonBackend::new).collect(),
    }
}

/// Returns the JSON document of `hashes`.
pub(crate) fn hashes_document(found: &Hashes) -> impl Serialize {
    JsonHashes {
        machine: JsonMachine::new(&found.machine),
        windows: found.windows,
        sample_bytes: found.sample,
        rounds: found.rounds,
        hashes: found.entries.iter().map(hash).collect(),
    }
}

/// Prints a row for each hash, with a sparkline of its distribution.
pub(crate) fn hashes(out: &mut Out, found: &Hashes) -> Result<()> {
    let backends = found.entries.first().map_or(&[][..], |entry| &entry.speeds[..]);
    let mut titles = vec![("hash", Align::Left), ("window", Align::Right)];
    titles.extend(backends.iter().map(|(backend, _)| (backend.name(), Align::Right)));
    titles.extend([
        ("fullest", Align::Right),
        ("emptiest", Align::Right),
        ("unevenness", Align::Right),
        ("from 0 to 2^32", Align::Left),
    ]);
    let mut table = Table::new(&titles);
    for entry in &found.entries {
        let mut row = vec![entry.name.clone(), size(entry.hash.window() as u64)];
        row.extend(entry.speeds.iter().map(|(_, speed)| shown(*speed)));
        row.extend([
            format!("{:.2}", entry.fullest()),
            format!("{:.2}", entry.emptiest()),
            format!("{:.2}", entry.unevenness()),
            sparkline(&entry.bins),
        ]);
        table.row(row);
    }
    table.lines().try_for_each(|line| out.line(line))?;
    out.line(format!("GB/s, {}", measured_on(found.sample, found.rounds)))?;
    out.line(format!(
        "{} random windows in {} ranges of hashes: fullest and emptiest of what each would hold if all were as likely; \
         unevenness is chi-squared \
         by degree of freedom, about 1 for random numbers",
        count(found.windows),
        ibid_bench::HASH_BINS
    ))
}

/// Returns a sparkline with two ranges a character, from 0 to the fullest.
fn sparkline(bins: &[u64]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let pairs: Vec<u64> = bins.chunks(2).map(|pair| pair.iter().sum()).collect();
    let most = pairs.iter().max().copied().unwrap_or(0).max(1);
    let height = |pair: &u64| HEIGHTS[(pair * 7 / most) as usize];
    pairs.iter().map(height).collect()
}

#[derive(Serialize)]
struct JsonInstruction {
    instruction: &'static str,
    latency_ns: f64,
    latency_cycles: f64,
    interval_ns: f64,
    per_cycle: f64,
}

#[derive(Serialize)]
struct JsonCpu {
    machine: JsonMachine,
    best: &'static str,
    preferred: &'static str,
    backends: Vec<JsonBackend>,
    instructions: Vec<JsonInstruction>,
}

/// Returns the JSON document of `cpu`.
pub(crate) fn cpu_document(found: &Cpu) -> impl Serialize {
    let instruction = |cost: &ibid_bench::InstructionCost| JsonInstruction {
        instruction: cost.instruction.name(),
        latency_ns: cost.latency_ns,
        latency_cycles: cost.latency_cycles(),
        interval_ns: cost.interval_ns,
        per_cycle: cost.per_cycle(),
    };
    JsonCpu {
        machine: JsonMachine::new(&found.machine),
        best: found.best.name(),
        preferred: found.preferred.name(),
        backends: found.backends.iter().map(JsonBackend::new).collect(),
        instructions: found.instructions.iter().map(instruction).collect(),
    }
}

/// Prints the cost of instructions, and the vector instructions in use.
pub(crate) fn cpu(out: &mut Out, found: &Cpu) -> Result<()> {
    let name = if found.machine.cpu.is_empty() {
        "a CPU"
    } else {
        &found.machine.cpu
    };
    let threads = counted(found.machine.threads as u64, "thread", "threads");
    out.line(format!("{}, {threads}", escape(name.as_bytes())))?;
    out.line("")?;
    let mut table = Table::new(&[
        ("instruction", Align::Left),
        ("latency", Align::Right),
        ("in cycles", Align::Right),
        ("interval", Align::Right),
        ("per cycle", Align::Right),
    ]);
    for cost in &found.instructions {
        table.row(vec![
            cost.instruction.name().to_owned(),
            format!("{:.2} ns", cost.latency_ns),
            format!("{:.1}", cost.latency_cycles()),
            format!("{:.2} ns", cost.interval_ns),
            format!("{:.1}", cost.per_cycle()),
        ]);
    }
    if found.instructions.is_empty() {
        out.line("instructions are measured on CPUs of the x86 family only")?;
    } else {
        table.lines().try_for_each(|line| out.line(line))?;
        out.line(
            "latency: from one to the next that waits for it; interval: of many that do not wait; a cycle is the \
         latency of an addition",
        )?;
    }
    out.line("")?;
    let mut table = Table::new(&[("vectors", Align::Left), ("GB/s", Align::Right), ("", Align::Left)]);
    for (backend, speed) in &found.backends {
        let mut notes = Vec::new();
        notes.extend((*backend == found.best).then_some("auto"));
        notes
            .extend((*backend == found.preferred && found.preferred != found.best).then_some("asked for by IBID_SIMD"));
        table.row(vec![backend.name().to_owned(), shown(*speed), notes.join(", ")]);
    }
    table.lines().try_for_each(|line| out.line(line))?;
    out.line(
        "SeqCDC, 16 KiB, on 256 KiB of random bytes that stay in the cache; `auto` is what is used unless \
     IBID_SIMD says otherwise",
    )
}
