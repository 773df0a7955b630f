//! Where SeqCDC's speed comes from (VSEQ, figure 10).

use std::path::PathBuf;

use ibid_chunk::{Backend, Chunker, SIZE_MIN_LEAST, SeqCdcSettings, Settings, chunks};

use crate::compare::at_least_one;
use crate::sample::sample_or_random;
use crate::{Error, Machine, Observer, Result, Speed, speed};

/// The parts of SeqCDC that are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Boundaries are searched for in every byte, except the first 63 of a chunk: 64 is the
    /// smallest minimum.
    Boundaries,
    /// Boundaries are searched for after the minimum size: BASE in the paper.
    Minimum,
    /// Content-defined skips are added: SEQ in the paper.
    Skips,
}

/// One measured variant.
#[derive(Clone, Debug)]
pub struct Step {
    /// The parts in use.
    pub part: Part,
    /// The vector instructions.
    pub backend: Backend,
    /// The settings.
    pub settings: SeqCdcSettings,
    /// The average chunk size, bytes.
    pub mean: f64,
    /// The chunking speed.
    pub speed: Speed,
}

impl Step {
    /// Returns the paper's name: BASE, SEQ, VBASE-512, VSEQ-512 and so on; BARE for boundaries
    /// alone, which the paper does not show.
    #[must_use]
    pub fn name(&self) -> String {
        let name = match self.part {
            Part::Boundaries => "BARE",
            Part::Minimum => "BASE",
            Part::Skips => "SEQ",
        };
        match self.backend.name() {
            "scalar" => name.to_owned(),
            "avx512" | "avx512-gather" => format!("V{name}-512"),
            "avx2" => format!("V{name}-256"),
            _ => format!("V{name}-128"),
        }
    }
}

/// The plan of a breakdown.
#[derive(Clone, Debug)]
pub struct BreakdownPlan {
    /// The settings of the complete SeqCDC, with skips.
    pub settings: SeqCdcSettings,
    /// Files, and folders with files. Without any, random bytes are measured.
    pub paths: Vec<PathBuf>,
    /// Bytes to measure on, taken from the beginning of each file.
    pub sample: usize,
    /// The vector instructions to measure.
    pub backends: Vec<Backend>,
    /// How many times each speed is measured.
    pub rounds: u32,
}

/// The result of a breakdown.
#[derive(Clone, Debug)]
pub struct Breakdown {
    /// The machine that it was measured on.
    pub machine: Machine,
    /// Bytes that it was measured on.
    pub sample: u64,
    /// How many times each speed was measured.
    pub rounds: u32,
    /// Three steps for each backend: boundaries alone, with the minimum, with skips.
    pub steps: Vec<Step>,
}

/// Measures the parts of SeqCDC on one thread, round by round.
///
/// # Errors
/// The plan asks for nothing, a path can't be read, or the observer asks to stop.
pub fn breakdown(plan: &BreakdownPlan, observer: &mut impl Observer) -> Result<Breakdown> {
    at_least_one("rounds", plan.rounds as usize)?;
    at_least_one("bytes of the sample", plan.sample)?;
    at_least_one("backends", plan.backends.len())?;
    let data = sample_or_random(&plan.paths, plan.sample, observer)?;
    let mut steps = Vec::new();
    for backend in &plan.backends {
        for (part, settings) in parts(&plan.settings) {
            let chunker = Chunker::with_backend(&Settings::SeqCdc(settings), *backend)?;
            let mean = data.len() as f64 / chunks(&chunker, &data).count().max(1) as f64;
            steps.push((part, settings, chunker, mean, Vec::new()));
        }
    }
    observer.expect(data.len() as u64 * u64::from(plan.rounds) * steps.len() as u64);
    for _ in 0..plan.rounds {
        for (.., chunker, _, rounds) in &mut steps {
            rounds.push(speed::round(&data, speed::cut(chunker)));
            if !observer.advance(data.len() as u64) {
                return Err(Error::Stopped);
            }
        }
    }
    let step = |(part, settings, chunker, mean, rounds): (Part, SeqCdcSettings, Chunker, f64, Vec<f64>)| Step {
        part,
        backend: chunker.backend(),
        settings,
        mean,
        speed: Speed::of(&rounds),
    };
    Ok(Breakdown {
        machine: Machine::here(),
        sample: data.len() as u64,
        rounds: plan.rounds,
        steps: steps.into_iter().map(step).collect(),
    })
}

fn parts(full: &SeqCdcSettings) -> [(Part, SeqCdcSettings); 3] {
    let minimum = SeqCdcSettings {
        skip_trigger: 0,
        skip_size: 0,
        ..*full
    };
    let boundaries = SeqCdcSettings {
        size_min: SIZE_MIN_LEAST,
        ..minimum
    };
    [
        (Part::Boundaries, boundaries),
        (Part::Minimum, minimum),
        (Part::Skips, *full),
    ]
}
