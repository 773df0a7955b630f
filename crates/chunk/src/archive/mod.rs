//! Cuts archives where their large members begin and end.
//!
//! Archives put a header before each member. A header often changes although its member does not:
//! times, owners, the number of links. Each chunk that holds such a header is then new. So large
//! members get chunks without headers.

mod cpio;
mod tar;

use alloc::collections::VecDeque;

use crate::Chunker;

/// Cuts data by its content, and archives also where their large members begin and end.
///
/// The first header identifies an archive: tar (any kind, by the checksum) or cpio (the "new" ASCII
/// formats). File names do not matter. A damaged archive, or data that only looks like one, is cut
/// like any data, perhaps with a few extra cuts. Small members stay together with the headers
/// around them: separate chunks would cost more than they save.
///
/// Cuts depend on the bytes alone, not on how they arrive. Unlike the cuts of a [`Chunker`], they
/// depend on bytes before the chunk, since each header gives the place of the next.
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
    /// Least size of a large member: 32 KiB.
    ///
    /// Measured on twelve source trees as tar files in which all times differ, in chunks of 64 KiB:
    /// the repository takes 124.9 MB if members are ignored, and 113.0, 99.5 or 84.4 MB if members
    /// from 64, 32 or 16 KiB on are cut off. But a chunk takes some 150 bytes of metadata, and with
    /// deltas between similar chunks the gain is smaller: 27.8 MB if members are ignored, then
    /// 25.8, 25.7, 27.0. PostgreSQL's data directories as tar files, in which pages change but
    /// headers do not: 97.6, 97.1, 96.6 MB without deltas, and 56.2, 56.8, 57.1 MB with them.
    pub const LARGE: u64 = 32 << 10;

    /// Returns a cutter at the start of some data.
    #[must_use]
    pub fn new(chunker: &'c Chunker) -> ArchiveCutter<'c> {
        ArchiveCutter::with_large(chunker, ArchiveCutter::LARGE)
    }

    /// Returns a cutter to which members of at least `large` bytes are large.
    #[must_use]
    pub fn with_large(chunker: &'c Chunker, large: u64) -> ArchiveCutter<'c> {
        ArchiveCutter {
            chunker,
            members: Members::new(large),
            at: 0,
        }
    }

    /// Returns the length of the next chunk, or `None` if that needs more data or if no data is
    /// left.
    ///
    /// `data` starts where the last chunk ended and holds at least the bytes of the calls before.
    /// `last` says that it holds all the remaining data. The answer is a length if `data` is as
    /// long as the longest chunk ([`Chunker::size_max`]), or if `last` holds and `data` is not
    /// empty. The length is 1 to [`Chunker::size_max`].
    pub fn cut(&mut self, data: &[u8], last: bool) -> Option<usize> {
        self.see(data);
        let border = self.members.border_after(self.at).map(|border| border - self.at);
        let (stretch, ends) = match border {
            Some(border) if border <= data.len() as u64 => (&data[..border as usize], true),
            _ => (data, last),
        };
        let len = self.chunker.cut(stretch);
        // A cut before the end of the stretch is final. A cut at its end is final only if a border
        // is there, no data follows, or the chunk is full.
        if len == 0 || len == stretch.len() && !ends && len < self.chunker.size_max() {
            return None;
        }
        self.at += len as u64;
        Some(len)
    }

    /// Whether a chunk that starts at `data[from..]` could end after `len` bytes, judging by that
    /// place alone. It could where the first border of a large member is, and before it where
    /// [`Chunker::fits_at`] holds. For algorithms that cannot test a place
    /// ([`Settings::tests_places`](crate::Settings::tests_places)), any length between the minimum
    /// and the maximum will do.
    ///
    /// `data` is as in [`ArchiveCutter::cut`]. Use this to accept a known chunk as a whole with
    /// [`ArchiveCutter::advance`] instead of cutting it.
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

    /// Advances past a chunk of `len` bytes that the caller cut: one that could end there
    /// ([`ArchiveCutter::could_end`]) and is at most as long as the longest chunk.
    pub fn advance(&mut self, len: usize) {
        self.at += len as u64;
    }

    /// Follows the headers in the part of `data` that is new.
    fn see(&mut self, data: &[u8]) {
        let known = usize::try_from(self.members.seen - self.at).unwrap_or(usize::MAX);
        self.members.see(data.get(known..).unwrap_or_default());
    }

    /// Advances past so many bytes that the caller does not pass to [`ArchiveCutter::cut`]: a hole,
    /// or data whose chunks are known. Headers in them are not seen.
    ///
    /// All data before them must have been cut. Bytes that were passed and not cut are forgotten.
    pub fn skip(&mut self, hole: u64) {
        self.at = self.at.saturating_add(hole);
        self.members.skip_to(self.at);
    }
}

/// Length of the longest header, bytes.
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

/// A parsed header. Offsets are from its start.
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
    /// The first bytes of that header, if the rest has not arrived.
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

    /// Parses the headers in the next bytes.
    fn see(&mut self, bytes: &[u8]) {
        let start = self.seen;
        self.seen = start.saturating_add(bytes.len() as u64);
        while self.format != Format::Other {
            // The header continues at this position of `bytes`.
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

    /// Bytes of a header needed to parse it.
    fn header_len(&self) -> usize {
        match self.format {
            // As few as possible: the next header may come soon.
            Format::Unknown | Format::Cpio => cpio::HEADER,
            Format::NotCpio | Format::Tar | Format::Other => tar::BLOCK,
        }
    }

    /// Parses a possible header, and moves on to the next.
    fn look(&mut self, header: &[u8; HEADER]) {
        let found = match self.format {
            Format::Unknown | Format::Cpio => cpio::member(header).map(|member| (Format::Cpio, member)),
            Format::NotCpio => tar::member(header).map(|member| (Format::Tar, member)),
            // Padding, a list of holes, or damage. Headers are at multiples of a block, and more
            // may follow.
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

    /// Returns the first known border after `at`, and forgets earlier ones.
    fn border_after(&mut self, at: u64) -> Option<u64> {
        while self.borders.front().is_some_and(|&border| border <= at) {
            self.borders.pop_front();
        }
        self.borders.front().copied()
    }

    /// Passes over zeros up to `at`.
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
