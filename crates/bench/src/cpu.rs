//! The cost of this CPU's instructions, and the vector instructions that suit it.

use std::time::Instant;

use ibid_chunk::{Backend, Chunker, Settings, SettingsError};
use ibid_simd::Instruction;

use crate::{Machine, Random, Result, Speed, speed};

/// Each trial runs so many rounds of 16 instructions. The shortest of several trials counts,
/// because disturbances only make a trial longer.
const ROUNDS: u64 = 5000;
const TRIALS: usize = 40;

/// Bytes that fit into the second-level cache.
const RESIDENT: usize = 256 << 10;

/// The result of [`cpu()`].
#[derive(Clone, Debug)]
pub struct Cpu {
    /// The machine that it was measured on.
    pub machine: Machine,
    /// The vector instructions that are used by default.
    pub best: Backend,
    /// The vector instructions that the environment asks for ([`Backend::preferred`]), or else the
    /// best.
    pub preferred: Backend,
    /// All backends, with the speed of SeqCDC at 16 KiB on 256 KiB of random bytes.
    pub backends: Vec<(Backend, Speed)>,
    /// The instructions that this CPU has. None on CPUs that are not of the x86 family.
    pub instructions: Vec<InstructionCost>,
}

/// The cost of an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InstructionCost {
    /// The instruction.
    pub instruction: Instruction,
    /// Nanoseconds from one instruction to the next that depends on it.
    pub latency_ns: f64,
    /// Nanoseconds for each of many instructions, each of which depends only on the eighth before
    /// it.
    pub interval_ns: f64,
    /// Nanoseconds of a cycle: the latency of an addition.
    pub cycle_ns: f64,
}

impl InstructionCost {
    /// Returns the cycles from one instruction to the next that depends on it.
    #[must_use]
    pub fn latency_cycles(&self) -> f64 {
        self.latency_ns / self.cycle_ns
    }

    /// Returns how many are done in a cycle, up to 8 divided by the latency: more can't be
    /// measured.
    #[must_use]
    pub fn per_cycle(&self) -> f64 {
        self.cycle_ns / self.interval_ns
    }
}

/// Measures the instructions of this CPU, and the speed of each backend `rounds` times. Takes some
/// hundred milliseconds.
///
/// Bit deposit and extract are measured with a mask of 32 bits; on CPUs that process them bit by
/// bit, their cost is proportional to the bits of the mask.
///
/// # Errors
/// The environment asks for vector instructions that this CPU does not have.
pub fn cpu(rounds: u32) -> Result<Cpu> {
    let preferred = Backend::preferred().map_err(SettingsError::from)?;
    let data = Random::new(1).bytes(RESIDENT);
    let settings = Settings::for_average("seqcdc", 16 << 10)?;
    let mut backends = Vec::new();
    for backend in Backend::available() {
        let chunker = Chunker::with_backend(&settings, backend)?;
        let all: Vec<f64> = (0..rounds).map(|_| speed::round(&data, speed::cut(&chunker))).collect();
        backends.push((backend, Speed::of(&all)));
    }
    Ok(Cpu {
        machine: Machine::here(),
        best: Backend::best(),
        preferred,
        backends,
        instructions: instructions(),
    })
}

fn instructions() -> Vec<InstructionCost> {
    let measured = Instruction::ALL.into_iter().filter_map(|instruction| {
        let latency = shortest(|| instruction.chain(ROUNDS))?;
        let interval = shortest(|| instruction.spread(ROUNDS))?;
        Some((instruction, latency, interval))
    });
    let measured: Vec<_> = measured.collect();
    let cycle = measured.first().map_or(1.0, |(_, latency, _)| *latency);
    measured
        .into_iter()
        .map(|(instruction, latency_ns, interval_ns)| InstructionCost {
            instruction,
            latency_ns,
            interval_ns,
            cycle_ns: cycle,
        })
        .collect()
}

/// Returns the nanoseconds for each instruction; none if the CPU does not have it.
fn shortest(run: impl Fn() -> bool) -> Option<f64> {
    let trials = (0..TRIALS).map(|_| {
        let start = Instant::now();
        let ran = run();
        ran.then(|| start.elapsed())
    });
    let least = trials.collect::<Option<Vec<_>>>()?.into_iter().min()?;
    Some(least.as_secs_f64() * 1e9 / (ROUNDS * Instruction::PER_ROUND) as f64)
}
