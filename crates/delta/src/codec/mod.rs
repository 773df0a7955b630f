//! Encoding a target as the difference from a base, and decoding it.
//!
//! A delta is `codec (u8) ‖ target length (varint) ‖ body`; `docs/format/delta.md` describes every
//! byte.

mod anchor;
mod anchor_zstd;
mod matches;
mod outline;
mod prefix;
mod scan;

use std::ops::Range;

pub use anchor::Reversal;
pub use outline::{Outline, Segment};

use crate::error::in_range;
use crate::{Backend, Error, Interval, varint};

/// Longest base and longest target, bytes: 1 GiB.
pub const LENGTH_MAX: u64 = 1 << 30;

/// The codec that wrote a delta: its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// zstd with the base as prefix.
    ZstdPrefix,
    /// Copies and inserts, found by anchors (dDedup §4.2).
    Anchor,
    /// Copies found by anchors; the bytes between them by zstd, with the base's bytes beside the
    /// copies as prefix.
    AnchorZstd,
}

impl Codec {
    /// Returns the first byte of its deltas.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Codec::ZstdPrefix => 1,
            Codec::Anchor => 2,
            Codec::AnchorZstd => 3,
        }
    }

    /// Returns the codec whose deltas begin with this byte.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is none.
    pub fn from_number(number: u8) -> Result<Codec, Error> {
        match number {
            1 => Ok(Codec::ZstdPrefix),
            2 => Ok(Codec::Anchor),
            3 => Ok(Codec::AnchorZstd),
            _ => Err(Error::Unknown {
                field: "delta codec",
                found: number.into(),
            }),
        }
    }

    /// Returns its name in flags and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Codec::ZstdPrefix => "zstd-prefix",
            Codec::Anchor => "anchor",
            Codec::AnchorZstd => "anchor-zstd",
        }
    }
}

/// How to encode: a codec and its parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// [`Codec::ZstdPrefix`]: the smallest deltas of short records that are not compressed again.
    ZstdPrefix {
        /// zstd's level, clamped to -7 to 19. Use 1 when a user waits, 3 in the background.
        level: i32,
    },
    /// [`Codec::Anchor`]: the fastest to decode and to [reverse](DeltaEncoder::reverse); for deltas
    /// that are compressed together.
    Anchor {
        /// How densely the base is searched. dDedup's default is one position in 64. Of a long base, a million
        /// positions are remembered, in 23 MiB: with one position in 16, these are all up to 16 MiB.
        interval: Interval,
    },
    /// [`Codec::AnchorZstd`]: the smallest deltas of long data, from some 100 KiB on, and the
    /// fastest that are not compressed again.
    AnchorZstd {
        /// zstd's level for bytes that are not copied, clamped to -7 to 19.
        level: i32,
        /// How densely the base is searched. One position in 64 is faster, one in 32 finds more
        /// among many small edits.
        interval: Interval,
    },
}

impl Method {
    /// Returns the codec of its deltas.
    #[must_use]
    pub const fn codec(self) -> Codec {
        match self {
            Method::ZstdPrefix { .. } => Codec::ZstdPrefix,
            Method::Anchor { .. } => Codec::Anchor,
            Method::AnchorZstd { .. } => Codec::AnchorZstd,
        }
    }
}

/// Writes deltas. Reuse it: it owns a zstd context and the tables that copies are found with.
///
/// ```
/// use ibid_delta::{DeltaDecoder, DeltaEncoder, Interval, Method};
///
/// let base = "a line that stays as it is\n".repeat(50);
/// let target = base.replacen("stays", "may not stay", 1);
/// let (mut encoder, mut decoder) = (DeltaEncoder::new(), DeltaDecoder::new());
/// let interval = Interval::I32;
/// let prefix = Method::ZstdPrefix { level: 1 };
/// for method in [prefix, Method::Anchor { interval }, Method::AnchorZstd { level: 3, interval }] {
///     let mut delta = Vec::new();
///     encoder.encode(method, base.as_bytes(), target.as_bytes(), &mut delta)?;
///     assert!(delta.len() < 50);
///     let mut decoded = Vec::new();
///     decoder.decode(base.as_bytes(), &delta, 1 << 20, &mut decoded)?;
///     assert_eq!(decoded, target.as_bytes());
/// }
/// # Ok::<(), ibid_delta::Error>(())
/// ```
#[derive(Debug)]
pub struct DeltaEncoder {
    prefix: prefix::PrefixEncoder,
    anchor: anchor::AnchorEncoder,
    anchor_zstd: anchor_zstd::AnchorZstdEncoder,
    /// Length of the target, if the last delta has an outline.
    outlined: Option<usize>,
    /// Most bytes of a base that [`DeltaEncoder::reverse`] leaves uncovered, if the caller set it.
    uncovered_max: Option<usize>,
}

