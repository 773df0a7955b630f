//! A complete deduplication: read, cut, name, look up, and write new chunks (RapidCDC, figure 17).

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use ibid_chunk::locality::{Criterion, HintedChunker, Table};
use ibid_chunk::{Chunker, FixedSettings, Settings};

use super::LocalityPlan;
use super::contender::name;
use super::cutting::{Cursor, Cutter};
use super::source::{Source, Window};
use crate::clock::ProcessClock;
use crate::error::Stop;
use crate::{Error, Observer, Result, preferred_chunker};

/// A way to find boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMethod {
    /// Every chunk has the average size.
    Fixed,
    /// With the chunker.
    Plain,
    /// With the chunker and hints.
    Hinted(Criterion),
    /// With the chunker's boundaries, computed before the measurement.
    Ideal,
}

impl StoreMethod {
    /// Returns a word for the method; for a criterion, its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StoreMethod::Fixed => "fixed",
            StoreMethod::Plain => "plain",
            StoreMethod::Hinted(criterion) => criterion.name(),
            StoreMethod::Ideal => "ideal",
        }
    }
}

/// The result of one method.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreEntry {
    /// The method.
    pub method: StoreMethod,
    /// Seconds from the first read to the last byte written and synced, without the time to make a
    /// series.
    pub seconds: f64,
    /// Processor seconds in this time. The rest was spent waiting for the disk or for other
    /// processes.
    pub cpu_seconds: f64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes written.
    pub stored: u64,
}

impl StoreEntry {
    /// Returns the speed, bytes a second.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(super::MOMENT)
    }

    /// Returns the bytes read divided by the bytes written.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.bytes as f64 / self.stored.max(1) as f64
    }
}

/// Returns the number of passes over the data: one for each method, and one more to compute the
/// ideal boundaries.
pub(super) fn passes(criteria: usize) -> usize {
    criteria + 4
}

/// Stores the data with every method in turn.
pub(super) fn run(
    plan: &LocalityPlan,
    chunker: &Chunker,
    source: &Source,
    folder: &Path,
    observer: &mut impl Observer,
) -> Result<Vec<StoreEntry>> {
    let mut entries = Vec::new();
    let fixed = preferred_chunker(&Settings::Fixed(FixedSettings {
        size: chunker.settings().size_average(),
    }))?;
    let mut store = |method, cutter: Cutter<'_>, settings: &Settings, lengths: &[Vec<u32>], observer: &mut _| {
        let store = Store {
            cutter,
            lengths,
            table: Table::new(settings, plan.list(), source.chunks_most(settings)),
            window: Window::new(settings.size_max()),
            out: create(folder)?,
            stored: 0,
            seconds: 0.0,
            cpu_seconds: 0.0,
        };
        entries.push(store.run(method, source, folder, observer)?);
        Ok::<_, Error>(())
    };
    let settings = chunker.settings();
    store(
        StoreMethod::Fixed,
        Cutter::Plain(&fixed),
        fixed.settings(),
        &[],
        observer,
    )?;
    store(StoreMethod::Plain, Cutter::Plain(chunker), settings, &[], observer)?;
    for criterion in plan.criteria_for(settings) {
        if let Ok(hinted) = HintedChunker::new(chunker, criterion) {
            let method = StoreMethod::Hinted(criterion);
            store(method, Cutter::Hinted(hinted), settings, &[], observer)?;
        }
    }
    let lengths = lengths(chunker, source, observer)?;
    store(StoreMethod::Ideal, Cutter::Plain(chunker), settings, &lengths, observer)?;
    Ok(entries)
}

/// Creates a file that no other process can open: its name is removed at once, so that nothing of
/// it is left however the process ends.
pub(super) fn create(folder: &Path) -> Result<BufWriter<File>> {
    let path = folder.join(format!(".ibid-bench-{}", std::process::id()));
    let mut options = File::options();
    let file = options.write(true).create_new(true).open(&path);
    let file = file.map_err(Error::file("write into", folder))?;
    std::fs::remove_file(&path).map_err(Error::file("remove", &path))?;
    Ok(BufWriter::with_capacity(1 << 20, file))
}

/// Returns the lengths of the chunks of every file.
fn lengths<O: Observer>(chunker: &Chunker, source: &Source, observer: &mut O) -> Result<Vec<Vec<u32>>> {
    let mut all: Vec<Vec<u32>> = Vec::new();
    let mut window = Window::new(chunker.size_max());
    source.for_each_file(observer, |number, reader, observer| {
        window.restart();
        all.resize(number + 1, Vec::new());
        loop {
            advance(observer, window.fill(reader)?)?;
            if window.data().is_empty() {
                return Ok(());
            }
            let length = chunker.cut(window.data());
            all[number].push(length as u32);
            window.pass(length);
        }
    })?;
    Ok(all)
}

fn advance(observer: &mut impl Observer, bytes: usize) -> io::Result<()> {
    match bytes == 0 || observer.advance(bytes as u64) {
        true => Ok(()),
        false => Err(io::Error::other(Stop)),
    }
}

struct Store<'a> {
    cutter: Cutter<'a>,
    /// The lengths of the chunks of every file, if they are known beforehand.
    lengths: &'a [Vec<u32>],
    table: Table,
    window: Window,
    out: BufWriter<File>,
    stored: u64,
    seconds: f64,
    cpu_seconds: f64,
}

impl Store<'_> {
    fn run(
        mut self,
        method: StoreMethod,
        source: &Source,
        folder: &Path,
        observer: &mut impl Observer,
    ) -> Result<StoreEntry> {
        let mut failed = None;
        let read = source.for_each_file(observer, |number, reader, observer| {
            let clock = ProcessClock::start();
            let done = self.file(number, reader, observer, &mut failed);
            self.took(&clock);
            done
        });
        if let Some(error) = failed {
            return Err(Error::file("write into", folder)(error));
        }
        let read = read?;
        let clock = ProcessClock::start();
        let synced = self.out.flush().and_then(|()| self.out.get_ref().sync_all());
        synced.map_err(Error::file("write into", folder))?;
        self.took(&clock);
        Ok(StoreEntry {
            method,
            seconds: self.seconds,
            cpu_seconds: self.cpu_seconds,
            bytes: read.bytes,
            stored: self.stored,
        })
    }

    fn took(&mut self, clock: &ProcessClock) {
        let (wall, cpu) = clock.seconds();
        self.seconds += wall;
        self.cpu_seconds += cpu;
    }

    /// An error of writing is put into `failed`, so that it is not taken for an error of the input
    /// file.
    fn file(
        &mut self,
        number: usize,
        reader: &mut dyn Read,
        observer: &mut impl Observer,
        failed: &mut Option<io::Error>,
    ) -> io::Result<()> {
        self.window.restart();
        let mut lengths = self.lengths.get(number).into_iter().flatten();
        let mut cursor = Cursor::start();
        let mut known = self.table.with(name as super::contender::Naming);
        loop {
            advance(observer, self.window.fill(reader)?)?;
            let data = self.window.data();
            if data.is_empty() {
                return Ok(());
            }
            let length = lengths.next().map(|length| *length as usize);
            let (length, is_duplicate) = cursor.next_chunk(&self.cutter, &mut known, data, self.window.is_last, length);
            if !is_duplicate {
                if let Err(error) = self.out.write_all(&data[..length]) {
                    *failed = Some(error);
                    return Err(io::Error::other(Stop));
                }
                self.stored += length as u64;
            }
            self.window.pass(length);
        }
    }
}
