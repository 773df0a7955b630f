//! The newest record of a chain of deltas.

use super::checks::{BodyCheck, CheckHash};
use super::entry::{Table, closed, opened};
use crate::Error;
use crate::error::in_range;
use crate::rice;
use crate::wire::{self, Reader};

/// Most features of a record.
pub const FEATURES_MAX: usize = 32;
/// Most copies of a body that an entry names.
pub const COPIES_MAX: usize = 64;
/// Most strides at which deltas hop.
pub const HOPS_MAX: usize = 16;
/// Bytes of a feature if the entry does not state them.
const FEATURE_BYTES: u32 = 64;
/// Least and most bytes of a feature, powers of two.
const FEATURE_BYTES_MIN: u32 = 32;
const FEATURE_BYTES_MAX: u32 = 1024;
/// Set in the number of features: a byte follows with the exponent of their bytes.
const BYTES_FOLLOW: u8 = 0x80;
/// Set in the number of features: the check of the record's body follows.
const CHECK_FOLLOWS: u8 = 0x40;
/// Set in the number of hops: the check of the record's body is made by [`CheckHash::Xxh3`].
const CHECK_BY_XXH3: u8 = 0x80;

/// The newest record of a chain, as the encoder of its next record needs it: an entry of the table
/// `chains`.
///
/// Only the encoder uses it. Without it some records take more space.
///
/// ```
/// use ibid_format::record::ChainEntry;
///
/// let (hops, features) = (vec![Some(40), None], vec![9, 7]);
/// let entry = ChainEntry { namespace: 1, position: 17, distance: 16, hops, features, ..ChainEntry::default() };
/// assert_eq!(ChainEntry::decode(42, &entry.encode(42)?)?, entry);
/// # Ok::<(), ibid_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainEntry {
    /// Number of its namespace.
    pub namespace: u32,
    /// How many records come before it in the chain.
    pub position: u64,
    /// The hop distance that `hops` go by.
    pub distance: u32,
    /// For each stride, ascending, the last record at a multiple of it, which is before this one;
    /// at most [`HOPS_MAX`].
    pub hops: Vec<Option<u64>>,
    /// Its sketch: features, descending, at most [`FEATURES_MAX`].
    pub features: Vec<u32>,
    /// Bytes that each feature is a hash of, a power of two from 32 to 1024. Features of different
    /// lengths never match.
    pub feature_bytes: u32,
    /// The checksum of its body, by which records with the same body are found.
    pub check: Option<BodyCheck>,
    /// Records that are deltas of this one because they have the same body, and were latest versions then: ascending,
    /// at most [`COPIES_MAX`]. None without a check.
    pub copies: Vec<u64>,
}

impl Default for ChainEntry {
    /// Returns an entry of namespace 0, the first of its chain, without hops and features, for
    /// features of 64 bytes.
    fn default() -> Self {
        ChainEntry {
            namespace: 0,
            position: 0,
            distance: 0,
            hops: Vec::new(),
            features: Vec::new(),
            feature_bytes: FEATURE_BYTES,
            check: None,
            copies: Vec::new(),
        }
    }
}

impl ChainEntry {
    /// Returns the entry as stored under the record's `number`, big-endian.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for a value beyond its limits, a hop to a record that is not before
    /// this one, or an invalid feature length; [`Error::Unordered`] for features that do not
    /// descend.
    pub fn encode(&self, number: u64) -> Result<Vec<u8>, Error> {
        in_range("hops of a chain", self.hops.len() as u64, 0, HOPS_MAX as u64)?;
        in_range(
            "features of a record",
            self.features.len() as u64,
            0,
            FEATURES_MAX as u64,
        )?;
        if let Some(position) = self.features.windows(2).position(|pair| pair[1] >= pair[0]) {
            let (field, position) = ("features of a record", position as u64 + 1);
            return Err(Error::Unordered { field, position });
        }
        let exponent = self.feature_bytes.checked_ilog2().unwrap_or_default();
        if self.feature_bytes != 1 << exponent {
            return Err(out_of_feature_bytes(self.feature_bytes.into()));
        }
        feature_bytes_of(exponent)?;
        let mut out = Vec::new();
        wire::put_varint(&mut out, self.namespace.into());
        wire::put_varint(&mut out, self.position);
        wire::put_varint(&mut out, self.distance.into());
        let by_xxh3 = self.check.map_or(0, |check| check.hash.mark(CHECK_BY_XXH3));
        out.push(self.hops.len() as u8 | by_xxh3);
        for &hop in &self.hops {
            if let Some(hop) = hop {
                in_range("hop of a chain", hop, 1, number.saturating_sub(1))?;
            }
            wire::put_varint(&mut out, hop.map_or(0, |hop| number - hop));
        }
        let has_bytes = self.feature_bytes != FEATURE_BYTES;
        let bytes_follow = if has_bytes { BYTES_FOLLOW } else { 0 };
        let check_follows = if self.check.is_some() { CHECK_FOLLOWS } else { 0 };
        out.push(self.features.len() as u8 | bytes_follow | check_follows);
        out.extend(has_bytes.then_some(exponent as u8));
        out.extend(self.check.iter().flat_map(|check| check.bytes));
        self.put_copies(number, &mut out)?;
        if !self.features.is_empty() {
            rice::put(&mut out, &self.features);
        }
        Ok(closed(Table::Chains, &number.to_be_bytes(), out))
    }

