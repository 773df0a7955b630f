//! How duplicates follow one another (RapidCDC §2).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;

use ibid_chunk::{Chunker, Pusher, Settings};

use crate::compare::at_least_one;
use crate::duplicates::{PIECE, pieces};
use crate::fingerprints::Fingerprints;
use crate::inputs::Inputs;
use crate::{Error, Observer, Result};

/// What to look at, and when to count.
#[derive(Clone, Debug)]
pub struct DuplicateLocalityPlan {
    /// Files, and folders with files. Those named come in this order, those in a folder in that of
    /// their names, numbers by their value.
    pub paths: Vec<PathBuf>,
    /// What cuts them; in the paper [`ChunkSizes::DATA_DOMAIN`](crate::ChunkSizes::DATA_DOMAIN)
    /// with Rabin's hash.
    pub settings: Settings,
    /// How often it is counted, evenly spaced over the files and the last time after all of them:
    /// at least once. Of fewer files, after each.
    pub checkpoints: usize,
}

/// What came out. Nothing in it depends on the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct DuplicateLocality {
    /// What cut the files.
    pub settings: Settings,
    /// The first first; the last is of all files. At least one.
    pub checkpoints: Vec<Checkpoint>,
}

/// Chunks, and bytes in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many.
    pub chunks: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// LQ sequences of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequences {
    /// Chunks in each: at least 1.
    pub length: u64,
    /// How many there are.
    pub count: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// What was found in all files up to one of them.
///
/// A chunk is a *duplicate* if the same bytes were a chunk before: of an earlier file, or earlier
/// in the same one. Duplicates that follow one another in a file, as many as do, are a *run*. Its
/// first chunk is where a deduplicating system finds out that it is on known ground; the others,
/// "the contiguous deduplicatable chunks immediately following the first", are the run's *LQ
/// sequence* (locality quantification; RapidCDC §2), and their number is its length. So a
/// run of `n` duplicates has a sequence of length `n - 1`, and an isolated duplicate, a run of one,
/// has none: length 0, no chunk in it.
///
/// The paper also calls the difference between all duplicates and those in sequences "isolated
/// duplicates", as if the first chunk of a run belonged to its sequence. Who reads it so adds the
/// number of sequences: all duplicates but the isolated ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Files that were read.
    pub files: u64,
    /// All chunks of these.
    pub all: Amount,
    /// Those that were there before.
    pub duplicates: Amount,
    /// Duplicates with no duplicate beside them.
    pub isolated: Amount,
    /// All LQ sequences, by length, the shortest first.
    pub sequences: Vec<Sequences>,
}

impl Checkpoint {
    /// Chunks in LQ sequences: the lower line of figure 3, of which [`Checkpoint::duplicates`] is
    /// the upper.
    #[must_use]
    pub fn in_sequences(&self) -> Amount {
        sum(&self.sequences)
    }

    /// How many LQ sequences there are: as many as runs of two duplicates and more.
    #[must_use]
    pub fn sequence_count(&self) -> u64 {
        self.sequences.iter().map(|sequences| sequences.count).sum()
    }

    /// Chunks in LQ sequences shorter than `length`: of those in all of them, the share that figure
    /// 4 draws.
    #[must_use]
    pub fn shorter_than(&self, length: u64) -> Amount {
        sum(&self.sequences[..self.sequences.partition_point(|sequences| sequences.length < length)])
    }

    /// The greatest length such that at least half of the chunks in LQ sequences are in sequences
    /// no shorter; 0 if there are none.
    #[must_use]
    pub fn median_length(&self) -> u64 {
        let half = self.in_sequences().chunks.div_ceil(2);
        let mut no_shorter = 0;
        for sequences in self.sequences.iter().rev() {
            no_shorter += sequences.length * sequences.count;
            if no_shorter >= half {
                return sequences.length;
            }
        }
        0
    }

    /// The length of the longest LQ sequence; 0 if there is none.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.sequences.last().map_or(0, |sequences| sequences.length)
    }

    /// The deduplication ratio: how many times less is stored than there is, counting chunks alone.
    /// 1 of nothing.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        match self.all.bytes {
            0 => 1.0,
            // The first chunk of all is no duplicate.
            bytes => bytes as f64 / (bytes - self.duplicates.bytes) as f64,
        }
    }
}

impl DuplicateLocality {
    /// After all files.
    ///
    /// # Panics
    /// Without any checkpoint, which [`duplicate_locality`] never returns.
    #[must_use]
    pub fn last(&self) -> &Checkpoint {
        self.checkpoints.last().expect("at least one checkpoint")
    }

