//! Cuts data into chunks by its content.
//!
//! ```
//! use ibid_chunk::{Chunker, Settings, chunks};
//!
//! let data = std::fs::read("Cargo.toml")?;
//! let chunker = Chunker::new(&Settings::for_average("seqcdc", 8192)?)?;
//! for (offset, chunk) in chunks(&chunker, &data).with_offsets() {
//!     println!("{offset}: {} bytes", chunk.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The same bytes are divided in the same way wherever they occur, so a file that was edited in one
//! place keeps nearly all of its chunks. A store that keeps each chunk once stores little of it
//! again.
//!
//! [`Settings`] name an algorithm ([`NAMES`] lists them) and its parameters. A [`Chunker`] made from
//! them finds the end of one chunk at a time ([`Chunker::cut`]). Feed it in the way that fits your
//! data; all of them cut in the same places:
//!
//! | data | use |
//! |---|---|
//! | in memory | [`chunks()`] |
//! | in memory, with several threads | [`for_each_chunk`] |
//! | from a reader | [`Stream`] |
//! | arriving in pieces | [`Pusher`] |
//! | a mapped file | [`chunks()`], see [below](#files-mapped-into-memory) |
//! | an archive, cut also where its large members begin and end | [`ArchiveCutter`] |
//! | seen before, cut faster with hints | [`locality`] |
//!
//! # Promises
//!
//! - A chunk has at most [`Settings::size_max`] bytes, and at least [`Settings::size_min`] unless it
//!   is the last.
//! - Where a chunk ends depends on its own bytes, the [`Settings::lookahead`] after them (one for
//!   FastCDC, up to the maximum size for argmin, TD and TTTD, else none) and, near the end of the
//!   data, on where that end is. No state passes from one chunk to the next: chunking can start
//!   again at any boundary.
//! - A cut that leaves some of the data over is final: no data that follows moves it
//!   ([`Chunker::cut`]).
//! - The algorithm's [number](Settings::number) and its [words](Settings::to_words) fix every cut
//!   for ever. The functions in [`spec`] define them.
//! - Every set of vector instructions ([`Backend`]) cuts in the same places. [`Chunker::new`] takes
//!   the fastest and reads no environment; [`Chunker::with_backend`] takes the one you name.
//!
//! # Files mapped into memory
//!
//! A map is a slice, and is cut like any other. This crate creates no maps, because that is
//! `unsafe` for a reason it can't remove: if another process changes the file, bytes change that
//! Rust takes for constant, and if it shortens the file, reading them ends the process. If you know
//! that no process does either, map the file yourself:
//!
//! ```
//! use ibid_chunk::{Chunker, Settings, Stream, chunks};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let chunker = Chunker::new(&Settings::for_average("gear", 256)?)?;
//! let file = std::fs::File::open("Cargo.toml")?;
//! // SAFETY: no process writes to this file while the map exists.
//! let map = unsafe { memmap2::Mmap::map(&file)? };
//! let mut stream = Stream::new(&chunker, &file);
//! for chunk in chunks(&chunker, &map) {
//!     assert_eq!(stream.next_chunk()?, Some(chunk));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! For a file in the system's cache a map saves a copy. For any other, a [`Stream`] reads ahead in
//! larger pieces and reports disk errors as values.
//!
//! # Features
//!
//! `std` (by default): [`Stream`], [`for_each_chunk`], and detecting vector instructions at run
//! time. Without it the crate needs `alloc` alone.
//!
//! # Constant and periodic data
//!
//! Such data has no content to cut by. It deduplicates well in any case, in chunks of these sizes:
//!
//! - **`seqcdc`**: one byte repeated gives chunks of the maximum size, because no pair rises or
//!   falls. A short period gives one length or a cycle of lengths, depending on its phase at the
//!   minimum size, or the maximum if no period holds a sequence. Long rising runs (falling ones for
//!   falling sequences) give the minimum size.
//! - **`fastcdc`**: one byte repeated gives the same hash from 48 bytes after the minimum on, which
//!   fits everywhere or nowhere. All chunks but the last have one size: the minimum plus at most 47
//!   bytes, or the average (where the looser mask begins), or the maximum. With the settings of
//!   [`Settings::for_average`] for powers of two from 4 KiB on, it is the maximum for every byte. A
//!   short period behaves likewise; if none of its hashes fits, the size is the maximum.
//! - **`ae`, `ae-min`, `ram`**: one byte repeated gives the minimum size, because no byte passes
//!   the first. A period no longer than the window gives less than a period above the minimum. On
//!   long rising runs, `ae` continues to the end of the run, `ae-min` cuts at the minimum, and
//!   `ram` just past it.
//! - **`maxp`**: the maximum size, because equal bytes are no peaks, and in a period no longer than
//!   the radius every byte comes again within it. Long rising runs also give the maximum.
//! - **`argmin`, `argmin8`**: one byte repeated gives the maximum size, because all hashes are
//!   equal and the last wins. If a run ends before the maximum, a chunk ends at its last byte or
//!   outside of it. A period no longer than maximum less minimum gives less than a period below the
//!   maximum.
//! - **Windowed hashes**: one byte repeated has one hash, so every chunk has the minimum size or the
//!   maximum; the maximum if the byte is zero and the hash is `rsync`, `rabin` or `crc32`. With a
//!   period, chunks are less than a period longer than the minimum, or of the maximum size, or (where
//!   places in reserve fit) less than a period shorter than that.
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc, clippy::unwrap_used)]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod ae;
mod archive;
mod argmin;
mod average;
mod bytes;
mod chunks;
mod error;
mod fastcdc;
mod gear;
pub mod locality;
mod maxp;
mod names;
#[cfg(feature = "std")]
mod parallel;
mod parameters;
mod pusher;
mod ram;
mod seqcdc;
mod settings;
pub mod spec;
#[cfg(feature = "std")]
mod stream;
mod windowed;

