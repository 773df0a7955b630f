//! A file and its later versions, each with edits of the one before: the synthetic series of
//! RapidCDC §4.2.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::Stop;
use crate::{Error, Observer, Random, Result};

/// The most versions of a series.
pub const VERSIONS_MOST: u32 = 100_000;
/// The most edits between two versions; while one is written, each takes 16 bytes of memory.
pub const EDITS_MOST: u64 = 10_000_000;

/// Bytes that are read, generated and written at once.
const PIECE: usize = 256 << 10;

/// The settings of a series of versions. The same values give the same bytes, on every machine and
/// in every release.
///
/// The first version is random bytes. Each later one is the version before with
/// [`edits`](Series::edits) edits, each of a random kind at a random place, applied in the order of
/// their places. An edit whose place was deleted or overwritten by an earlier edit is applied right
/// after that edit. At the end of the file, nothing more can be deleted or overwritten.
///
/// RapidCDC uses 10 versions of 500 MB with 1000 to 20000 edits of 100 bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Bytes of the first version.
    pub size: u64,
    /// The number of versions including the first, 1 to [`VERSIONS_MOST`].
    pub versions: u32,
    /// Edits between a version and the next, at most [`EDITS_MOST`].
    pub edits: u64,
    /// Bytes that each edit inserts, deletes or overwrites.
    pub edit_bytes: u64,
    /// The kinds of edits, each equally likely; a kind that is listed twice is twice as likely. At
    /// least one, if there are edits.
    pub kinds: Vec<EditKind>,
    /// The share of a file, from its start, in which edits are made: above 0, at most 1.
    pub spread: f64,
    /// The seed of bytes and places.
    pub seed: u64,
}

impl Default for Series {
    /// 10 versions of 200 MB, 1000 edits of 100 bytes of all kinds, in the whole file.
    fn default() -> Series {
        Series {
            size: 200_000_000,
            versions: 10,
            edits: 1000,
            edit_bytes: 100,
            kinds: vec![EditKind::Insert, EditKind::Delete, EditKind::Overwrite],
            spread: 1.0,
            seed: 1,
        }
    }
}

/// A kind of edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EditKind {
    /// Inserts random bytes.
    Insert,
    /// Deletes bytes.
    Delete,
    /// Replaces bytes by random ones.
    Overwrite,
}

/// The number of edits of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditCounts {
    /// Insertions.
    pub inserts: u64,
    /// Deletions.
    pub deletes: u64,
    /// Overwrites.
    pub overwrites: u64,
}

/// A version that was written to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The path of its file.
    pub path: PathBuf,
    /// Its length, bytes.
    pub bytes: u64,
    /// The edits of the version before.
    pub edits: EditCounts,
    /// BLAKE3 of its bytes.
    pub blake3: [u8; 32],
}

impl Series {
    /// Checks every limit that the fields state.
    ///
    /// # Errors
    /// The first limit that does not hold.
    pub fn validate(&self) -> Result<()> {
        let in_range = |what, holds: bool, expected: String, found: &dyn ToString| match holds {
            true => Ok(()),
            false => Err(Error::OutOfRange {
                what,
                expected,
                found: found.to_string(),
            }),
        };
        let versions = (1..=VERSIONS_MOST).contains(&self.versions);
        in_range("versions", versions, format!("1 to {VERSIONS_MOST}"), &self.versions)?;
        let edits = self.edits <= EDITS_MOST;
        in_range("edits", edits, format!("at most {EDITS_MOST}"), &self.edits)?;
        let spread = self.spread > 0.0 && self.spread <= 1.0;
        in_range("spread", spread, "more than 0, at most 1".into(), &self.spread)?;
        let kinds = self.edits == 0 || !self.kinds.is_empty();
        in_range("kinds of edits", kinds, "at least one".into(), &"none")?;
        // The most bytes that all edits together can insert.
        let growth = u128::from(self.edits) * u128::from(self.edit_bytes) * u128::from(self.versions);
        let fits = growth + u128::from(self.size) < 1 << 62;
        in_range("bytes of a version", fits, "below 2^62".into(), &"more")
    }

    /// Returns the expected bytes of all versions: edits of each kind occur as often as they are
    /// likely.
    #[must_use]
    pub fn bytes_expected(&self) -> u64 {
        let count = |kind| self.kinds.iter().filter(|found| **found == kind).count() as f64;
        let grows = (count(EditKind::Insert) - count(EditKind::Delete)) / self.kinds.len().max(1) as f64;
        let by_version = grows * self.edits as f64 * self.edit_bytes as f64;
        let versions = f64::from(self.versions);
        // A version has at least 0 bytes.
        let all = versions * self.size as f64 + by_version * versions * (versions - 1.0) / 2.0;
        all.max(self.size as f64) as u64
    }

