//! What differs? A target as the difference from a base.
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
pub use outline::{Outline, Stretch};

use crate::error::in_range;
use crate::{Backend, Error, Interval, varint};

/// Longest base and target, bytes.
pub const LENGTH_MAX: u64 = 1 << 30;

/// Which codec made a delta: its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// zstd with the base as prefix.
    ZstdPrefix,
    /// Copies and inserts, found by anchors (paper 004, section 4.2).
    Anchor,
    /// Copies found by anchors; what they leave by zstd, with the base's bytes beside the copies as
    /// prefix.
    AnchorZstd,
}

impl Codec {
    /// The byte that stands for it.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Codec::ZstdPrefix => 1,
            Codec::Anchor => 2,
            Codec::AnchorZstd => 3,
        }
    }

    /// The codec of that number.
    ///
    /// # Errors
    /// [`Error::Unknown`].
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

    /// The name of it in flags and messages.
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
    /// [`Codec::ZstdPrefix`]: the smallest deltas of short records if they are not compressed again.
    ZstdPrefix {
        /// zstd's level, -7 to 19; others are brought into this range. 1 while somebody waits, 3 in
        /// the background.
        level: i32,
    },
    /// [`Codec::Anchor`]: the fastest to decode and to [reverse](DeltaEncoder::reverse); for deltas that are compressed together.
    Anchor {
        /// How densely the base is looked up. The paper's default is one position in 64.
        interval: Interval,
    },
    /// [`Codec::AnchorZstd`]: the smallest deltas of long data, from some 100 KiB on, and the fastest that are not compressed again.
    AnchorZstd {
        /// zstd's level for what is not copied, -7 to 19; others are brought into this range.
        level: i32,
        /// How densely the base is looked up. One position in 64 is faster, one in 32 finds more
        /// among many small edits.
        interval: Interval,
    },
}

impl Method {
    /// The codec of its deltas.
    #[must_use]
    pub const fn codec(self) -> Codec {
        match self {
            Method::ZstdPrefix { .. } => Codec::ZstdPrefix,
            Method::Anchor { .. } => Codec::Anchor,
            Method::AnchorZstd { .. } => Codec::AnchorZstd,
        }
    }
}

/// Writes deltas. Owns zstd's context and the memory that copies are found with: keep it.
///
/// ```
/// use ibid_delta::{DeltaDecoder, DeltaEncoder, Interval, Method};
///
/// let base = "a line that stays as it is\n".repeat(50);
/// let target = base.replacen("stays", "may not stay", 1);
/// let (mut encoder, mut decoder) = (DeltaEncoder::new(), DeltaDecoder::new());
/// let interval = Interval::I32;
/// for method in [Method::ZstdPrefix { level: 1 }, Method::Anchor { interval }, Method::AnchorZstd { level: 3, interval }] {
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
}

impl DeltaEncoder {
    /// One that uses the fastest vector instructions of this machine.
    ///
    /// # Panics
    /// If there is no memory for a zstd context.
    #[must_use]
    pub fn new() -> DeltaEncoder {
        DeltaEncoder::with_backend(Backend::best())
    }

    /// One that uses these vector instructions. The deltas are the same with all.
    ///
    /// # Panics
    /// If there is no memory for a zstd context.
    #[must_use]
    pub fn with_backend(backend: Backend) -> DeltaEncoder {
        DeltaEncoder {
            prefix: prefix::PrefixEncoder::new(),
            anchor: anchor::AnchorEncoder::new(backend),
            anchor_zstd: anchor_zstd::AnchorZstdEncoder::new(backend),
            outlined: None,
        }
    }

    /// Appends to `out` the delta that makes `target` of `base`. Gives the bytes of the target that
    /// zstd was left to look at: all but what anchors found copies for.
    ///
    /// Give two separate slices: zstd finds less in a base that shares memory with the target.
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
                self.anchor.encode(interval, base, target, out);
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

    /// The outline of the last target that was [encoded](DeltaEncoder::encode): what
    /// [`DeltaDecoder::outline`] makes of its delta. None if its codec is another than
    /// [`Codec::AnchorZstd`], it was empty, or there is none.
    ///
    /// ```
    /// # use ibid_delta::{DeltaEncoder, Interval, Method};
    /// let (base, target) = ("in the same place as before".repeat(9), "ibid: in the same place as before".repeat(9));
    /// let (mut encoder, mut delta) = (DeltaEncoder::new(), Vec::new());
    /// assert_eq!(encoder.outline(), None);
    /// encoder.encode(Method::AnchorZstd { level: 3, interval: Interval::I32 }, base.as_bytes(), target.as_bytes(), &mut delta)?;
    /// assert_eq!(encoder.outline().map(|outline| outline.len()), Some(target.len()));
    /// # Ok::<(), ibid_delta::Error>(())
    /// ```
    #[must_use]
    pub fn outline(&self) -> Option<Outline> {
        self.outlined.map(|length| self.anchor_zstd.outline(length))
    }