pub use archive::ArchiveCutter;
pub use chunks::{Chunks, ChunksWithOffsets, chunks};
pub use error::SettingsError;
pub use ibid_simd::{Backend, BackendError};
pub use names::NAMES;
#[cfg(feature = "std")]
pub use parallel::for_each_chunk;
pub use parameters::Parameter;
pub use pusher::Pusher;
pub use settings::{AeSettings, ArgminSettings, ArgminWindow, Equal, Extremum, FastCdcSettings, FixedSettings};
pub use settings::{MaxpSettings, Mode, RamSettings, SIZE_MAX_MOST, SIZE_MIN_LEAST, SeqCdcSettings, Settings};
pub use settings::{Method, RollingHash, WindowedSettings};
use spec::FastCdcParameters;
#[cfg(feature = "std")]
pub use stream::Stream;

/// Finds where chunks end, by one set of [`Settings`].
///
/// Make it once and share it: a cut allocates no memory and changes no state.
#[derive(Clone, Debug)]
pub struct Chunker {
    settings: Settings,
    backend: Backend,
    algorithm: Algorithm,
}

#[derive(Clone, Debug)]
enum Algorithm {
    Fixed(usize),
    FastCdc(FastCdcParameters),
    SeqCdc(SeqCdcSettings),
    Ae(AeSettings),
    Ram(RamSettings),
    Maxp(MaxpSettings),
    Argmin(ArgminSettings),
    Windowed(windowed::Kernel),
}

impl Chunker {
    /// Returns a chunker for these settings that uses the fastest vector instructions of this
    /// machine.
    ///
    /// # Errors
    /// Those of [`Settings::validate`].
    pub fn new(settings: &Settings) -> Result<Chunker, SettingsError> {
        Chunker::with_backend(settings, Backend::best())
    }

