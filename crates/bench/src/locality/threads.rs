//! Cutting several files at once, with one table of fingerprints and hints (RapidCDC, figure 18).

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};

use ibid_chunk::Chunker;
use ibid_chunk::locality::{Criterion, HintedChunker, Table};

use super::LocalityPlan;
use super::contender::{Naming, name};
use super::cutting::{Cursor, Cutter};
use super::source::{STEP, Source, Window, make};
use crate::clock::ProcessClock;
use crate::error::Stop;
use crate::inputs::Input;
use crate::{Error, Observer, Result};

/// The result with a number of threads.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadsEntry {
    /// The number of threads.
    pub threads: usize,
    /// The criterion for hints; none without hints.
    pub criterion: Option<Criterion>,
    /// Seconds to read, cut, name and look up everything. Files should be in the system's cache; a
    /// series is in memory.
    pub seconds: f64,
    /// Seconds of all processors together. If this is less than the threads could have used, other
    /// processes had the processors.
    pub cpu_seconds: f64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of different chunks.
    pub unique_bytes: u64,
}

impl ThreadsEntry {
    /// Returns the speed, bytes a second.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(super::MOMENT)
    }

    /// Returns the name of the method: `plain`, or the criterion's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.criterion.map_or("plain", Criterion::name)
    }

    /// Returns the bytes of all files divided by the bytes of different chunks.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.bytes as f64 / self.unique_bytes.max(1) as f64
    }
}

/// The files for the threads.
enum Files<'a> {
    Inputs(&'a [Input]),
    Memory(Vec<Vec<u8>>),
}

/// Cuts all files without hints and with every criterion, with every number of threads. Each thread
/// takes the next file that no other thread has taken.
pub(super) fn run(
    plan: &LocalityPlan,
    chunker: &Chunker,
    source: &Source,
    observer: &mut impl Observer,
) -> Result<Vec<ThreadsEntry>> {
    if plan.threads.is_empty() {
        return Ok(Vec::new());
    }
    let files = match source {
        Source::Files(inputs) => Files::Inputs(&inputs.files),
        Source::Series(series) => {
            let mut all: Vec<Vec<u8>> = Vec::new();
            for n in 1..=series.versions {
                let previous = all.last().map_or(&[][..], Vec::as_slice);
                all.push(make(series, n, previous, observer)?);
            }
            Files::Memory(all)
        }
    };
    let settings = chunker.settings();
    let mut cutters = vec![(None, Cutter::Plain(chunker))];
    for criterion in plan.criteria_for(settings) {
        if let Ok(hinted) = HintedChunker::new(chunker, criterion) {
            cutters.push((Some(criterion), Cutter::Hinted(hinted)));
        }
    }
    let mut entries = Vec::new();
    for (criterion, cutter) in &cutters {
        for threads in &plan.threads {
            let team = Team {
                cutter,
                table: Table::new(settings, plan.list(), source.chunks_most(settings)),
                files: &files,
                longest: chunker.size_max(),
                next: AtomicUsize::new(0),
                stops: AtomicBool::new(false),
            };
            let clock = ProcessClock::start();
            let (bytes, unique_bytes) = team.run(*threads, observer)?;
            let (seconds, cpu_seconds) = clock.seconds();
            entries.push(ThreadsEntry {
                threads: *threads,
                criterion: *criterion,
                seconds,
                cpu_seconds,
                bytes,
                unique_bytes,
            });
        }
    }
    Ok(entries)
}

/// A report of a working thread.
enum Word {
    /// Bytes that were processed.
    Done(usize),
    /// A file that was left out.
    Problem(PathBuf, io::Error),
}

/// Threads that process the same files.
struct Team<'a> {
    cutter: &'a Cutter<'a>,
    table: Table,
    files: &'a Files<'a>,
    longest: usize,
    /// The next file that no thread has taken.
    next: AtomicUsize,
    stops: AtomicBool,
}

