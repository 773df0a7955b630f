//! Chunkers beside one another, on data of the user's.

use std::path::PathBuf;

use ibid_chunk::{Backend, Chunker, Settings};

use crate::duplicates::{self, Account};
use crate::inputs::Inputs;
use crate::{Error, Machine, Observer, Result, Sizes, Speed, speed};

/// Bytes that a repository spends on each chunk of a file, equal ones included: its place in the
/// recipe, which is an id of 32 bytes and a length of about 3 (`docs/format`, *Content*). A
/// repository deduplicates recipes, too, which is not counted here.
pub const RECIPE_BYTES: u64 = 35;
/// Bytes that a repository spends on each different chunk: 38 in an index file and about 36 in the
/// directory of its pack.
pub const INDEX_BYTES: u64 = 74;
/// Bytes of memory that each different chunk takes in the index of a repository that is open, at
/// most.
pub const INDEX_MEMORY_BYTES: u64 = 48;

/// What to compare, and on what.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Files, and folders with files.
    pub paths: Vec<PathBuf>,
    /// The chunkers, each with its parameters.
    pub contenders: Vec<Settings>,
    /// The vector instructions with which to measure how fast each is; cuts are the same with all.
    /// At least one; [`Backend::available`] lists the fastest last.
    pub backends: Vec<Backend>,
    /// How often each speed is measured: at least once.
    pub rounds: u32,
    /// Bytes on which speeds are measured, all in memory at once.
    pub sample: usize,
    /// Threads that look for duplicates, while no speed is measured: at least one.
    pub threads: usize,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// On what it was measured.
    pub machine: Machine,
    /// Files that were read.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes on which speeds were measured.
    pub sample: u64,
    /// How often each was.
    pub rounds: u32,
    /// How fast the sample can be read at all, looking at every byte and doing nothing with it.
    pub read: Speed,
    /// One for each contender, in the order of the plan.
    pub entries: Vec<Entry>,
}

/// One chunker.
#[derive(Clone, Debug)]
pub struct Entry {
    /// With its parameters.
    pub settings: Settings,
    /// How large its chunks are, equal ones included.
    pub sizes: Sizes,
    /// How many different chunks there are.
    pub unique_chunks: u64,
    /// Bytes of these.
    pub unique_bytes: u64,
    /// How fast it cuts, for each backend, in the order of the plan.
    pub speeds: Vec<(Backend, Speed)>,
    /// How fast it cuts and names every chunk by BLAKE3, on the last backend of the plan.
    pub with_fingerprints: Speed,
}

impl Entry {
    /// The share of the bytes that need not be stored (papers 000 and 001, equation 1).
    #[must_use]
    pub fn savings(&self) -> f64 {
        1.0 - self.unique_bytes as f64 / self.sizes.bytes().max(1) as f64
    }

    /// The duplicate elimination ratio: how many times less is stored than there is, counting
    /// chunks alone.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.sizes.bytes() as f64 / self.unique_bytes.max(1) as f64
    }

    /// What it takes to put the files together again: [`RECIPE_BYTES`] for each chunk,
    /// [`INDEX_BYTES`] for each different one.
    #[must_use]
    pub fn metadata_bytes(&self) -> u64 {
        RECIPE_BYTES * self.sizes.chunks() + INDEX_BYTES * self.unique_chunks
    }

    /// The ratio with metadata counted as stored.
    #[must_use]
    pub fn ratio_with_metadata(&self) -> f64 {
        self.sizes.bytes() as f64 / (self.unique_bytes + self.metadata_bytes()).max(1) as f64
    }

    /// Memory that an index of the different chunks takes: [`INDEX_MEMORY_BYTES`] each.
    #[must_use]
    pub fn index_memory_bytes(&self) -> u64 {
        INDEX_MEMORY_BYTES * self.unique_chunks
    }

    /// How fast it cuts on the backend that is fastest for it.
    #[must_use]
    pub fn fastest(&self) -> Option<(Backend, Speed)> {
        let faster = |a: &&(Backend, Speed), b: &&(Backend, Speed)| a.1.median.total_cmp(&b.1.median);
        self.speeds.iter().max_by(faster).copied()
    }
}

impl Comparison {
    /// For each entry, whether it is on the frontier: no other saves at least as much and is at
    /// least as fast, and better at one.
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

/// Runs every contender over the data.
///
/// First, everything is read once, [`Plan::threads`] contenders at a time looking at each piece of
/// 4 MiB: how large are the chunks, and which were there before? A part of it, in whole pieces from
/// all over the data, stays in memory: the sample. Then, on one thread and round by round, so that
/// what disturbs the machine disturbs all alike, every contender goes through the sample. No chunk
/// reaches from one file into another; in the sample, it can.
///
/// Memory: the sample; a piece; for each contender 14 bytes for each different chunk (23 while that
/// grows), three times its maximum size, and 64 KiB.
///
/// # Errors
/// When the plan holds nothing to do, settings are not valid, a path that was named can't be read,
/// there is nothing in any file, or the observer asks to stop. Files in folders that can't be read
/// are told to the observer and passed over.
pub fn compare(plan: &Plan, observer: &mut impl Observer) -> Result<Comparison> {
    let mut accounts = accounts(plan)?;
    let inputs = Inputs::list(&plan.paths, observer)?;
    let sample_expected = inputs.bytes.min(plan.sample as u64);
    observer.expect(inputs.bytes.saturating_mul(accounts.len() as u64) + passes(plan) * sample_expected);
    let found = duplicates::find(&inputs, plan.sample, plan.threads, &mut accounts, observer)?;
    finish(plan, accounts, (found.files, found.bytes), &found.sample, observer)
}

/// The same for files that are in memory, whatever paths the plan has. The sample is of the first
/// file alone.
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

/// Refuses a count of nothing.
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

/// How often the sample is gone through.
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

/// Bytes a second, round by round.
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
