//! Saves an index as bytes, which `docs/format/delta.md` describes, and loads it.

use super::table::{SLOT, Table};
use super::{ENTRIES_MAX, ENTRIES_MIN, FeatureIndex};
use crate::error::{equal, in_range};
use crate::{Error, varint};

/// The magic of this version.
const MAGIC: [u8; 8] = *b"ibidfea\x01";

impl FeatureIndex {
    /// Appends the index to `out`: one bit for each entry that it has room for, and seven bytes for
    /// each that exists.
    pub fn save(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        varint::put(out, self.partitions.len() as u64);
        for (&number, table) in &self.partitions {
            varint::put(out, number);
            out.extend_from_slice(&[table.slots().ilog2() as u8, table.clock]);
            let is_there = |entry: &usize| table.check(*entry) != 0;
            for first in (0..table.room()).step_by(8) {
                let bits = (first..first + 8)
                    .rev()
                    .fold(0, |bits, entry| bits << 1 | u8::from(is_there(&entry)));
                out.push(bits);
            }
            for entry in (0..table.room()).filter(is_there) {
                out.extend_from_slice(&table.check(entry).to_le_bytes());
                out.push(table.used(entry));
                out.extend_from_slice(&table.place(entry).to_le_bytes());
            }
        }
    }

    /// Returns the index that [`save`](FeatureIndex::save) wrote. `bytes` may be anything: an index
    /// that loads works, even if no index was saved like that.
    ///
    /// # Errors
    /// The fault in the bytes; [`Error::OutOfRange`] if the index would take more than `memory_max`
    /// bytes of memory, before any is taken.
    pub fn load_from(bytes: &[u8], memory_max: usize) -> Result<FeatureIndex, Error> {
        let mut rest = bytes;
        let magic = take::<8>("feature index magic", &mut rest)?;
        if magic != MAGIC {
            return Err(Error::Unknown {
                field: "feature index magic",
                found: u64::from_le_bytes(magic),
            });
        }
        let partitions = varint::take("partitions", &mut rest)?;
        in_range("partitions", partitions, 0, FeatureIndex::PARTITIONS_MAX)?;
        let mut index = FeatureIndex::new();
        for _ in 0..partitions {
            let number = varint::take("partition number", &mut rest)?;
            let after = index
                .partitions
                .last_key_value()
                .map_or(0, |(&last, _)| last.saturating_add(1));
            in_range("partition number", number, after, u64::MAX)?;
            let left = memory_max.saturating_sub(index.memory());
            let table = read_table(&mut rest, left)?;
            index.partitions.insert(number, table);
        }
        equal("bytes after the feature index", 0, rest.len() as u64)?;
        Ok(index)
    }
}

fn read_table(rest: &mut &[u8], memory_max: usize) -> Result<Table, Error> {
    let [slots_log, clock] = take("partition size", rest)?;
    let log = |entries: usize| u64::from((entries / SLOT).ilog2());
    let slots_log = in_range("partition size", slots_log.into(), log(ENTRIES_MIN), log(ENTRIES_MAX))? as u32;
    let entries = SLOT << slots_log;
    let memory = entries as u64 * FeatureIndex::BYTES_PER_ENTRY as u64;
    in_range("memory of a feature index", memory, 0, memory_max as u64)?;
    let (bits, after) = rest
        .split_at_checked(entries / 8)
        .ok_or(Error::Truncated { field: "entry bits" })?;
    *rest = after;

    let mut table = Table::new(slots_log);
    table.clock = clock;
    for entry in (0..entries).filter(|entry| bits[entry / 8] >> (entry % 8) & 1 == 1) {
        let [low, high, used, place @ ..] = take::<{ FeatureIndex::BYTES_PER_ENTRY }>("entry", rest)?;
        let check = u16::from_le_bytes([low, high]);
        in_range("entry check", check.into(), 1, u16::MAX.into())?;
        in_range("entry time", used.into(), 0, clock.into())?;
        table.set(entry, check, u32::from_le_bytes(place), used);
        table.len += 1;
    }
    Ok(table)
}

fn take<const N: usize>(field: &'static str, rest: &mut &[u8]) -> Result<[u8; N], Error> {
    let (taken, after) = rest.split_first_chunk().ok_or(Error::Truncated { field })?;
    *rest = after;
    Ok(*taken)
}
