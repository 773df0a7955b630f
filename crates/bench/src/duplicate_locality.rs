//! The locality of duplicates (RapidCDC §2).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;

use ibid_chunk::{Pusher, Settings};

use crate::compare::at_least_one;
use crate::duplicates::{PIECE, pieces};
use crate::fingerprints::Fingerprints;
use crate::inputs::Inputs;
use crate::{Error, Observer, Result, preferred_chunker};

/// The plan: the files, and when to count.
#[derive(Clone, Debug)]
pub struct DuplicateLocalityPlan {
    /// Files, and folders with files. They are read in this order, and files in a folder in the
    /// order of their names, with numbers by value.
    pub paths: Vec<PathBuf>,
    /// The chunker; in the paper [`ChunkSizes::DATA_DOMAIN`](crate::ChunkSizes::DATA_DOMAIN) with
    /// Rabin's hash.
    pub settings: Settings,
    /// How many checkpoints there are: at least one, evenly spaced over the files, the last after
    /// all of them. If there are fewer files, there is one after each.
    pub checkpoints: usize,
}

/// The result. Nothing in it depends on the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct DuplicateLocality {
    /// The chunker.
    pub settings: Settings,
    /// The checkpoints in order, at least one; the last covers all files.
    pub checkpoints: Vec<Checkpoint>,
}

/// A number of chunks, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// The number of chunks.
    pub chunks: u64,
    /// Bytes of these chunks.
    pub bytes: u64,
}

/// LQ sequences of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequences {
    /// Chunks in each sequence: at least 1.
    pub length: u64,
    /// The number of sequences.
    pub count: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// The counts for all files up to one of them.
///
/// A chunk is a *duplicate* if the same bytes were a chunk before, in an earlier file or earlier in
/// the same one. Consecutive duplicates in a file are a *run*. At the first chunk of a run, a
/// deduplicating system finds that the data is known. The others, "the contiguous deduplicatable
/// chunks immediately following the first", are the run's *LQ sequence* (locality quantification;
/// RapidCDC §2), and their number is its length. A run of `n` duplicates therefore has a sequence
/// of length `n - 1`. An isolated duplicate is a run of one and has no sequence.
///
/// The paper also calls the difference between all duplicates and those in sequences "isolated
/// duplicates", as if the first chunk of a run belonged to its sequence. In that reading, add the
/// number of sequences: it gives all duplicates except the isolated ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Files that were read.
    pub files: u64,
    /// All chunks of these files.
    pub all: Amount,
    /// Chunks that are duplicates.
    pub duplicates: Amount,
    /// Duplicates with no duplicate beside them.
    pub isolated: Amount,
    /// All LQ sequences by length, shortest first.
    pub sequences: Vec<Sequences>,
}

impl Checkpoint {
    /// Returns the chunks in LQ sequences: the lower line of figure 3. The upper line is
    /// [`Checkpoint::duplicates`].
    #[must_use]
    pub fn in_sequences(&self) -> Amount {
        sum(&self.sequences)
    }

    /// Returns the number of LQ sequences, which is the number of runs of two or more duplicates.
    #[must_use]
    pub fn sequence_count(&self) -> u64 {
        self.sequences.iter().map(|sequences| sequences.count).sum()
    }

    /// Returns the chunks in LQ sequences shorter than `length`. Figure 4 draws their share of the
    /// chunks in all sequences.
    #[must_use]
    pub fn shorter_than(&self, length: u64) -> Amount {
        sum(&self.sequences[..self.sequences.partition_point(|sequences| sequences.length < length)])
    }

    /// Returns the median length: at least half of the chunks in LQ sequences are in sequences of
    /// this length or longer, and no greater length has that. 0 if there are no sequences.
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

    /// Returns the length of the longest LQ sequence; 0 if there is none.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.sequences.last().map_or(0, |sequences| sequences.length)
    }

    /// Returns the deduplication ratio: all bytes divided by the bytes of different chunks, without
    /// metadata. 1 if there are no bytes.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        match self.all.bytes {
            0 => 1.0,
            // The very first chunk is no duplicate, so the divisor is above 0.
            bytes => bytes as f64 / (bytes - self.duplicates.bytes) as f64,
        }
    }
}

impl DuplicateLocality {
    /// Returns the checkpoint after all files.
    ///
    /// # Panics
    /// If there is no checkpoint, which [`duplicate_locality`] never returns.
    #[must_use]
    pub fn last(&self) -> &Checkpoint {
        self.checkpoints.last().expect("at least one checkpoint")
    }

    /// Returns 2, 4, 8 and so on, up to the first power of two that is longer than every sequence:
    /// the lengths at which tables show the distribution. The shortest sequence has length 1, so
    /// the first is 2.
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

/// Cuts all files in order, as if they were backed up in turn, and counts how duplicates follow one
/// another (RapidCDC §2, figures 3 and 4).
///
/// No chunk and no run reaches from one file into another. Files are read in pieces of 4 MiB.
/// Memory: a piece, three times the maximum size of a chunk, 14 bytes for each different chunk (23
/// while the set grows), and about 40 for each length of sequence that occurs; among `n` chunks
/// there are fewer than √(2`n`) lengths. Each checkpoint keeps 24 bytes a length.
///
/// # Errors
/// The plan has no checkpoints, settings are not valid, a path of the plan can't be read, all files
/// are empty, or the observer asks to stop. Files in folders that can't be read are reported to the
/// observer and left out.
pub fn duplicate_locality(plan: &DuplicateLocalityPlan, observer: &mut impl Observer) -> Result<DuplicateLocality> {
    at_least_one("checkpoints", plan.checkpoints)?;
    let chunker = preferred_chunker(&plan.settings)?;
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
        // The bytes that were read of it count, and the next file starts fresh.
        let Ok(()) = pusher.finish(&mut note);
        runs.end_run();
        match result {
            Ok(true) => runs.counted.files += 1,
            Ok(false) => return Err(Error::Stopped),
            Err(error) if input.is_named => return Err(Error::file("read", &input.path)(error)),
            Err(error) => observer.problem(&input.path, &error),
        }
        // Checkpoint n is due as soon as n shares of all files are in.
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
    /// All counts except the sequences.
    counted: Checkpoint,
    /// Number and bytes of sequences, by length.
    sequences: BTreeMap<u64, (u64, u64)>,
    /// The run that ends at the last chunk that was read.
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

    /// Ends the run: another chunk or the end of the file follows.
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