    /// Writes the first version.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn first(&self, mut out: impl Write) -> io::Result<()> {
        Noise::new(Random::stream(self.seed, 0)).write(self.size, &mut out)
    }

    /// Writes version `n` (the first is 1) from the version before, which has `length` bytes.
    ///
    /// Takes little memory: 16 bytes for each edit, and two buffers.
    ///
    /// # Errors
    /// The errors of `previous` and of `out`.
    pub fn next(&self, n: u32, previous: impl Read, length: u64, mut out: impl Write) -> io::Result<EditCounts> {
        let mut source = Random::stream(self.seed, 2 * u64::from(n));
        let mut noise = Noise::new(Random::stream(self.seed, 2 * u64::from(n) + 1));
        let mut previous = BufReader::with_capacity(PIECE, previous);
        let mut counts = EditCounts::default();
        let mut at = 0;
        for (place, kind) in self.places(&mut source, length) {
            at += pass(&mut previous, place.saturating_sub(at), |bytes| out.write_all(bytes))?;
            match kind {
                EditKind::Insert => {
                    counts.inserts += 1;
                    noise.write(self.edit_bytes, &mut out)?;
                }
                EditKind::Delete => {
                    counts.deletes += 1;
                    at += pass(&mut previous, self.edit_bytes, |_| Ok(()))?;
                }
                EditKind::Overwrite => {
                    counts.overwrites += 1;
                    let gone = pass(&mut previous, self.edit_bytes, |_| Ok(()))?;
                    noise.write(gone, &mut out)?;
                    at += gone;
                }
            }
        }
        pass(&mut previous, u64::MAX, |bytes| out.write_all(bytes))?;
        Ok(counts)
    }

    /// Returns all versions, in memory.
    pub(crate) fn in_memory(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut all: Vec<Vec<u8>> = Vec::new();
        for n in 1..=self.versions {
            let mut version = Vec::new();
            match all.last() {
                None => self.first(&mut version)?,
                Some(previous) => {
                    self.next(n, &previous[..], previous.len() as u64, &mut version)?;
                }
            }
            all.push(version);
        }
        Ok(all)
    }

    /// Returns the places and kinds of the edits, in order.
    fn places(&self, source: &mut Random, length: u64) -> Vec<(u64, EditKind)> {
        let reach = (self.spread * length as f64) as u64;
        let mut draw = |_| {
            let place = source.below(reach);
            let kind = source.below(self.kinds.len() as u64);
            (place, self.kinds[kind as usize])
        };
        let edits = if self.kinds.is_empty() { 0 } else { self.edits };
        let mut places: Vec<_> = (0..edits).map(&mut draw).collect();
        // A stable sort keeps edits at one place in the order in which they were drawn.
        places.sort_by_key(|(place, _)| *place);
        places
    }

    /// Returns the file name of version `n` (the first is 1), so that names sort as versions do:
    /// `v01.bin`.
    #[must_use]
    pub fn file_name(&self, n: u32) -> String {
        let digits = self.versions.to_string().len().max(2);
        format!("v{n:0digits$}.bin")
    }

    /// Writes all versions into a folder, which is made if there is none. Existing files are never
    /// overwritten.
    ///
    /// The series does not pass [`Series::validate`], a version's file exists or can't be written,
    /// or the observer asks to stop. The complete versions stay, the incomplete one is removed.
    pub fn write_into(&self, folder: &Path, observer: &mut impl Observer) -> Result<Vec<Version>> {
        self.validate()?;
        std::fs::create_dir_all(folder).map_err(Error::file("make the folder", folder))?;
        let path = |n| folder.join(self.file_name(n));
        // Checked before anything is written, rather than after hours of work.
        if let Some(found) = (1..=self.versions)
            .map(path)
            .find(|path| path.symlink_metadata().is_ok())
        {
            return Err(Error::file("write", &found)(io::ErrorKind::AlreadyExists.into()));
        }
        observer.expect(self.bytes_expected());
        let mut written: Vec<Version> = Vec::new();
        for n in 1..=self.versions {
            let version = self.write_version(n, path(n), written.last(), observer)?;
            written.push(version);
        }
        Ok(written)
    }

    fn write_version(
        &self,
        n: u32,
        path: PathBuf,
        previous: Option<&Version>,
        observer: &mut impl Observer,
    ) -> Result<Version> {
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let mut out = Watched {
            file: file.map_err(Error::file("write", &path))?,
            hasher: blake3::Hasher::new(),
            observer,
        };
        let result = match previous {
            None => self
                .first(&mut out)
                .map(|()| EditCounts::default())
                .map_err(Error::file("write", &path)),
            Some(previous) => File::open(&previous.path)
                .map_err(Error::file("read", &previous.path))
                .and_then(|file| {
                    let counts = self.next(n, file, previous.bytes, &mut out);
                    counts.map_err(Error::file("write", &path))
                }),
        };
        match result {
            Ok(edits) => Ok(Version {
                bytes: out.hasher.count(),
                blake3: *out.hasher.finalize().as_bytes(),
                path,
                edits,
            }),
            Err(error) => {
                // The first error is reported; a second about the incomplete file would add
                // nothing.
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }
}

/// Calls `take` with the next `length` bytes, or with all that are left. Returns how many there
/// were.
fn pass(from: &mut impl BufRead, length: u64, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<u64> {
    let mut left = length;
    while left > 0 {
        let bytes = match from.fill_buf() {
            Ok([]) => break,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        take(bytes)?;
        let done = bytes.len();
        from.consume(done);
        left -= done as u64;
    }
    Ok(length - left)
}

/// Random bytes, written piece by piece.
struct Noise {
    source: Random,
    buffer: Vec<u8>,
}

impl Noise {
    fn new(source: Random) -> Noise {
        let buffer = vec![0; PIECE];
        Noise { source, buffer }
    }

    fn write(&mut self, length: u64, out: &mut impl Write) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            let piece = left.min(PIECE as u64) as usize;
            self.source.fill(&mut self.buffer[..piece]);
            out.write_all(&self.buffer[..piece])?;
            left -= piece as u64;
        }
        Ok(())
    }
}

/// A file, hashed as it is written, with an observer.
struct Watched<'a, O> {
    file: File,
    hasher: blake3::Hasher,
    observer: &'a mut O,
}

impl<O: Observer> Write for Watched<'_, O> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        match self.observer.advance(written as u64) {
            true => Ok(written),
            false => Err(io::Error::other(Stop)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
