//! What this CPU's instructions cost, and which vector instructions suit it.

use std::time::Instant;

use ibid_chunk::{Backend, Chunker, Settings, SettingsError};
use ibid_simd::Instruction;

use crate::{Machine, Random, Result, Speed, speed};

/// Instructions are run in so many rounds of 16, and the shortest of so many trials counts:
/// whatever disturbs makes it longer.
const ROUNDS: u64 = 5000;
const TRIALS: usize = 40;

/// Bytes that stay in the second-level cache.
const RESIDENT: usize = 256 << 10;

/// What [`cpu()`] found.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// On what it was measured.
    pub machine: Machine,
    /// The vector instructions that are used unless others are asked for.
    pub best: Backend,
    /// Those that the environment asks for ([`Backend::preferred`]); the best, if it asks for none.
    pub preferred: Backend,
    /// All that there are, and how fast each makes SeqCDC at 16 KiB on 256 KiB of random bytes.
    pub backends: Vec<(Backend, Speed)>,
    /// Those instructions that this CPU has. None on CPUs that are not of the x86 family.
    pub instructions: Vec<InstructionCost>,
}

/// What an instruction costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InstructionCost {
    /// Which.
    pub instruction: Instruction,
    /// Nanoseconds from one to the next that waits for it.
    pub latency_ns: f64,
    /// Nanoseconds for each of many, of which each waits only for the eighth before.
    pub interval_ns: f64,
    /// Nanoseconds of a cycle: the latency of an addition.
    pub cycle_ns: f64,
}

impl InstructionCost {
    /// Cycles from one to the next that waits for it.
    #[must_use]
    pub fn latency_cycles(&self) -> f64 {
        self.latency_ns / self.cycle_ns
    }

    /// How many are done in a cycle. More than 8 divided by the latency can't be seen.
    #[must_use]
    pub fn per_cycle(&self) -> f64 {
        self.cycle_ns / self.interval_ns
    }
}

/// Measures what instructions cost on this CPU, and how fast each backend is, `rounds` times. Takes
/// some hundred milliseconds.
///
/// Depositing and extracting are done with a mask of 32 bits; on CPUs that do them bit by bit, they
/// cost as much as the mask has bits.
///
/// # Errors
/// When the environment asks for vector instructions that there are not.
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

/// Nanoseconds for each instruction; none if there is no such instruction.
fn shortest(run: impl Fn() -> bool) -> Option<f64> {
    let trials = (0..TRIALS).map(|_| {
        let start = Instant::now();
        let ran = run();
        ran.then(|| start.elapsed())
    });
    let least = trials.collect::<Option<Vec<_>>>()?.into_iter().min()?;
    Some(least.as_secs_f64() * 1e9 / (ROUNDS * Instruction::PER_ROUND) as f64)
}