impl Team<'_> {
    /// Returns the bytes of all files, and of different chunks.
    fn run(&self, threads: usize, observer: &mut impl Observer) -> Result<(u64, u64)> {
        std::thread::scope(|scope| {
            let (say, words) = mpsc::channel();
            let member = |say: Sender<Word>| move || self.work(&say);
            let running: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(member(say.clone()))).collect();
            drop(say);
            for word in words {
                let goes_on = match word {
                    Word::Done(bytes) => observer.advance(bytes as u64),
                    Word::Problem(path, error) => {
                        observer.problem(&path, &error);
                        true
                    }
                };
                if !goes_on {
                    self.stops.store(true, Ordering::Relaxed);
                }
            }
            let mut sums = Ok((0, 0));
            for thread in running {
                let found = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                sums = match (sums, found) {
                    (Ok((bytes, unique)), Ok((more, more_unique))) => Ok((bytes + more, unique + more_unique)),
                    // A thread that was stopped has a less useful error than the one that caused
                    // it.
                    (Err(Error::Stopped), Err(error)) | (Err(error), _) | (_, Err(error)) => Err(error),
                };
            }
            sums
        })
    }

    fn work(&self, say: &Sender<Word>) -> Result<(u64, u64)> {
        let (mut bytes, mut unique) = (0, 0);
        let mut window = Window::new(self.longest);
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            match self.files {
                Files::Memory(versions) => {
                    let Some(version) = versions.get(number) else { break };
                    let cut = self.in_memory(version, say, &mut bytes, &mut unique);
                    cut.map_err(Error::file("read", "a version".as_ref()))?;
                }
                Files::Inputs(inputs) => {
                    let Some(input) = inputs.get(number) else { break };
                    let cut = File::open(&input.path)
                        .and_then(|file| self.file(file, &mut window, say, &mut bytes, &mut unique));
                    match cut.map_err(Error::file("read", &input.path)) {
                        Ok(()) => {}
                        Err(Error::File { path, source, .. }) if !input.is_named => {
                            // The receiver listens until all threads end.
                            let _ = say.send(Word::Problem(path, source));
                        }
                        Err(error) => {
                            self.stops.store(true, Ordering::Relaxed);
                            return Err(error);
                        }
                    }
                }
            }
        }
        Ok((bytes, unique))
    }

    fn in_memory(&self, data: &[u8], say: &Sender<Word>, bytes: &mut u64, unique: &mut u64) -> io::Result<()> {
        let mut known = self.table.with(name as Naming);
        let mut cursor = Cursor::start();
        let (mut at, mut told) = (0, 0);
        while at < data.len() {
            let (length, is_duplicate) = cursor.next_chunk(self.cutter, &mut known, &data[at..], true, None);
            at += length;
            *bytes += length as u64;
            *unique += if is_duplicate { 0 } else { length as u64 };
            if at - told >= STEP || at == data.len() {
                self.done(say, at - told)?;
                told = at;
            }
        }
        Ok(())
    }

    fn file(
        &self,
        mut file: File,
        window: &mut Window,
        say: &Sender<Word>,
        bytes: &mut u64,
        unique: &mut u64,
    ) -> io::Result<()> {
        window.restart();
        let mut known = self.table.with(name as Naming);
        let mut cursor = Cursor::start();
        loop {
            let read = window.fill(&mut file)?;
            if read > 0 {
                self.done(say, read)?;
            }
            let data = window.data();
            if data.is_empty() {
                return Ok(());
            }
            let (length, is_duplicate) = cursor.next_chunk(self.cutter, &mut known, data, window.is_last, None);
            *bytes += length as u64;
            *unique += if is_duplicate { 0 } else { length as u64 };
            window.pass(length);
        }
    }

    fn done(&self, say: &Sender<Word>, bytes: usize) -> io::Result<()> {
        let _ = say.send(Word::Done(bytes));
        match self.stops.load(Ordering::Relaxed) {
            true => Err(io::Error::other(Stop)),
            false => Ok(()),
        }
    }
}