    /// Returns a chunker for these settings that uses one backend. All backends cut in the same
    /// places.
    ///
    /// A program that lets its users force a backend through the environment variable `IBID_SIMD`
    /// passes [`Backend::preferred`].
    ///
    /// ```
    /// use ibid_chunk::{Backend, Chunker, Settings};
    ///
    /// let settings = Settings::for_average("seqcdc", 8192)?;
    /// let data: Vec<u8> = (0..20_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    /// let expected = Chunker::new(&settings)?.cut(&data);
    /// for backend in Backend::available() {
    ///     assert_eq!(Chunker::with_backend(&settings, backend)?.cut(&data), expected);
    /// }
    /// # Ok::<(), ibid_chunk::SettingsError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Settings::validate`].
    pub fn with_backend(settings: &Settings, backend: Backend) -> Result<Chunker, SettingsError> {
        settings.validate()?;
        let algorithm = match settings {
            Settings::Fixed(fixed) => Algorithm::Fixed(fixed.size),
            Settings::FastCdc(fastcdc) => Algorithm::FastCdc(FastCdcParameters::new(fastcdc)),
            Settings::SeqCdc(seqcdc) => Algorithm::SeqCdc(*seqcdc),
            Settings::Ae(ae) => Algorithm::Ae(*ae),
            Settings::Ram(ram) => Algorithm::Ram(*ram),
            Settings::Maxp(maxp) => Algorithm::Maxp(*maxp),
            Settings::Argmin(argmin) => Algorithm::Argmin(*argmin),
            Settings::Windowed(windowed) => Algorithm::Windowed(windowed::Kernel::new(backend, windowed)),
        };
        Ok(Chunker {
            settings: settings.clone(),
            backend,
            algorithm,
        })
    }

    /// Returns the settings that it was made from.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the vector instructions that it was made for. An algorithm without a vector form does
    /// not use them.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns the maximum size of a chunk, bytes: [`Chunker::cut`] reads no further.
    #[must_use]
    pub fn size_max(&self) -> usize {
        self.settings.size_max()
    }

    /// Whether a chunk that starts where `data` does could end after `len` bytes, judging by the
    /// bytes around that place: RapidCDC's test of the rolling window (RapidCDC §3.2), for every
    /// algorithm that has one.
    ///
    /// If it holds, [`Chunker::cut`] ends the chunk there or earlier, except that SeqCDC may skip
    /// the place. It always holds at the maximum size, and never below the minimum, past the end of
    /// the data, and for algorithms that can't tell ([`Settings::tests_places`]).
    ///
    /// ```
    /// use ibid_chunk::{Chunker, Settings};
    ///
    /// let chunker = Chunker::new(&Settings::for_average("gear", 1024)?)?;
    /// let data: Vec<u8> = (0..20_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    /// let cut = chunker.cut(&data);
    /// assert!(chunker.fits_at(&data, cut));
    /// let below = chunker.settings().size_min()..cut;
    /// assert!(below.into_iter().all(|len| !chunker.fits_at(&data, len)));
    /// # Ok::<(), ibid_chunk::SettingsError>(())
    /// ```
    #[must_use]
    pub fn fits_at(&self, data: &[u8], len: usize) -> bool {
        match &self.algorithm {
            Algorithm::Windowed(kernel) if self.settings.tests_places() => {
                let (least, most) = (self.settings.size_min(), self.size_max());
                (least..=most).contains(&len)
                    && len <= data.len()
                    && (len == most || kernel.fits_at_end_of(&data[..len]))
            }
            _ => spec::fits_at(&self.settings, data, len).unwrap_or(false),
        }
    }

