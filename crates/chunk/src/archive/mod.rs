//! Where do the members of an archive begin and end?
//!
//! Archives put a header before each member, and what a header says often changes where the member
//! does not: times, owners, the number of links. A chunk with a header in it is then a new one. So
//! large members are cut off from what is around them.

mod cpio;
mod tar;

use alloc::collections::VecDeque;

use crate::Chunker;

/// Cuts data by its content, and if it is an archive also where its large members begin and end.
///
/// An archive is known by its first header: tar (any kind, by the checksum) or cpio (the "new"
/// ASCII formats). Names do not matter, and what only looks like an archive, or a damaged one, is
/// cut like any data, perhaps with a few cuts more. Small members stay together with the
/// headers around them: a chunk each would cost more than it saves.
///
/// Cuts depend on the bytes alone, not on how they arrive. Unlike those of a [`Chunker`], they
/// depend on bytes before the chunk, since headers lead to one another.
///
/// ```
/// use ibid_chunk::{ArchiveCutter, Chunker, Settings};
///
/// let chunker = Chunker::new(&Settings::for_average("argmin", 8192)?)?;
/// let data = [7; 100_000]; // no archive
/// let mut cutter = ArchiveCutter::new(&chunker);
/// let mut at = 0;
/// while let Some(len) = cutter.cut(&data[at..], true) {
///     assert_eq!(len, chunker.cut(&data[at..]));
///     at += len;
/// }
/// assert_eq!(at, data.len());
/// # Ok::<(), ibid_chunk::SettingsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ArchiveCutter<'c> {
    chunker: &'c Chunker,
    members: Members,
    /// Where the next chunk starts.
    at: u64,
}

impl<'c> ArchiveCutter<'c> {
    /// Bytes from which on a member is large: 32 KiB.
    ///
    /// Repositories of twelve source trees as tar files in which all times differ, chunks of 64
    /// KiB, MB: without regard to members 124.9; if those of 64, 32 or 16 KiB and more are cut
    /// off, 113.0, 99.5, 84.4. But a chunk takes some 150 bytes of metadata, and where similar
    /// chunks are stored as deltas, little else is saved: 27.8 without regard to members, then
    /// 25.8, 25.7, 27.0. PostgreSQL's data directories as tar files, whose pages change where their
    /// headers don't: 97.6, 97.1, 96.6 without deltas, and 56.2, 56.8, 57.1 with them.
    pub const LARGE: u64 = 32 << 10;

    /// A cutter at the start of some data.
    #[must_use]
    pub fn new(chunker: &'c Chunker) -> ArchiveCutter<'c> {
        ArchiveCutter::with_large(chunker, ArchiveCutter::LARGE)
    }

    /// The same with another least size of large members, bytes.
    #[must_use]
    pub fn with_large(chunker: &'c Chunker, large: u64) -> ArchiveCutter<'c> {
        ArchiveCutter {
            chunker,
            members: Members::new(large),
            at: 0,
        }
    }

    /// The length of the next chunk; `None` if that can't be said before more of the data is there,
    /// or if there is none left.
    ///
    /// `data` starts where the last chunk ended and holds at least what it held in the calls
    /// before. With `last` it holds all that is left, and the answer is a length as long as it is
    /// not empty; so it is if `data` is as long as the longest chunk ([`Chunker::size_max`]).
    /// The length is 1 to that.
    pub fn cut(&mut self, data: &[u8], last: bool) -> Option<usize> {
        self.see(data);
        let border = self.members.border_after(self.at).map(|border| border - self.at);
        let (stretch, ends) = match border {
            Some(border) if border <= data.len() as u64 => (&data[..border as usize], true),
            _ => (data, last),
        };
        let len = self.chunker.cut(stretch);
        // A cut before the end of what is there is final; one at the end is so only if nothing follows or
        // the chunk is full.
        if len == 0 || len == stretch.len() && !ends && len < self.chunker.size_max() {
            return None;
        }
        self.at += len as u64;
        Some(len)
    }

    /// Whether a chunk that starts `from` bytes on in `data` could end after `len` more, as far as
    /// that place can tell: where a large member begins or ends and none does before, or where
    /// [`Chunker::fits_at`] holds; anywhere between the minimum and the maximum for algorithms
    /// that can't tell ([`Settings::tests_places`](crate::Settings::tests_places)).
    ///
    /// `data` is as in [`ArchiveCutter::cut`]. What is known to be there already can be taken in
    /// one with [`ArchiveCutter::advance`] instead of being cut.
    pub fn could_end(&mut self, data: &[u8], from: usize, len: usize) -> bool {
        self.see(data);
        let Some(chunk) = data.get(from..).filter(|rest| (1..=rest.len()).contains(&len)) else {
            return false;
        };
        let start = self.at + from as u64;
        let border = self.members.borders.iter().find(|border| **border > start);
        let to_border = border.map_or(u64::MAX, |border| border - start);
        let settings = self.chunker.settings();
        let fits = || match settings.tests_places() {
            true => self.chunker.fits_at(chunk, len),
            false => (settings.size_min()..=settings.size_max()).contains(&len),
        };
        len as u64 == to_border || (len as u64) < to_border && fits()
    }

    /// Goes on behind a chunk of so many bytes that was not cut off by it: where it could end, and
    /// at most as long as the longest chunk.
    pub fn advance(&mut self, len: usize) {
        self.at += len as u64;
    }

    /// Follows the headers in what is new of `data`.
    fn see(&mut self, data: &[u8]) {
        let known = usize::try_from(self.members.seen - self.at).unwrap_or(usize::MAX);
        self.members.see(data.get(known..).unwrap_or_default());
    }

    /// Goes on behind a hole of so many bytes: zeros that are not given to it.
    ///
    /// All data before the hole must have been cut.
    pub fn skip(&mut self, hole: u64) {
        self.at = self.at.saturating_add(hole);
        self.members.skip_to(self.at);
    }
}

/// The most bytes of a header that are looked at.
const HEADER: usize = tar::BLOCK;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Not known yet.
    Unknown,
    /// Tar, or no archive at all.
    NotCpio,
    Tar,
    Cpio,
    /// No archive, or no longer one.
    Other,
}

/// What a header says. Offsets are from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    /// Where the body starts.
    body: u64,
    /// Bytes of the body.
    size: u64,
    /// Where the next header is expected.
    next: u64,
}