    /// Reads the entry stored under the record's `number`.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(number: u64, bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = opened("entry of a chain", Table::Chains, &number.to_be_bytes(), bytes)?;
        let namespace = reader.varint_u32("namespace of a chain")?;
        let position = reader.varint("position in a chain")?;
        let distance = reader.varint_u32("hop distance of a chain")?;
        let count = reader.u8("hops of a chain")?;
        let hash = CheckHash::marked_in(count, CHECK_BY_XXH3);
        let count = count & !CHECK_BY_XXH3;
        in_range("hops of a chain", count.into(), 0, HOPS_MAX as u64)?;
        let mut hops = Vec::with_capacity(count.into());
        for _ in 0..count {
            let back = reader.varint_in("hop of a chain", 0, number.saturating_sub(1))?;
            hops.push((back > 0).then(|| number - back));
        }
        let count = reader.u8("features of a record")?;
        let feature_bytes = if count & BYTES_FOLLOW == 0 {
            FEATURE_BYTES
        } else {
            feature_bytes_of(reader.u8("exponent of the bytes of a feature")?.into())?
        };
        let has_check = count & CHECK_FOLLOWS != 0;
        let bytes = has_check.then(|| reader.array("check of a body")).transpose()?;
        let check = bytes.map(|bytes| BodyCheck { hash, bytes });
        let copies = if has_check {
            read_copies(&mut reader, number)?
        } else {
            Vec::new()
        };
        let count = count & !(BYTES_FOLLOW | CHECK_FOLLOWS);
        in_range("features of a record", count.into(), 0, FEATURES_MAX as u64)?;
        let mut features = vec![0; count.into()];
        if count > 0 {
            rice::read(&mut reader, "features of a record", &mut features)?;
        }
        reader.finish("entry of a chain")?;
        Ok(ChainEntry {
            namespace,
            position,
            distance,
            hops,
            features,
            feature_bytes,
            check,
            copies,
        })
    }

    fn put_copies(&self, number: u64, out: &mut Vec<u8>) -> Result<(), Error> {
        let max = if self.check.is_some() { COPIES_MAX } else { 0 };
        in_range(COPIES, self.copies.len() as u64, 0, max as u64)?;
        if self.check.is_some() {
            wire::put_varint(out, self.copies.len() as u64);
        }
        let mut above = number;
        for &copy in self.copies.iter().rev() {
            in_range(COPIES, copy, 1, above.saturating_sub(1))?;
            wire::put_varint(out, above - copy);
            above = copy;
        }
        Ok(())
    }
}

const COPIES: &str = "copies of a body";

fn read_copies(reader: &mut Reader<'_>, number: u64) -> Result<Vec<u64>, Error> {
    let count = reader.varint_in(COPIES, 0, COPIES_MAX as u64)?;
    let mut copies = Vec::with_capacity(count as usize);
    let mut above = number;
    for _ in 0..count {
        above -= reader.varint_in(COPIES, 1, above.saturating_sub(1))?;
        copies.push(above);
    }
    copies.reverse();
    Ok(copies)
}

fn out_of_feature_bytes(found: u64) -> Error {
    let (min, max) = (FEATURE_BYTES_MIN.into(), FEATURE_BYTES_MAX.into());
    let field = "bytes of a feature";
    Error::OutOfRange { field, min, max, found }
}

fn feature_bytes_of(exponent: u32) -> Result<u32, Error> {
    let bytes = 1u32.checked_shl(exponent).unwrap_or_default();
    if (FEATURE_BYTES_MIN..=FEATURE_BYTES_MAX).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(out_of_feature_bytes(bytes.into()))
    }
}