    /// 2, 4, 8 and so on, up to the first that is longer than every sequence: the lengths at which
    /// tables show the distribution. (Below 1 there is no sequence with a chunk in it, so the
    /// first is 2.)
    #[must_use]
    pub fn thresholds(&self) -> Vec<u64> {
        let longest = self.last().longest();
        let powers = (1..63).map(|exponent| 1u64 << exponent);
        let shorter = powers.clone().take_while(|power| *power <= longest);
        shorter.chain(powers.clone().find(|power| *power > longest)).collect()
    }
}

fn sum(sequences: &[Sequences]) -> Amount {
    sequences.iter().fold(Amount::default(), |sum, sequences| Amount {
        chunks: sum.chunks + sequences.length * sequences.count,
        bytes: sum.bytes + sequences.bytes,
    })
}

/// Cuts all files, one after the other, as if they were backed up in turn, and counts how
/// duplicates follow one another (RapidCDC §2, figures 3 and 4).
///
/// No chunk reaches from one file into another, and no run. Files are read in pieces of 4 MiB.
/// Memory: a piece, three times the maximum size of a chunk, 14 bytes for each different chunk (23
/// while that grows), and about 40 for each length of sequence that occurs, of which among `n`
/// chunks there are fewer than √(2`n`); each checkpoint keeps 24 bytes a length.
///
/// # Errors
/// When there are to be no checkpoints, settings are not valid, a path that was named can't be
/// read, there is nothing in any file, or the observer asks to stop. Files in folders that can't be
/// read are told to the observer and passed over.
pub fn duplicate_locality(plan: &DuplicateLocalityPlan, observer: &mut impl Observer) -> Result<DuplicateLocality> {
    at_least_one("checkpoints", plan.checkpoints)?;
    let chunker = Chunker::new(&plan.settings)?;
    let inputs = Inputs::list(&plan.paths, observer)?;
    observer.expect(inputs.bytes);
    let mut pusher = Pusher::new(&chunker);
    let mut seen = Fingerprints::new();
    let mut runs = Runs::default();
    let mut piece = vec![0; PIECE];
    let mut checkpoints = Vec::new();
    let total = inputs.files.len();
    let spaced = plan.checkpoints.min(total);
    for (before, input) in inputs.files.iter().enumerate() {
        let mut note = |chunk: &[u8]| {
            let is_duplicate = !seen.insert(&blake3::hash(chunk));
            runs.add(chunk.len() as u64, is_duplicate);
            Ok::<(), Infallible>(())
        };
        let result = pieces(&input.path, &mut piece, |bytes| {
            let Ok(()) = pusher.push(bytes, &mut note);
            observer.advance(bytes.len() as u64)
        });
        // What was read of it counts, and the next file begins anew.
        let Ok(()) = pusher.finish(&mut note);
        runs.end_run();
        match result {
            Ok(true) => runs.counted.files += 1,
            Ok(false) => return Err(Error::Stopped),
            Err(error) if input.is_named => return Err(Error::file("read", &input.path)(error)),
            Err(error) => observer.problem(&input.path, &error),
        }
        // The n-th of so many is due as soon as n shares of all files are in.
        if (before + 1) * spaced / total > before * spaced / total {
            checkpoints.push(runs.checkpoint());
        }
    }
    Ok(DuplicateLocality {
        settings: plan.settings.clone(),
        checkpoints,
    })
}

/// Counts runs of duplicates.
#[derive(Default)]
struct Runs {
    /// All but the sequences.
    counted: Checkpoint,
    /// How many, and their bytes, by length.
    sequences: BTreeMap<u64, (u64, u64)>,
    /// The run at the end of what was read so far.
    open: Amount,
    /// Bytes of its first chunk.
    open_first: u64,
}

impl Runs {
    fn add(&mut self, bytes: u64, is_duplicate: bool) {
        add(&mut self.counted.all, bytes);
        if !is_duplicate {
            return self.end_run();
        }
        add(&mut self.counted.duplicates, bytes);
        if self.open.chunks == 0 {
            self.open_first = bytes;
        }
        add(&mut self.open, bytes);
    }

    /// Where a duplicate is followed by another chunk, or by the end of its file.
    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.open);
        match run.chunks {
            0 => {}
            1 => add(&mut self.counted.isolated, run.bytes),
            chunks => {
                let (count, bytes) = self.sequences.entry(chunks - 1).or_default();
                *count += 1;
                *bytes += run.bytes - self.open_first;
            }
        }
    }

    fn checkpoint(&self) -> Checkpoint {
        let sequences = self.sequences.iter().map(|(length, (count, bytes))| Sequences {
            length: *length,
            count: *count,
            bytes: *bytes,
        });
        Checkpoint {
            sequences: sequences.collect(),
            ..self.counted.clone()
        }
    }
}

fn add(amount: &mut Amount, bytes: u64) {
    amount.chunks += 1;
    amount.bytes += bytes;
}
