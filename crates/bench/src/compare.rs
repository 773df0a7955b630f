//! A comparison of chunkers on your own data.

use std::path::PathBuf;

use ibid_chunk::{Backend, Chunker, Settings};

use crate::duplicates::{self, Account};
use crate::inputs::Inputs;
use crate::{Error, Machine, Observer, Result, Sizes, Speed, speed};

/// Bytes that a repository spends on each chunk of a file, including duplicates: its entry in the
/// recipe, which is an id of 32 bytes and a length of about 3 (`docs/format`, *Content*). A
/// repository also deduplicates recipes, which is not counted here.
pub const RECIPE_BYTES: u64 = 35;
/// Bytes that a repository spends on each different chunk: 38 in an index file and about 36 in the
/// directory of its pack.
pub const INDEX_BYTES: u64 = 74;
/// Most bytes of memory that each different chunk takes in the index of an open repository.
pub const INDEX_MEMORY_BYTES: u64 = 48;

/// The plan of a comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Files, and folders with files.
    pub paths: Vec<PathBuf>,
    /// The chunkers with their parameters.
    pub contenders: Vec<Settings>,
    /// The vector instructions to measure speeds with; cuts are the same with all. At least one;
    /// [`Backend::available`] lists the fastest last.
    pub backends: Vec<Backend>,
    /// How many times each speed is measured: at least once.
    pub rounds: u32,
    /// Bytes to measure speeds on, all in memory at once.
    pub sample: usize,
    /// Threads that search for duplicates, while no speed is measured: at least one.
    pub threads: usize,
}

/// The result of a comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The machine that it was measured on.
    pub machine: Machine,
    /// Files that were read.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes that speeds were measured on.
    pub sample: u64,
    /// How many times each speed was measured.
    pub rounds: u32,
    /// The speed of reading every byte of the sample, with no other work.
    pub read: Speed,
    /// The results of the chunkers, in the order of the plan.
    pub entries: Vec<Entry>,
}

/// The result of one chunker.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The chunker with its parameters.
    pub settings: Settings,
    /// The sizes of its chunks, including duplicates.
    pub sizes: Sizes,
    /// How many different chunks there are.
    pub unique_chunks: u64,
    /// Bytes of the different chunks.
    pub unique_bytes: u64,
    /// The chunking speed for each backend, in the order of the plan.
    pub speeds: Vec<(Backend, Speed)>,
    /// The speed of chunking and of computing BLAKE3 of every chunk, on the last backend of the
    /// plan.
    pub with_fingerprints: Speed,
}

impl Entry {
    /// Returns the share of the bytes that need not be stored (SeqCDC and VSEQ, equation 1).
    #[must_use]
    pub fn savings(&self) -> f64 {
        1.0 - self.unique_bytes as f64 / self.sizes.bytes().max(1) as f64
    }

    /// Returns the duplicate elimination ratio: all bytes divided by the bytes of different chunks,
    /// without metadata.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.sizes.bytes() as f64 / self.unique_bytes.max(1) as f64
    }

    /// Returns the metadata needed to restore the files, bytes: [`RECIPE_BYTES`] for each chunk,
    /// [`INDEX_BYTES`] for each different one.
    #[must_use]
    pub fn metadata_bytes(&self) -> u64 {
        RECIPE_BYTES * self.sizes.chunks() + INDEX_BYTES * self.unique_chunks
    }

    /// Returns the ratio with metadata counted as stored.
    #[must_use]
    pub fn ratio_with_metadata(&self) -> f64 {
        self.sizes.bytes() as f64 / (self.unique_bytes + self.metadata_bytes()).max(1) as f64
    }

    /// Returns the memory of an index of the different chunks, bytes: [`INDEX_MEMORY_BYTES`] each.
    #[must_use]
    pub fn index_memory_bytes(&self) -> u64 {
        INDEX_MEMORY_BYTES * self.unique_chunks
    }

    /// Returns the speed on its fastest backend.
    #[must_use]
    pub fn fastest(&self) -> Option<(Backend, Speed)> {
        let faster = |a: &&(Backend, Speed), b: &&(Backend, Speed)| a.1.median.total_cmp(&b.1.median);
        self.speeds.iter().max_by(faster).copied()
    }
}

impl Comparison {
    /// Returns for each entry whether it is on the frontier: no other entry saves at least as much
    /// and is at least as fast, and is better at one of the two.
    #[must_use]
    pub fn frontier(&self) -> Vec<bool> {
        let speed = |entry: &Entry| entry.fastest().map_or(0.0, |(_, speed)| speed.median);
        let points: Vec<(f64, f64)> = self
            .entries
            .iter()
            .map(|entry| (speed(entry), entry.savings()))
            .collect();
        let beats = |a: &(f64, f64), b: &(f64, f64)| a.0 >= b.0 && a.1 >= b.1 && (a.0 > b.0 || a.1 > b.1);
        points
            .iter()
            .map(|point| !points.iter().any(|other| beats(other, point)))
            .collect()
    }
}

