//! Where do I cut?
//!
//! This crate divides data into chunks by its content, so that the same bytes are divided in the
//! same way wherever they turn up. [`Settings`] name an algorithm and its parameters; a [`Chunker`]
//! made from them finds the end of one chunk at a time ([`Chunker::cut`]). Around it are the ways
//! to feed it, all with the same cuts: [`chunks()`] for data in memory, or [`for_each_chunk`] with
//! several threads; [`Stream`] for a reader; [`Pusher`] for pieces that arrive; and maps of files,
//! see below. An [`ArchiveCutter`] cuts archives also where their large members begin and end.
//!
//! ```
//! use ibid_chunk::{Chunker, Settings, chunks};
//!
//! let chunker = Chunker::new(&Settings::for_average("seqcdc", 8192)?)?;
//! let data: Vec<u8> = (0..100_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
//! let total: usize = chunks(&chunker, &data).map(<[u8]>::len).sum();
//! assert_eq!(total, data.len());
//! # Ok::<(), ibid_chunk::SettingsError>(())
//! ```
//!
//! # Promises
//!
//! - A chunk has at most [`Settings::size_max`] bytes, and at least [`Settings::size_min`] unless
//!   it is the last.
//! - Where a chunk ends depends on its own bytes, the [`Settings::lookahead`] after them (one for
//!   FastCDC, up to the maximum size for argmin, TD and TTTD, else none) and, near the end of the
//!   data, on where that end is. No state goes from one chunk to the next: chunking can start again
//!   at any boundary.
//! - A cut that leaves some of the data over is final: no data that follows moves it
//!   ([`Chunker::cut`]).
//! - The algorithm [number](Settings::number) and the [words](Settings::to_words) fix every cut for
//!   ever. The functions in [`spec`] define them.
//!
//! # Data without content to cut by
//!
//! | data | `seqcdc` | `fastcdc` |
//! |---|---|---|
//! | one byte repeated | every chunk of the maximum size: nothing rises or falls | the hash settles 48 bytes after the minimum; from there on it fits everywhere or nowhere, so all chunks but the last have one size: the minimum plus at most 47 bytes, or the average (where a looser mask begins), or the maximum. With the settings of [`Settings::for_average`] for powers of two from 4 KiB on it is the maximum, whatever the byte |
//! | a short period | the same length over and over, or in a cycle of them, as the period meets the minimum size. If no period holds a sequence, the maximum | likewise; if no hash of the period fits, the maximum |
//! | long runs upwards (for falling sequences, downwards) | the minimum size | nothing special |
//!
//! | data | `ae`, `ae-min`, `ram` | `maxp` | `argmin`, `argmin8` |
//! |---|---|---|---|
//! | one byte repeated | every chunk of the minimum size: nothing passes the first byte, and nothing is less | of the maximum size: of equal bytes none is a peak | of the maximum size: all hashes are equal and the last wins. A run that ends before the maximum wins or loses as a whole; if it wins, the chunk ends with it |
//! | a short period, no longer than the window, the radius, or maximum less minimum | less than a period above the minimum | the maximum: the same byte comes again within the radius | less than a period below the maximum |
//! | long runs upwards | `ae` goes on until the run turns, `ae-min` cuts at the minimum, `ram` just past it | the maximum | nothing special |
//!
//! Windowed hashes: one byte repeated has one hash, so every chunk is of the minimum size or of the
//! maximum, and of the maximum if it is zeros and the hash is `rsync`, `rabin` or `crc32`. With a
//! period, chunks are less than a period longer than the minimum, or of the maximum size, or (where
//! places in reserve fit) less than a period shorter than that.
//!
//! Such data deduplicates well in any case, at the price of the chunk sizes above.
//!
//! # Files mapped into memory
//!
//! A map is a slice, and is cut like any other. This crate makes none itself, because that is
//! `unsafe` for a reason that it can't do away with: if another process changes the file meanwhile,
//! bytes change that Rust takes for constant; if it shortens the file, reading them ends the
//! process. Who knows that nobody does either can promise it:
//!
//! ```
//! use ibid_chunk::{Chunker, Settings, Stream, chunks};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let chunker = Chunker::new(&Settings::for_average("gear", 256)?)?;
//! let file = std::fs::File::open("Cargo.toml")?;
//! // SAFETY: nobody writes to this file while the map exists.
//! let map = unsafe { memmap2::Mmap::map(&file)? };
//! let mut stream = Stream::new(&chunker, &file);
//! for chunk in chunks(&chunker, &map) {
//!     assert_eq!(stream.next_chunk()?, Some(chunk));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! For files that are in the cache of the system a map saves a copy. For those that are not, a
//! [`Stream`] reads ahead in larger pieces, and tells errors of the disk by a value.
//!
//! # Features
//!
//! `std` (by default): [`Stream`], [`for_each_chunk`], and finding out at run time which vector
//! instructions there are ([`Backend`]). Without it the crate needs `alloc` alone.
#![forbid(unsafe_code)]
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
pub use chunks::{Chunks, chunks};
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
/// Made once and shared; finding a cut allocates nothing and remembers nothing.
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
    /// A chunker for these settings, with the vector instructions that the user prefers
    /// ([`Backend::preferred`]).
    ///
    /// # Errors
    /// When the settings do not pass [`Settings::validate`], or the environment asks for a backend
    /// that this machine does not have.
    pub fn new(settings: &Settings) -> Result<Chunker, SettingsError> {
        Chunker::with_backend(settings, Backend::preferred()?)
    }

    /// A chunker for these settings that runs on one backend. All of them cut at the same places.
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
    /// When the settings do not pass [`Settings::validate`].
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

    /// The settings that it was made from.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The vector instructions that it was made for. An algorithm without a vector form does not
    /// use them.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Bytes above which no chunk goes, and the most that [`Chunker::cut`] looks at.
    #[must_use]
    pub fn size_max(&self) -> usize {
        self.settings.size_max()
    }

    /// Whether a chunk that starts where `data` does could end after `len` bytes, as far as that
    /// place can tell: the test of the rolling window of RapidCDC (SoCC '19, section 3.2), for
    /// every algorithm that has one.
    ///
    /// It looks at a few bytes around the place: where it holds, [`Chunker::cut`] ends the chunk
    /// there or before. (SeqCDC may skip the place, too.) At the maximum size it always holds;
    /// below the minimum, past the end of the data and for algorithms that can't tell
    /// ([`Settings::tests_places`]) it never does.
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

    /// The length of the first chunk of `data`, in bytes.
    ///
    /// `data` starts where a chunk starts. **A length below `data.len()` is final**: whatever bytes
    /// follow, and however many, the cut stays where it is. (Where a byte after the chunk decides,
    /// as with FastCDC, that byte is in `data`.) A length of [`Chunker::size_max`] is final too.
    /// Any other is all of `data`, and stands only if the input ends there: with more to come,
    /// ask again with more.
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

/// The fast paths without the limits on settings, for tests that try every short string against
/// [`spec`]. Not part of the interface.
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