    /// Returns the length of the first chunk of `data`, bytes.
    ///
    /// `data` starts where a chunk starts. **A length below `data.len()` is final**: no bytes that
    /// follow move the cut. (Where a byte after the chunk decides, as with FastCDC, that byte is in
    /// `data`.) A length of [`Chunker::size_max`] is final too. Any other length is all of `data`,
    /// and holds only if the input ends there; otherwise call again with more of it.
    ///
    /// The length is 1 to `min(data.len(), size_max)`, and 0 only when there is no data.
    ///
    /// ```
    /// use ibid_chunk::{Chunker, Settings};
    ///
    /// let chunker = Chunker::new(&Settings::for_average("seqcdc", 8192)?)?;
    /// assert_eq!(chunker.cut(&[0; 100_000]), 16_384); // nothing to cut by: the maximum
    /// assert_eq!(chunker.cut(b"shorter than the minimum"), 24);
    /// assert_eq!(chunker.cut(b""), 0);
    ///
    /// let teeth: Vec<u8> = (0..9000u32).map(|at| at as u8).collect();
    /// assert_eq!(chunker.cut(&teeth[..5000]), chunker.cut(&teeth)); // below 5000, so final
    /// # Ok::<(), ibid_chunk::SettingsError>(())
    /// ```
    #[must_use]
    pub fn cut(&self, data: &[u8]) -> usize {
        match &self.algorithm {
            Algorithm::Fixed(size) => data.len().min(*size),
            Algorithm::FastCdc(parameters) => fastcdc::cut(parameters, data),
            Algorithm::SeqCdc(settings) => seqcdc::cut(self.backend, settings, data),
            Algorithm::Ae(settings) => ae::cut(self.backend, settings, data),
            Algorithm::Ram(settings) => ram::cut(self.backend, settings, data),
            Algorithm::Maxp(settings) => maxp::cut(self.backend, settings, data),
            Algorithm::Argmin(settings) => argmin::cut(self.backend, settings, data),
            Algorithm::Windowed(kernel) => kernel.cut(data),
        }
    }
}

/// The fast paths without the limits on settings, for tests that compare every short string with
/// [`spec`]. Not part of the public interface.
#[doc(hidden)]
pub mod unlimited {
    /// The fast path of [`spec::fastcdc`](crate::spec::fastcdc).
    #[must_use]
    pub fn fastcdc(parameters: &crate::spec::FastCdcParameters, data: &[u8]) -> usize {
        crate::fastcdc::cut(parameters, data)
    }

    /// The fast path of [`spec::seqcdc`](crate::spec::seqcdc), on one backend.
    #[must_use]
    pub fn seqcdc(backend: crate::Backend, settings: &crate::SeqCdcSettings, data: &[u8]) -> usize {
        crate::seqcdc::cut(backend, settings, data)
    }

    /// The fast path of [`spec::ae`](crate::spec::ae), on one backend.
    #[must_use]
    pub fn ae(backend: crate::Backend, settings: &crate::AeSettings, data: &[u8]) -> usize {
        crate::ae::cut(backend, settings, data)
    }

    /// The fast path of [`spec::ram`](crate::spec::ram), on one backend.
    #[must_use]
    pub fn ram(backend: crate::Backend, settings: &crate::RamSettings, data: &[u8]) -> usize {
        crate::ram::cut(backend, settings, data)
    }

    /// The fast path of [`spec::maxp`](crate::spec::maxp), on one backend.
    #[must_use]
    pub fn maxp(backend: crate::Backend, settings: &crate::MaxpSettings, data: &[u8]) -> usize {
        crate::maxp::cut(backend, settings, data)
    }

    /// The fast path of [`spec::argmin`](crate::spec::argmin), on one backend.
    #[must_use]
    pub fn argmin(backend: crate::Backend, settings: &crate::ArgminSettings, data: &[u8]) -> usize {
        crate::argmin::cut(backend, settings, data)
    }

    /// The fast path of [`spec::windowed`](crate::spec::windowed).
    #[must_use]
    pub fn windowed(backend: crate::Backend, settings: &crate::WindowedSettings, data: &[u8]) -> usize {
        crate::windowed::Kernel::new(backend, settings).cut(data)
    }

    /// [`for_each_chunk`](crate::for_each_chunk) with segments of any length above zero.
    #[cfg(feature = "std")]
    pub fn for_each_chunk<'a, E>(
        chunker: &crate::Chunker,
        data: &'a [u8],
        threads: core::num::NonZeroUsize,
        segment: usize,
        take: impl FnMut(&'a [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        crate::parallel::for_each_chunk_by_segments(chunker, data, threads, segment, take)
    }
}
