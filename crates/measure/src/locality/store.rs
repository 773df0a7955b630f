//! All of a deduplication: read, cut, name, look up, and write what is new (paper 003, figure 17).

use super::LocalityData;
use super::lane::name;
use super::source::for_each_file;
use crate::{Error, Observer, Result};
use ibid_chunk::locality::{Criterion, HintedChunker, Known, Table, Tally, Trail};
use ibid_chunk::{Chunker, FixedSettings, Settings};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::PathBuf;
use std::time::Instant;

/// Read at once.
const PIECE: usize = 4 << 20;

/// How boundaries are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMethod {
    /// All chunks of the average size.
    Fixed,
    /// By the chunker.
    Plain,
    /// By the chunker and hints.
    Hinted(Criterion),
    /// Not at all: those of the chunker are known beforehand.
    Ideal,
}

/// What to compare.
#[derive(Clone, Debug)]
pub struct StorePlan {
    /// What is stored.
    pub data: LocalityData,
    /// By which chunker.
    pub chunker: Settings,
    /// In which ways.
    pub methods: Vec<StoreMethod>,
    /// Hints of a chunk.
    pub list: usize,
    /// Where a file is written and removed again, once for every method.
    pub folder: PathBuf,
    /// The most different chunks that are remembered.
    pub chunks_most: usize,
}

/// What one method came to.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreEntry {
    /// Which.
    pub method: StoreMethod,
    /// Seconds from the first byte read to the last byte written and synced. Making a series takes none.
    pub seconds: f64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes written.
    pub stored: u64,
}

/// Stores the data in every way, one after the other.
///
/// # Errors
/// When the data can't be read, the file can't be written, settings can't be, a criterion is asked of a chunker that can't meet it, or the observer asks to stop.
pub fn locality_store(plan: &StorePlan, observer: &mut impl Observer) -> Result<Vec<StoreEntry>> {
    plan.methods
        .iter()
        .map(|method| store(plan, *method, observer))
        .collect()
}

fn store(plan: &StorePlan, method: StoreMethod, observer: &mut impl Observer) -> Result<StoreEntry> {
    let settings = match method {
        StoreMethod::Fixed => Settings::Fixed(FixedSettings {
            size: plan.chunker.size_average(),
        }),
        _ => plan.chunker.clone(),
    };
    let chunker = Chunker::new(&settings)?;
    let hinted = match method {
        StoreMethod::Hinted(criterion) => {
            Some(
                HintedChunker::new(&chunker, criterion).map_err(|error| Error::OutOfRange {
                    what: "criterion",
                    expected: "one that the chunker can meet".into(),
                    found: error.to_string(),
                })?,
            )
        }
        _ => None,
    };
    let mut ends = Vec::new();
    if method == StoreMethod::Ideal {
        for_each_file(&plan.data, observer, |reader, _| {
            let mut stream = ibid_chunk::Stream::new(&chunker, reader);
            let mut bytes = 0;
            while let Some(chunk) = stream.next_chunk()? {
                ends.push(chunk.len() as u32);
                bytes += chunk.len() as u64;
            }
            Ok(bytes)
        })?;
    }
    let path = plan.folder.join(format!("ibid-store-{}", std::process::id()));
    let failed = |action| Error::file(action, &path);
    let file = File::options()
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(failed("write"))?;
    let mut store = Store {
        chunker: &chunker,
        hinted,
        ends: (method == StoreMethod::Ideal).then(|| ends.into_iter()),
        table: Table::new(&settings, plan.list, plan.chunks_most),
        out: BufWriter::with_capacity(1 << 20, file),
        stored: 0,
        seconds: 0.0,
    };
    let result = for_each_file(&plan.data, observer, |reader, observer| store.file(reader, observer));
    let clock = Instant::now();
    let synced = store.out.flush().and_then(|()| store.out.get_ref().sync_all());
    store.seconds += clock.elapsed().as_secs_f64();
    std::fs::remove_file(&path).map_err(failed("remove"))?;
    let total = result?;
    synced.map_err(failed("write"))?;
    Ok(StoreEntry {
        method,
        seconds: store.seconds,
        bytes: total.bytes,
        stored: store.stored,
    })
}

struct Store<'a> {
    chunker: &'a Chunker,
    hinted: Option<HintedChunker<'a>>,
    /// Lengths that are known beforehand.
    ends: Option<std::vec::IntoIter<u32>>,
    table: Table,
    out: BufWriter<File>,
    stored: u64,
    seconds: f64,
}

impl Store<'_> {
    fn file<O: Observer>(&mut self, reader: &mut dyn Read, observer: &mut O) -> std::io::Result<u64> {
        let clock = Instant::now();
        let most = self.chunker.size_max();
        let mut buffer = vec![0; PIECE + most + 1];
        let (mut start, mut end, mut last, mut total) = (0, 0, false, 0);
        let mut trail = Trail::start();
        let mut before = None;
        loop {
            if !last && end - start <= most {
                buffer.copy_within(start..end, 0);
                (start, end) = (0, end - start);
                while end < buffer.len() && !last {
                    match reader.read(&mut buffer[end..])? {
                        0 => last = true,
                        read => {
                            end += read;
                            total += read as u64;
                            if !observer.advance(read as u64) {
                                return Err(std::io::Error::other(crate::error::Stop));
                            }
                        }
                    }
                }
            }
            if start == end {
                self.seconds += clock.elapsed().as_secs_f64();
                return Ok(total);
            }
            let data = &buffer[start..end];
            let mut known = self.table.with(name);
            let (length, is_duplicate) = match (&self.hinted, &mut self.ends) {
                (Some(hinted), _) => {
                    let chunk = hinted.next_chunk(&mut known, &mut trail, data, last, &mut Tally::default());
                    (chunk.bytes.len(), chunk.is_duplicate)
                }
                (None, ends) => {
                    let known_length = ends.as_mut().and_then(Iterator::next);
                    let length = known_length.map_or_else(|| self.chunker.cut(data), |length| length as usize);
                    let fingerprint = known.fingerprint(&data[..length]);
                    let found = known.enter(fingerprint, before, false);
                    before = found.entry;
                    (length, found.is_duplicate)
                }
            };
            if !is_duplicate {
                self.out.write_all(&data[..length])?;
                self.stored += length as u64;
            }
            start += length;
        }
    }
}