/// Runs every chunker over the data.
///
/// First, everything is read once, in pieces of 4 MiB, to count chunk sizes and duplicates;
/// [`Plan::threads`] chunkers process a piece at the same time. Whole pieces from all over the data
/// stay in memory as the sample. Then every chunker processes the sample on one thread, round by
/// round, so that a disturbance of the machine affects all alike. No chunk reaches from one file
/// into another; in the sample, it can.
///
/// Memory: the sample; a piece; for each chunker 14 bytes for each different chunk (23 while the
/// set grows), three times its maximum size, and 64 KiB.
///
/// # Errors
/// The plan asks for nothing, settings are not valid, a path of the plan can't be read, all files
/// are empty, or the observer asks to stop. Files in folders that can't be read are reported to the
/// observer and left out.
pub fn compare(plan: &Plan, observer: &mut impl Observer) -> Result<Comparison> {
    let mut accounts = accounts(plan)?;
    let inputs = Inputs::list(&plan.paths, observer)?;
    let sample_expected = inputs.bytes.min(plan.sample as u64);
    observer.expect(inputs.bytes.saturating_mul(accounts.len() as u64) + passes(plan) * sample_expected);
    let found = duplicates::find(&inputs, plan.sample, plan.threads, &mut accounts, observer)?;
    finish(plan, accounts, (found.files, found.bytes), &found.sample, observer)
}

/// Compares chunkers on files in memory; the paths of the plan are ignored. The sample comes from
/// the first file only.
pub(crate) fn compare_in_memory(plan: &Plan, files: &[Vec<u8>], observer: &mut impl Observer) -> Result<Comparison> {
    let mut accounts = accounts(plan)?;
    let bytes = files.iter().map(|file| file.len() as u64).sum();
    let sample = files
        .first()
        .map_or(&[][..], |file| &file[..file.len().min(plan.sample)]);
    observer.expect(bytes * accounts.len() as u64 + passes(plan) * sample.len() as u64);
    duplicates::find_in_memory(files, plan.threads, &mut accounts, observer)?;
    finish(plan, accounts, (files.len() as u64, bytes), sample, observer)
}

/// Refuses a count of 0.
pub(crate) fn at_least_one(what: &'static str, count: usize) -> Result<()> {
    match count {
        0 => Err(Error::OutOfRange {
            what,
            expected: "at least 1".into(),
            found: "0".into(),
        }),
        _ => Ok(()),
    }
}

fn accounts(plan: &Plan) -> Result<Vec<Account>> {
    at_least_one("chunkers", plan.contenders.len())?;
    at_least_one("backends", plan.backends.len())?;
    at_least_one("rounds", plan.rounds as usize)?;
    at_least_one("bytes of the sample", plan.sample)?;
    at_least_one("threads", plan.threads)?;
    plan.contenders.iter().map(Account::new).collect()
}

/// Returns how many times the sample is processed.
fn passes(plan: &Plan) -> u64 {
    let contenders = plan.contenders.len() as u64;
    u64::from(plan.rounds) * (contenders * (plan.backends.len() as u64 + 1) + 1)
}

fn finish(
    plan: &Plan,
    accounts: Vec<Account>,
    (files, bytes): (u64, u64),
    sample: &[u8],
    observer: &mut impl Observer,
) -> Result<Comparison> {
    let speeds = measure(plan, sample, observer)?;
    let entry = |(account, speeds): (Account, Rounds)| {
        let backends = plan.backends.iter().copied();
        let by_backend = backends.zip(speeds.backends.iter().map(|rounds| Speed::of(rounds)));
        Entry {
            settings: account.settings,
            sizes: account.sizes,
            unique_chunks: account.seen.len(),
            unique_bytes: account.unique_bytes,
            speeds: by_backend.collect(),
            with_fingerprints: Speed::of(&speeds.with_fingerprints),
        }
    };
    Ok(Comparison {
        machine: Machine::here(),
        files,
        bytes,
        sample: sample.len() as u64,
        rounds: plan.rounds,
        read: Speed::of(&speeds.read),
        entries: accounts.into_iter().zip(speeds.contenders).map(entry).collect(),
    })
}

/// Bytes a second in each round.
#[derive(Clone, Default)]
struct Rounds {
    /// For each backend.
    backends: Vec<Vec<f64>>,
    with_fingerprints: Vec<f64>,
}

struct Measured {
    contenders: Vec<Rounds>,
    read: Vec<f64>,
}

fn measure(plan: &Plan, sample: &[u8], observer: &mut impl Observer) -> Result<Measured> {
    let none = Rounds {
        backends: vec![Vec::new(); plan.backends.len()],
        with_fingerprints: Vec::new(),
    };
    let mut measured = Measured {
        contenders: vec![none; plan.contenders.len()],
        read: Vec::new(),
    };
    let mut done = || match observer.advance(sample.len() as u64) {
        true => Ok(()),
        false => Err(Error::Stopped),
    };
    for _ in 0..plan.rounds {
        measured.read.push(speed::round(sample, speed::read));
        done()?;
        for (settings, rounds) in plan.contenders.iter().zip(&mut measured.contenders) {
            for (backend, rounds) in plan.backends.iter().zip(&mut rounds.backends) {
                let chunker = Chunker::with_backend(settings, *backend)?;
                rounds.push(speed::round(sample, speed::cut(&chunker)));
                done()?;
            }
            if let Some(last) = plan.backends.last() {
                let chunker = Chunker::with_backend(settings, *last)?;
                let with_fingerprints = speed::round(sample, speed::cut_and_fingerprint(&chunker));
                rounds.with_fingerprints.push(with_fingerprints);
                done()?;
            }
        }
    }
    Ok(measured)
}