impl DeltaEncoder {
    /// Returns an encoder that uses the fastest vector instructions of this machine.
    ///
    /// # Panics
    /// If there is no memory for a zstd context.
    #[must_use]
    pub fn new() -> DeltaEncoder {
        let backend = Backend::best();
        DeltaEncoder {
            prefix: prefix::PrefixEncoder::new(),
            anchor: anchor::AnchorEncoder::new(backend),
            anchor_zstd: anchor_zstd::AnchorZstdEncoder::new(backend),
            outlined: None,
            uncovered_max: None,
        }
    }

    /// Uses these vector instructions. All backends write the same deltas.
    #[must_use]
    pub fn with_backend(mut self, backend: Backend) -> DeltaEncoder {
        self.anchor = anchor::AnchorEncoder::new(backend);
        self.anchor_zstd = anchor_zstd::AnchorZstdEncoder::new(backend);
        self.outlined = None;
        self
    }

    /// Lets [`reverse`](DeltaEncoder::reverse) turn a delta round if that leaves at most so many
    /// bytes of the base uncovered. The default is [`Reversal::uncovered_max`].
    #[must_use]
    pub fn with_uncovered_max(mut self, bytes: usize) -> DeltaEncoder {
        self.uncovered_max = Some(bytes);
        self
    }

    /// Appends to `out` the delta that turns `base` into `target`. Returns how many bytes of the
    /// target zstd compressed: those for which anchors found no copies.
    ///
    /// Pass two separate slices: zstd finds less in a base that shares memory with the target.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if either is longer than [`LENGTH_MAX`]; [`Error::Zstd`]. `out` is
    /// then as it was.
    pub fn encode(&mut self, method: Method, base: &[u8], target: &[u8], out: &mut Vec<u8>) -> Result<usize, Error> {
        check_lengths(base, target)?;
        let start = out.len();
        self.outlined = None;
        put_head(out, method.codec(), target);
        let encoded = match method {
            _ if target.is_empty() => Ok(0),
            Method::ZstdPrefix { level } => self.prefix.encode(base, target, level, out).map(|()| target.len()),
            Method::Anchor { interval } => {
                self.anchor.encode(interval, base, target, usize::MAX, out);
                Ok(0)
            }
            Method::AnchorZstd { level, interval } => {
                self.outlined = Some(target.len());
                self.anchor_zstd
                    .encode((level, interval), &mut self.prefix, base, target, out)
            }
        };
        if encoded.is_err() {
            self.outlined = None;
            out.truncate(start);
        }
        encoded
    }

    /// Does what [`encode`](DeltaEncoder::encode) does if that takes at most `bytes_max` bytes. Otherwise returns
    /// false, and `out` is as it was. With [`Method::Anchor`], what is too long is mostly not written at all.
    ///
    /// # Errors
    /// As [`encode`](DeltaEncoder::encode).
    ///
    /// ```
    /// use ibid_delta::{DeltaEncoder, Interval, Method};
    ///
    /// let (base, target) = ("in the same place ".repeat(50), "in the very same place ".repeat(50));
    /// let (mut encoder, mut delta) = (DeltaEncoder::new(), Vec::new());
    /// let method = Method::Anchor { interval: Interval::I16 };
    /// assert!(!encoder.encode_within(method, base.as_bytes(), target.as_bytes(), 10, &mut delta)?);
    /// assert!(delta.is_empty());
    /// assert!(encoder.encode_within(method, base.as_bytes(), target.as_bytes(), 1000, &mut delta)?);
    /// # Ok::<(), ibid_delta::Error>(())
    /// ```
    pub fn encode_within(
        &mut self,
        method: Method,
        base: &[u8],
        target: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let start = out.len();
        let is_within = match method {
            Method::Anchor { interval } if !target.is_empty() => {
                check_lengths(base, target)?;
                self.outlined = None;
                put_head(out, method.codec(), target);
                let body_max = bytes_max.saturating_sub(out.len() - start);
                self.anchor.encode(interval, base, target, body_max, out)
            }
            _ => {
                self.encode(method, base, target, out)?;
                out.len() - start <= bytes_max
            }
        };
        if !is_within {
            out.truncate(start);
        }
        Ok(is_within)
    }

