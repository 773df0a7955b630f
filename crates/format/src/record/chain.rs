//! The newest record of a chain of deltas, which none follows yet.

use super::entry::{Table, closed, opened};
use crate::Error;
use crate::error::in_range;
use crate::{rice, wire};

/// Most features of a record.
pub const FEATURES_MAX: usize = 32;
/// Most strides at which deltas hop.
pub const HOPS_MAX: usize = 16;

/// What the next record of a chain has to know of its newest: an entry of the table `chains`.
///
/// Of use to encode what is similar to it, and to nothing else: without it some records take more space.
///
/// ```
/// use ibid_format::record::ChainEntry;
///
/// let entry = ChainEntry { namespace: 1, position: 17, distance: 16, hops: vec![Some(40), None], features: vec![9, 7] };
/// assert_eq!(ChainEntry::decode(42, &entry.encode(42)?)?, entry);
/// # Ok::<(), ibid_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChainEntry {
    /// Number of its namespace.
    pub namespace: u32,
    /// How many records come before it in the chain.
    pub position: u64,
    /// The hop distance that `hops` go by.
    pub distance: u32,
    /// For each stride, ascending, the last record at a multiple of it, which is before this one; at most [`HOPS_MAX`].
    pub hops: Vec<Option<u64>>,
    /// Its sketch: features, descending, at most [`FEATURES_MAX`].
    pub features: Vec<u32>,
}

impl ChainEntry {
    /// The entry as stored under the record's `number`, big-endian.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for more than the limits, or a record that is not before this one; [`Error::Unordered`] for features that
    /// do not descend.
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
        let mut out = Vec::new();
        wire::put_varint(&mut out, self.namespace.into());
        wire::put_varint(&mut out, self.position);
        wire::put_varint(&mut out, self.distance.into());
        out.push(self.hops.len() as u8);
        for &hop in &self.hops {
            if let Some(hop) = hop {
                in_range("hop of a chain", hop, 1, number.saturating_sub(1))?;
            }
            wire::put_varint(&mut out, hop.map_or(0, |hop| number - hop));
        }
        out.push(self.features.len() as u8);
        if !self.features.is_empty() {
            rice::put(&mut out, &self.features);
        }
        Ok(closed(Table::Chains, &number.to_be_bytes(), out))
    }

    /// Reads the entry stored under the record's `number`.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte is not as written; else what is wrong with it.
    pub fn decode(number: u64, bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = opened("entry of a chain", Table::Chains, &number.to_be_bytes(), bytes)?;
        let namespace = reader.varint_u32("namespace of a chain")?;
        let position = reader.varint("position in a chain")?;
        let distance = reader.varint_u32("hop distance of a chain")?;
        let count = reader.u8("hops of a chain")?;
        in_range("hops of a chain", count.into(), 0, HOPS_MAX as u64)?;
        let mut hops = Vec::with_capacity(count.into());
        for _ in 0..count {
            let back = reader.varint_in("hop of a chain", 0, number.saturating_sub(1))?;
            hops.push((back > 0).then(|| number - back));
        }
        let count = reader.u8("features of a record")?;
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
        })
    }
}
