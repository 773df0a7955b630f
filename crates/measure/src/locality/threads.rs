//! Several files at once, over one table of fingerprints and hints (paper 003, figure 18).

use super::LocalityData;
use super::lane::name;
use crate::inputs::Inputs;
use crate::{Error, Observer, Result};
use ibid_chunk::locality::{Criterion, HintedChunker, Table, Tally};
use ibid_chunk::{Chunker, Settings};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What some threads came to.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadsEntry {
    /// How many.
    pub threads: usize,
    /// When a hint was accepted.
    pub criterion: Criterion,
    /// Seconds that it took to read, cut, name and look up everything.
    pub seconds: f64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of different chunks.
    pub unique_bytes: u64,
}

/// Where a thread gets its next file from.
enum Files {
    Paths(Vec<PathBuf>),
    Memory(Vec<Vec<u8>>),
}

/// Cuts all files with every criterion and every number of threads; each thread takes the next file that nobody has. The versions of a series are all kept in memory.
///
/// # Errors
/// When the data can't be read, settings can't be, or the observer asks to stop.
pub fn locality_threads(
    data: &LocalityData,
    settings: &Settings,
    (criteria, list, chunks_most): (&[Criterion], usize, usize),
    threads: &[usize],
    observer: &mut impl Observer,
) -> Result<Vec<ThreadsEntry>> {
    let chunker = Chunker::new(settings)?;
    let files = match data {
        LocalityData::Files(paths) => {
            let inputs = Inputs::list(paths, observer)?;
            Files::Paths(inputs.files.into_iter().map(|input| input.path).collect())
        }
        LocalityData::Series(series) => {
            series.validate()?;
            Files::Memory(series.in_memory().map_err(Error::file("make", "a version".as_ref()))?)
        }
    };
    let mut entries = Vec::new();
    for criterion in criteria {
        let Ok(hinted) = HintedChunker::new(&chunker, *criterion) else {
            continue;
        };
        for threads in threads {
            let table = Table::new(settings, list, chunks_most);
            let clock = Instant::now();
            let (bytes, tally) = cut_all(&hinted, &table, &files, *threads)?;
            entries.push(ThreadsEntry {
                threads: *threads,
                criterion: *criterion,
                seconds: clock.elapsed().as_secs_f64(),
                bytes,
                unique_bytes: bytes - tally.duplicate_bytes,
            });
            if !observer.advance(bytes) {
                return Err(Error::Stopped);
            }
        }
    }
    Ok(entries)
}

fn cut_all(hinted: &HintedChunker<'_>, table: &Table, files: &Files, threads: usize) -> Result<(u64, Tally)> {
    let count = match files {
        Files::Paths(paths) => paths.len(),
        Files::Memory(versions) => versions.len(),
    };
    let next = Mutex::new(0..count);
    let work = || -> Result<(u64, Tally)> {
        let (mut bytes, mut sum) = (0, Tally::default());
        loop {
            let taken = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(number) = taken else {
                return Ok((bytes, sum));
            };
            let mut known = table.with(name);
            let count = |chunk: ibid_chunk::locality::HintedChunk<'_>| bytes += chunk.bytes.len() as u64;
            let tally = match files {
                Files::Paths(paths) => {
                    let failed = |error| Error::file("read", &paths[number])(error);
                    let file = File::open(&paths[number]).map_err(failed)?;
                    hinted.for_each_chunk_of(&mut known, file, count).map_err(failed)?
                }
                Files::Memory(versions) => hinted.for_each_chunk(&mut known, &versions[number], count),
            };
            sum.add(&tally);
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        let (mut bytes, mut sum) = (0, Tally::default());
        for thread in running {
            let (some, tally) = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            bytes += some;
            sum.add(&tally);
        }
        Ok((bytes, sum))
    })
}
