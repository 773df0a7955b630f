//! Where SeqCDC's speed comes from (VSEQ, figure 10).

use std::path::PathBuf;

use ibid_chunk::{Backend, Chunker, SIZE_MIN_LEAST, SeqCdcSettings, Settings, chunks};

use crate::compare::at_least_one;
use crate::sample::sample_or_random;
use crate::{Error, Machine, Observer, Result, Speed, speed};

/// What of SeqCDC is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Boundaries are looked for in every byte (but for the first 63 of a chunk, which is the least
    /// minimum).
    Boundaries,
    /// Not before the minimum size: what the paper calls BASE.
    Minimum,
    /// And content-defined skips: what the paper calls SEQ.
    Skips,
}

/// One way to run it.
#[derive(Clone, Debug)]
pub struct Step {
    /// What is in use.
    pub part: Part,
    /// With which vector instructions.
    pub backend: Backend,
    /// With which settings.
    pub settings: SeqCdcSettings,
    /// Bytes of a chunk on average.
    pub mean: f64,
    /// How fast it cuts.
    pub speed: Speed,
}

impl Step {
    /// The paper's name: BASE, SEQ, VBASE-512, VSEQ-512 and so on; BARE for boundaries alone, which
    /// the paper does not show.
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

/// What to take apart, and on what.
#[derive(Clone, Debug)]
pub struct BreakdownPlan {
    /// SeqCDC in full, with skips.
    pub settings: SeqCdcSettings,
    /// Files, and folders with files; random bytes if there are none.
    pub paths: Vec<PathBuf>,
    /// Bytes on which it is measured: of the beginning of each file.
    pub sample: usize,
    /// With which vector instructions.
    pub backends: Vec<Backend>,
    /// How often each speed is measured.
    pub rounds: u32,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Breakdown {
    /// On what it was measured.
    pub machine: Machine,
    /// Bytes on which it was measured.
    pub sample: u64,
    /// How often each speed was.
    pub rounds: u32,
    /// For each backend: boundaries alone, with the minimum, with skips.
    pub steps: Vec<Step>,
}

/// Measures SeqCDC in parts, on one thread, round by round.
///
/// # Errors
/// When the plan holds nothing to do, a path can't be read, or the observer asks to stop.
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
