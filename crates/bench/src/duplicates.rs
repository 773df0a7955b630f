//! Duplicates found by several chunkers in one pass over the data.

use std::convert::Infallible;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ibid_chunk::{Pusher, Settings};

use crate::fingerprints::Fingerprints;
use crate::inputs::Inputs;
use crate::{Error, Observer, Result, Sizes, preferred_chunker};

/// Bytes that are read at once.
pub(crate) const PIECE: usize = 4 << 20;

/// The counts of one chunker.
pub(crate) struct Account {
    pub(crate) settings: Settings,
    pub(crate) sizes: Sizes,
    pub(crate) seen: Fingerprints,
    pub(crate) unique_bytes: u64,
    pusher: Pusher,
}

impl Account {
    pub(crate) fn new(settings: &Settings) -> Result<Account> {
        let chunker = preferred_chunker(settings)?;
        Ok(Account {
            settings: settings.clone(),
            sizes: Sizes::new(chunker.size_max()),
            seen: Fingerprints::new(),
            unique_bytes: 0,
            pusher: Pusher::new(&chunker),
        })
    }

    /// Takes the next piece of a file; [`None`] ends the file.
    fn take(&mut self, piece: Option<&[u8]>) {
        let Account {
            sizes,
            seen,
            unique_bytes,
            pusher,
            ..
        } = self;
        let note = |chunk: &[u8]| {
            sizes.add(chunk.len());
            if seen.insert(&blake3::hash(chunk)) {
                *unique_bytes += chunk.len() as u64;
            }
            Ok::<(), Infallible>(())
        };
        let Ok(()) = match piece {
            Some(piece) => pusher.push(piece, note),
            None => pusher.finish(note),
        };
    }
}

/// The data that was read.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Whole pieces from all over the data.
    pub(crate) sample: Vec<u8>,
}

/// Reads all inputs piece by piece, and gives each piece to all accounts. Keeps at most
/// `sample_most` bytes as the sample.
pub(crate) fn find(
    inputs: &Inputs,
    sample_most: usize,
    threads: usize,
    accounts: &mut [Account],
    observer: &mut impl Observer,
) -> Result<Found> {
    let mut found = Found::default();
    let mut piece = vec![0; PIECE];
    // Grows with each piece by the sample's share of it. A piece is kept when this reaches its
    // length, so that the sample comes from everywhere.
    let mut credit = 0.0;
    let share = sample_most as f64 / inputs.bytes.max(1) as f64;
    for input in &inputs.files {
        let result = pieces(&input.path, &mut piece, |bytes| {
            found.bytes += bytes.len() as u64;
            credit += bytes.len() as f64 * share;
            let room = sample_most - found.sample.len();
            // Rounding must not exclude the last piece that fits into the sample.
            if credit + 1.0 >= bytes.len().min(room) as f64 {
                found.sample.extend_from_slice(&bytes[..bytes.len().min(room)]);
                credit -= bytes.len() as f64;
            }
            side_by_side(accounts, threads, |account| account.take(Some(bytes)));
            observer.advance(bytes.len() as u64 * accounts.len() as u64)
        });
        // The bytes that were read of it count, and the next file starts fresh.
        side_by_side(accounts, threads, |account| account.take(None));
        match result {
            Ok(true) => found.files += 1,
            Ok(false) => return Err(Error::Stopped),
            Err(error) if input.is_named => return Err(Error::file("read", &input.path)(error)),
            Err(error) => observer.problem(&input.path, &error),
        }
    }
    Ok(found)
}

/// Finds the duplicates of files in memory.
pub(crate) fn find_in_memory(
    files: &[Vec<u8>],
    threads: usize,
    accounts: &mut [Account],
    observer: &mut impl Observer,
) -> Result<()> {
    for file in files {
        for piece in file.chunks(PIECE) {
            side_by_side(accounts, threads, |account| account.take(Some(piece)));
            if !observer.advance(piece.len() as u64 * accounts.len() as u64) {
                return Err(Error::Stopped);
            }
        }
        side_by_side(accounts, threads, |account| account.take(None));
    }
    Ok(())
}

/// Calls `take` with the pieces of a file until it returns false. Returns whether the end was
/// reached.
pub(crate) fn pieces(path: &Path, piece: &mut [u8], mut take: impl FnMut(&[u8]) -> bool) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    loop {
        let mut filled = 0;
        while filled < piece.len() {
            match file.read(&mut piece[filled..]) {
                Ok(0) => break,
                Ok(length) => filled += length,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if filled > 0 && !take(&piece[..filled]) {
            return Ok(false);
        }
        if filled < piece.len() {
            return Ok(true);
        }
    }
}

/// Does `work` for all accounts, several at a time.
fn side_by_side(accounts: &mut [Account], threads: usize, work: impl Fn(&mut Account) + Sync) {
    if threads <= 1 || accounts.len() == 1 {
        return accounts.iter_mut().for_each(work);
    }
    let threads = threads.min(accounts.len());
    let waiting = Mutex::new(accounts.iter_mut());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        while let Some(account) = next() {
            work(account);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // If a thread can't be started, the others do its share.
            let _ = std::thread::Builder::new().spawn_scoped(scope, run);
        }
        run();
    });
}