    /// Returns the outline of the last target that was [encoded](DeltaEncoder::encode), equal to
    /// the one that [`DeltaDecoder::outline`] makes of its delta. Returns `None` if the codec was
    /// not [`Codec::AnchorZstd`], the target was empty, or nothing was encoded yet.
    ///
    /// ```
    /// # use ibid_delta::{DeltaEncoder, Interval, Method};
    /// let base = "in the same place as before".repeat(9);
    /// let target = "ibid: in the same place as before".repeat(9);
    /// let (mut encoder, mut delta) = (DeltaEncoder::new(), Vec::new());
    /// assert_eq!(encoder.outline(), None);
    /// let method = Method::AnchorZstd { level: 3, interval: Interval::I32 };
    /// encoder.encode(method, base.as_bytes(), target.as_bytes(), &mut delta)?;
    /// assert_eq!(encoder.outline().map(|outline| outline.len()), Some(target.len()));
    /// # Ok::<(), ibid_delta::Error>(())
    /// ```
    #[must_use]
    pub fn outline(&self) -> Option<Outline> {
        self.outlined.map(|length| self.anchor_zstd.outline(length))
    }

    /// Appends to `out` the delta that turns `target` into `base`, given the `forward` delta that
    /// turns `base` into `target` (dDedup, Algorithm 2).
    ///
    /// The copies of an anchor delta are turned round, which takes no search, and the bytes of the
    /// base that they leave uncovered are inserted. If those are more than
    /// [allowed](DeltaEncoder::with_uncovered_max), or `forward` has another codec, this encodes
    /// from scratch by `method`.
    ///
    /// # Errors
    /// As [`DeltaEncoder::encode`]; the fault in `forward`; [`Error::OtherEnds`] if it does not turn
    /// `base` into `target`. `out` is then as it was.
    pub fn reverse(
        &mut self,
        method: Method,
        base: &[u8],
        target: &[u8],
        forward: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Reversal, Error> {
        check_lengths(base, target)?;
        self.outlined = None;
        let (codec, length, body) = take_head(forward, target.len() as u64)?;
        crate::error::equal("target length", target.len() as u64, length as u64)?;
        if codec == Codec::Anchor && !base.is_empty() && !target.is_empty() {
            let uncovered = self.anchor.turn_round(base, target, body)?;
            let uncovered_max = self.uncovered_max;
            if uncovered <= uncovered_max.unwrap_or(Reversal::uncovered_max(base.len())) {
                put_head(out, Codec::Anchor, base);
                self.anchor.write_turned(base, out);
                return Ok(Reversal::TurnedRound { uncovered });
            }
        }
        self.encode(method, target, base, out)?;
        Ok(Reversal::Encoded)
    }

    /// Memory it holds between calls, bytes. It grows to the needs of the longest pair so far.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.prefix.memory() + self.anchor.memory() + self.anchor_zstd.memory()
    }
}

impl Default for DeltaEncoder {
    fn default() -> Self {
        DeltaEncoder::new()
    }
}

/// Reads deltas. Reuse it: it owns a zstd context.
#[derive(Debug)]
pub struct DeltaDecoder {
    prefix: prefix::PrefixDecoder,
    anchor_zstd: anchor_zstd::AnchorZstdDecoder,
}

impl DeltaDecoder {
    /// Returns a decoder that holds no memory yet except its context.
    ///
    /// # Panics
    /// If there is no memory for a zstd context.
    #[must_use]
    pub fn new() -> DeltaDecoder {
        DeltaDecoder {
            prefix: prefix::PrefixDecoder::new(),
            anchor_zstd: anchor_zstd::AnchorZstdDecoder::default(),
        }
    }

    /// Appends to `out` the target that `delta` makes of `base`, at most `target_max` bytes.
    ///
    /// `delta` may be any bytes: memory for the target is taken only if its stated length is within
    /// `target_max`. A delta does not say which base it belongs to; a wrong base gives wrong bytes
    /// or an error.
    ///
    /// # Errors
    /// The fault in the delta; [`Error::OutOfRange`] for a target that is too long. `out` is then as
    /// it was.
    pub fn decode(&mut self, base: &[u8], delta: &[u8], target_max: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        let (codec, length, body) = take_head(delta, target_max as u64)?;
        let start = out.len();
        let decoded = match codec {
            _ if length == 0 => crate::error::equal("delta body", 0, body.len() as u64),
            Codec::ZstdPrefix => self.prefix.decode(base, body, length, out),
            Codec::Anchor => anchor::decode(base, body, length, out),
            Codec::AnchorZstd => self.anchor_zstd.decode(&mut self.prefix, base, body, length, out),
        };
        if decoded.is_err() {
            out.truncate(start);
        }
        decoded
    }