    /// Appends to `out` the delta that makes `base` of `target`, given the one the other way,
    /// `forward` (paper 004, Algorithm 2).
    ///
    /// The copies of an anchor delta are turned round, which takes no search. What they leave
    /// uncovered of the base is inserted; if that is more than `uncovered_max` bytes (see
    /// [`Reversal::uncovered_max`]), or `forward` is of another codec, this encodes by `method`
    /// from scratch instead.
    ///
    /// # Errors
    /// As [`DeltaEncoder::encode`]; whatever is wrong with `forward`; [`Error::OtherEnds`] if it does
    /// not make `target` of `base`. `out` is then as it was.
    pub fn reverse(
        &mut self,
        method: Method,
        base: &[u8],
        target: &[u8],
        forward: &[u8],
        uncovered_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<Reversal, Error> {
        check_lengths(base, target)?;
        self.outlined = None;
        let (codec, length, body) = take_head(forward, target.len() as u64)?;
        crate::error::equal("target length", target.len() as u64, length as u64)?;
        if codec == Codec::Anchor && !base.is_empty() && !target.is_empty() {
            let uncovered = self.anchor.turn_round(base, target, body)?;
            if uncovered <= uncovered_max {
                put_head(out, Codec::Anchor, base);
                self.anchor.write_turned(base, out);
                return Ok(Reversal::TurnedRound { uncovered });
            }
        }
        self.encode(method, target, base, out)?;
        Ok(Reversal::Encoded)
    }

    /// Bytes of memory it holds between calls. Grows to the needs of the longest pair so far.
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

/// Reads deltas. Owns a zstd context: keep it.
#[derive(Debug)]
pub struct DeltaDecoder {
    prefix: prefix::PrefixDecoder,
    anchor_zstd: anchor_zstd::AnchorZstdDecoder,
}

impl DeltaDecoder {
    /// One without memory yet but for its context.
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

    /// Appends to `out` what `delta` makes of `base`, at most `target_max` bytes.
    ///
    /// Any bytes may be given as delta: memory for the target is taken only when its stated length
    /// is within `target_max`. Whether `base` is the right one is not known here; another gives
    /// other bytes or an error.
    ///
    /// # Errors
    /// Whatever is wrong with the delta; [`Error::OutOfRange`] for a target that is too long. `out`
    /// is then as it was.
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

    /// What `delta` makes of a base of `base_len` bytes, not put together yet.
    ///
    /// `read` appends stretches of the base, which ascend and lie apart, to what it is given. It is
    /// called once at most, for those bytes that the delta's own ones are packed with; deltas
    /// of other codecs than [`Codec::AnchorZstd`] want the whole base, and give outlines of one
    /// stretch.
    ///
    /// # Errors
    /// As [`decode`](DeltaDecoder::decode); [`Error::OutOfRange`] for a base over [`LENGTH_MAX`];
    /// [`Error::Mismatch`] if `read` gives another number of bytes than it was asked for;
    /// whatever `read` fails with.
    ///
    /// ```
    /// use ibid_delta::{DeltaDecoder, DeltaEncoder, Error, Interval, Method, Stretch};
    ///
    /// let base: Vec<u8> = (0..20_000_u32).flat_map(|number| (number * number).to_le_bytes()).collect();
    /// let target = [&base[..40_000], b"inserted", &base[40_000..]].concat();
    /// let mut delta = Vec::new();
    /// DeltaEncoder::new().encode(Method::AnchorZstd { level: 3, interval: Interval::I32 }, &base, &target, &mut delta)?;
    ///
    /// let mut bytes_read = 0;
    /// let outline = DeltaDecoder::new().outline(base.len(), &delta, target.len(), |stretches, out| {
    ///     for stretch in stretches {
    ///         out.extend_from_slice(&base[stretch.start as usize..stretch.end as usize]);
    ///     }
    ///     bytes_read = out.len();
    ///     Ok::<(), Error>(())
    /// })?;
    /// assert!(bytes_read < 200 && outline.memory() < 200);
    /// let stretches: Vec<Stretch> = outline.stretches(39_990..40_018).collect();
    /// assert_eq!(stretches, [Stretch::Base(39_990..40_000), Stretch::Own(b"inserted"), Stretch::Base(40_000..40_010)]);
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

    /// Bytes of memory it holds between calls.
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

/// What a delta says of itself: its codec, and how long the target is, bytes.
///
/// # Errors
/// Whatever is wrong with these two.
///
/// ```
/// # use ibid_delta::{Codec, DeltaEncoder, Interval, Method, describe};
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

/// The codec, the target's length and the body.
fn take_head(delta: &[u8], target_max: u64) -> Result<(Codec, usize, &[u8]), Error> {
    let (&number, mut rest) = delta.split_first().ok_or(Error::Truncated { field: "delta codec" })?;
    let codec = Codec::from_number(number)?;
    let length = varint::take("target length", &mut rest)?;
    let length = in_range("target length", length, 0, target_max.min(LENGTH_MAX))?;
    Ok((codec, length as usize, rest))
}