/// Follows the headers of an archive.
#[derive(Clone, Debug)]
struct Members {
    format: Format,
    large: u64,
    /// Bytes seen so far.
    seen: u64,
    /// Where a header is expected.
    header: u64,
    /// The first bytes of it, if they came without the rest.
    held: [u8; HEADER],
    held_len: usize,
    /// Where large members begin and end, ascending.
    borders: VecDeque<u64>,
}

impl Members {
    fn new(large: u64) -> Members {
        Members {
            format: Format::Unknown,
            large,
            seen: 0,
            header: 0,
            held: [0; HEADER],
            held_len: 0,
            borders: VecDeque::new(),
        }
    }

    /// Takes the next bytes into account.
    fn see(&mut self, bytes: &[u8]) {
        let start = self.seen;
        self.seen = start.saturating_add(bytes.len() as u64);
        while self.format != Format::Other {
            // Where the header goes on in these bytes.
            let from = (self.header + self.held_len as u64).saturating_sub(start);
            let Some(rest) = usize::try_from(from).ok().and_then(|from| bytes.get(from..)) else {
                return;
            };
            let missing = self.header_len() - self.held_len;
            if rest.len() < missing {
                self.held[self.held_len..][..rest.len()].copy_from_slice(rest);
                self.held_len += rest.len();
                return;
            }
            let mut header = self.held;
            header[self.held_len..][..missing].copy_from_slice(&rest[..missing]);
            self.held_len = 0;
            self.look(&header);
        }
    }

    /// Bytes of a header that must be there.
    fn header_len(&self) -> usize {
        match self.format {
            // As few as possible: the next header may come soon.
            Format::Unknown | Format::Cpio => cpio::HEADER,
            Format::NotCpio | Format::Tar | Format::Other => tar::BLOCK,
        }
    }

    /// Looks at what may be a header, and goes on to the next.
    fn look(&mut self, header: &[u8; HEADER]) {
        let found = match self.format {
            Format::Unknown | Format::Cpio => cpio::member(header).map(|member| (Format::Cpio, member)),
            Format::NotCpio => tar::member(header).map(|member| (Format::Tar, member)),
            // Padding, a list of holes, or damage: headers are at multiples of a block, and may well go on.
            Format::Tar => Some((Format::Tar, tar::member(header).unwrap_or(tar::NONE))),
            Format::Other => None,
        };
        match found {
            Some((format, member)) => {
                self.format = format;
                if member.size >= self.large {
                    let body = self.header.saturating_add(member.body);
                    self.borders.extend([body, body.saturating_add(member.size)]);
                }
                self.header = self.header.saturating_add(member.next);
            }
            None if self.format == Format::Unknown => {
                self.format = Format::NotCpio;
                (self.held, self.held_len) = (*header, cpio::HEADER);
            }
            None => self.format = Format::Other,
        }
    }

    /// The first border behind `at`, as far as is known; earlier ones are forgotten.
    fn border_after(&mut self, at: u64) -> Option<u64> {
        while self.borders.front().is_some_and(|&border| border <= at) {
            self.borders.pop_front();
        }
        self.borders.front().copied()
    }

    /// Takes zeros into account up to `at`.
    fn skip_to(&mut self, at: u64) {
        self.seen = at;
        if self.header >= at {
            return;
        }
        self.held_len = 0;
        match self.format {
            // Blocks of zeros are no headers.
            Format::Tar => self.header = at.checked_next_multiple_of(tar::BLOCK as u64).unwrap_or(u64::MAX),
            _ => self.format = Format::Other,
        }
    }
}