    /// Returns the outline of the target that `delta` makes of a base of `base_len` bytes.
    ///
    /// `read` appends the ranges of the base that it is given, which ascend and do not overlap, to
    /// a buffer. It is called at most once, for the context that decompresses the inserted bytes. A
    /// delta of another codec than [`Codec::AnchorZstd`] needs the whole base, and its outline is
    /// one segment.
    ///
    /// # Errors
    /// As [`decode`](DeltaDecoder::decode); [`Error::OutOfRange`] for a base over [`LENGTH_MAX`];
    /// [`Error::Mismatch`] if `read` appends another number of bytes than it was asked for; an error
    /// of `read`.
    ///
    /// ```
    /// use ibid_delta::advanced::Segment;
    /// use ibid_delta::{DeltaDecoder, DeltaEncoder, Error, Interval, Method};
    ///
    /// let base: Vec<u8> = (0..20_000_u32).flat_map(|number| (number * number).to_le_bytes()).collect();
    /// let target = [&base[..40_000], b"inserted", &base[40_000..]].concat();
    /// let (method, mut delta) = (Method::AnchorZstd { level: 3, interval: Interval::I32 }, Vec::new());
    /// DeltaEncoder::new().encode(method, &base, &target, &mut delta)?;
    ///
    /// let mut bytes_read = 0;
    /// let outline = DeltaDecoder::new().outline(base.len(), &delta, target.len(), |ranges, out| {
    ///     for range in ranges {
    ///         out.extend_from_slice(&base[range.start as usize..range.end as usize]);
    ///     }
    ///     bytes_read = out.len();
    ///     Ok::<(), Error>(())
    /// })?;
    /// assert!(bytes_read < 200 && outline.memory() < 200);
    /// let segments: Vec<Segment> = outline.segments(39_990..40_018).collect();
    /// let inserted = Segment::Inserted(b"inserted");
    /// assert_eq!(segments, [Segment::Base(39_990..40_000), inserted, Segment::Base(40_000..40_010)]);
    /// # Ok::<(), ibid_delta::Error>(())
    /// ```
    pub fn outline<E: From<Error>>(
        &mut self,
        base_len: usize,
        delta: &[u8],
        target_max: usize,
        read: impl FnOnce(&[Range<u32>], &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Outline, E> {
        in_range("base length", base_len as u64, 0, LENGTH_MAX)?;
        let (codec, length, body) = take_head(delta, target_max as u64)?;
        if codec == Codec::AnchorZstd && length > 0 {
            return self.anchor_zstd.outline(&mut self.prefix, base_len, body, length, read);
        }
        let (mut base, mut target) = (Vec::new(), Vec::new());
        if length > 0 && base_len > 0 {
            read(std::slice::from_ref(&(0..base_len as u32)), &mut base)?;
            crate::error::equal("bytes of the base", base_len as u64, base.len() as u64)?;
        }
        self.decode(&base, delta, target_max, &mut target)?;
        Ok(Outline::new(&[], target, length))
    }

    /// Memory it holds between calls, bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.prefix.memory() + self.anchor_zstd.memory()
    }
}

impl Default for DeltaDecoder {
    fn default() -> Self {
        DeltaDecoder::new()
    }
}

/// Returns the codec of a delta and the length of its target in bytes, from its head alone.
///
/// # Errors
/// [`Error::Truncated`], [`Error::Unknown`] or [`Error::OutOfRange`] if the head is not valid.
///
/// ```
/// use ibid_delta::advanced::{Codec, describe};
/// use ibid_delta::{DeltaEncoder, Interval, Method};
///
/// let mut delta = Vec::new();
/// DeltaEncoder::new().encode(Method::Anchor { interval: Interval::I64 }, b"", b"four", &mut delta)?;
/// assert_eq!(describe(&delta), Ok((Codec::Anchor, 4)));
/// # Ok::<(), ibid_delta::Error>(())
/// ```
pub fn describe(delta: &[u8]) -> Result<(Codec, usize), Error> {
    take_head(delta, LENGTH_MAX).map(|(codec, length, _)| (codec, length))
}

fn check_lengths(base: &[u8], target: &[u8]) -> Result<(), Error> {
    in_range("base length", base.len() as u64, 0, LENGTH_MAX)?;
    in_range("target length", target.len() as u64, 0, LENGTH_MAX).map(drop)
}

fn put_head(out: &mut Vec<u8>, codec: Codec, target: &[u8]) {
    out.push(codec.number());
    varint::put(out, target.len() as u64);
}

/// Splits a delta into its codec, the length of its target and its body.
fn take_head(delta: &[u8], target_max: u64) -> Result<(Codec, usize, &[u8]), Error> {
    let (&number, mut rest) = delta.split_first().ok_or(Error::Truncated { field: "delta codec" })?;
    let codec = Codec::from_number(number)?;
    let length = varint::take("target length", &mut rest)?;
    let length = in_range("target length", length, 0, target_max.min(LENGTH_MAX))?;
    Ok((codec, length as usize, rest))
}
