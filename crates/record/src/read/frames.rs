//! Records that are compressed together, in frames of blocks.

use std::ops::{Bound, ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError};

use ibid_format::record::{BlockFrameDecoder, Place, Places, frame_of_block, records_of_frame};

use crate::engine::{Direction, Read, Table, Transaction};
use crate::error::{Damage, Error};
use crate::recent::Recent;

/// Bytes that a record takes in a frame's directory, about.
const RECORD_BYTES: usize = 24;

/// A frame, decompressed.
#[derive(Debug)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    /// Numbers of the records, ascending, and where they lie.
    records: Vec<(u64, Range<usize>)>,
}

impl Frame {
    fn new(bytes: Vec<u8>, records: usize) -> Result<Self, ibid_format::Error> {
        let start = bytes.as_ptr() as usize;
        let place = |(number, record): (u64, &[u8])| {
            let from = record.as_ptr() as usize - start;
            (number, from..from + record.len())
        };
        let mut records: Vec<_> = records_of_frame(&bytes, records)?.into_iter().map(place).collect();
        records.sort_unstable_by_key(|(number, _)| *number);
        Ok(Frame { bytes, records })
    }

    /// A record, as it is in a frame.
    pub(crate) fn record(&self, number: u64) -> Option<&[u8]> {
        let place = self.records.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(&self.bytes[self.records[place].1.clone()])
    }
}

/// Reads frames, and keeps those that were read last.
///
/// A block's number is not given twice while a store is open, so what is kept is right for every
/// snapshot.
pub(crate) struct Frames {
    recent: Mutex<Recent<Place, Arc<Frame>>>,
    decoders: Mutex<Vec<BlockFrameDecoder>>,
}

impl Frames {
    /// Keeps frames of so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Frames {
            recent: Mutex::new(Recent::new(bytes)),
            decoders: Mutex::default(),
        }
    }

    /// The frame that a record lies in, if it lies in one.
    pub(crate) fn of(&self, read: &(impl Read + ?Sized), number: u64) -> Result<Option<Arc<Frame>>, Error> {
        match places(read, number)?.get(number) {
            Some(place) => self.at(read, place).map(Some),
            None => Ok(None),
        }
    }

    /// The frame at a place.
    pub(crate) fn at(&self, read: &(impl Read + ?Sized), place: Place) -> Result<Arc<Frame>, Error> {
        if let Some(frame) = self.recent.lock().unwrap_or_else(PoisonError::into_inner).get(place) {
            return Ok(frame);
        }
        let decoder = self.decoders.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut decoder = decoder.unwrap_or_default();
        let mut bytes = Vec::new();
        let key = place.block.to_be_bytes();
        let mut decoded = Err(Damage::Missing);
        let mut found = |block: &[u8]| {
            let frame = frame_of_block(place.block, block, place.frame);
            let frame = frame.and_then(|frame| decoder.decode(&frame, &mut bytes).map(|()| frame.records()));
            decoded = frame.map_err(Damage::Bytes);
        };
        read.get(Table::Blocks, &key, &mut found)?;
        let frame = decoded.and_then(|records| Ok(Frame::new(bytes, records)?));
        let frame = Arc::new(frame.map_err(|damage| Error::damaged(Table::Blocks, &key, damage))?);
        self.decoders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(decoder);
        let size = frame.bytes.len() + RECORD_BYTES * frame.records.len();
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.insert(place, frame.clone(), size);
        Ok(frame)
    }
}

/// Where the records of the group of one are.
pub(crate) fn places(read: &(impl Read + ?Sized), number: u64) -> Result<Places, Error> {
    let (group, key) = Places::group_of(number);
    let mut places = Ok(Places::default());
    read.get(Table::Places, &key, &mut |value| places = Places::decode(group, value))?;
    places.map_err(|error| Error::damaged(Table::Places, &key, error))
}

/// Adds the numbers of records in frames after `after`, ascending, `limit` at most or a group more.
pub(crate) fn placed(
    read: &(impl Read + ?Sized),
    after: u64,
    limit: usize,
    numbers: &mut Vec<u64>,
) -> Result<(), Error> {
    let before = numbers.len();
    let mut damage = None;
    let mut each = |key: &[u8], value: &[u8]| {
        let group = key.try_into().map_or(u64::MAX, u64::from_be_bytes);
        match Places::decode(group, value) {
            Ok(places) => numbers.extend(
                places
                    .iter(group)
                    .map(|(number, _)| number)
                    .filter(|&number| number > after),
            ),
            Err(error) => damage = Some(Error::damaged(Table::Places, key, error)),
        }
        if damage.is_some() || numbers.len() - before >= limit {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let (_, from) = Places::group_of(after);
    let range = (Bound::Included(&from[..]), Bound::Unbounded);
    read.range(Table::Places, range, Direction::Forward, &mut each)?;
    damage.map_or(Ok(()), Err)
}

/// Writes where the records of a group are.
pub(crate) fn put_places(transaction: &mut dyn Transaction, group: u64, places: &Places) -> Result<(), Error> {
    let key = group.to_be_bytes();
    if places.is_empty() {
        return Ok(transaction.delete(Table::Places, &key)?);
    }
    let value = places
        .encode(group)
        .map_err(|error| Error::damaged(Table::Places, &key, error))?;
    Ok(transaction.put(Table::Places, &key, &value)?)
}

/// Says that a record lies in no frame any more.
pub(crate) fn take_out(transaction: &mut dyn Transaction, number: u64) -> Result<(), Error> {
    let mut places = places(transaction, number)?;
    if places.get(number).is_some() {
        places.set(number, None);
        put_places(transaction, Places::group_of(number).0, &places)?;
    }
    Ok(())
}
