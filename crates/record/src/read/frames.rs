//! Frames: records that were compressed together, several in a block.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use ibid_format::record::{
    BlockFrame, BlockFrameDecoder, BlockHead, Body, Place, Places, Record, frame_of_block, records_of_frame,
};

use super::cache::Cache;
use crate::engine::{Read, Table};
use crate::error::{Damage, Error};

/// About how many bytes a record takes in the directory of a frame in memory.
const RECORD_BYTES: usize = 24;

/// Most bytes of a frame beside a long body: other records, and a directory.
const OTHER_BYTES_MAX: usize = 1 << 20;

/// Bytes that the heads of a block have hardly ever more of.
const HEAD_BYTES: usize = 2 << 10;

/// Returns the heads of a block's frames, without reading the others.
pub(crate) fn head_of(read: &(impl Read + ?Sized), block: u64) -> Result<BlockHead, Error> {
    let key = block.to_be_bytes();
    let mut head = Err(Damage::Missing);
    for length in [HEAD_BYTES, BlockHead::BYTES_MAX] {
        let mut is_longer = false;
        let mut found = |begin: &[u8]| {
            let decoded = BlockHead::decode(block, begin);
            // What is cut off has no checksum, or none that is right.
            is_longer = decoded.is_err() && begin.len() == length;
            head = decoded.map_err(|error| Damage::of(begin, error));
        };
        read.get_part(Table::Blocks, &key, 0, length, &mut found)?;
        if !is_longer {
            break;
        }
    }
    head.map_err(|damage| Error::damaged(Table::Blocks, &key, damage))
}

/// A frame as it is stored.
type Packed<'b> = Result<BlockFrame<&'b [u8]>, Damage>;

/// Shows a frame as it is stored to `found`, if there is the block.
fn show_packed(read: &(impl Read + ?Sized), place: Place, found: &mut dyn FnMut(Packed<'_>)) -> Result<(), Error> {
    let Place { block, frame } = place;
    let key = block.to_be_bytes();
    if !read.reads_parts() {
        let mut whole = |bytes: &[u8]| {
            let frame = frame_of_block(block, bytes, frame);
            found(frame.map_err(|error| Damage::of(bytes, error)));
        };
        return Ok(read.get(Table::Blocks, &key, &mut whole).map(drop)?);
    }
    let head = head_of(read, block)?;
    let at = head.place(frame);
    let at = at.map_err(|error| Error::damaged(Table::Blocks, &key, error))?;
    let mut packed = |bytes: &[u8]| {
        let frame = head.frame(frame, bytes);
        found(frame.map_err(|error| Damage::of(bytes, error)));
    };
    let length = (at.end - at.start) as usize;
    Ok(read
        .get_part(Table::Blocks, &key, at.start, length, &mut packed)
        .map(drop)?)
}

/// A decompressed frame.
#[derive(Debug)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    /// The numbers of the records, ascending, and where each is in `bytes`.
    records: Vec<(u64, Range<usize>)>,
}

impl Frame {
    fn new(bytes: Vec<u8>, records: usize) -> Result<Self, ibid_format::Error> {
        let start = bytes.as_ptr() as usize;
        let locate = |(number, record): (u64, &[u8])| {
            let from = record.as_ptr() as usize - start;
            (number, from..from + record.len())
        };
        let mut records: Vec<_> = records_of_frame(&bytes, records)?.into_iter().map(locate).collect();
        records.sort_unstable_by_key(|(number, _)| *number);
        Ok(Frame { bytes, records })
    }

    /// Returns the bytes of a record, which [`Record::decode_packed`] reads.
    ///
    /// [`Record::decode_packed`]: ibid_format::record::Record::decode_packed
    pub(crate) fn record(&self, number: u64) -> Option<&[u8]> {
        let place = self.records.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(&self.bytes[self.records[place].1.clone()])
    }

    /// Returns how many bytes it takes in memory.
    pub(super) fn memory(&self) -> usize {
        self.bytes.len() + RECORD_BYTES * self.records.len()
    }

    /// Returns whether it has one record only, which is whole.
    fn is_one_whole_record(&self) -> bool {
        let [(number, place)] = &self.records[..] else {
            return false;
        };
        Record::decode_packed(*number, &self.bytes[place.clone()])
            .is_ok_and(|record| matches!(record.body, Body::Whole(_)))
    }
}

/// Reads frames, and caches those that were used last.
pub(crate) struct Frames {
    pub(super) cache: Cache,
    decoders: Mutex<Vec<BlockFrameDecoder>>,
    /// Longest frame that is read, bytes.
    frame_bytes_max: usize,
}

impl Frames {
    /// Returns a reader with a cache of so many bytes. It refuses frames with a longer body than
    /// `body_bytes_max`.
    pub(crate) fn new(bytes: usize, body_bytes_max: usize) -> Self {
        Frames {
            frame_bytes_max: body_bytes_max.saturating_add(OTHER_BYTES_MAX),
            cache: Cache::new(bytes),
            decoders: Mutex::default(),
        }
    }

    /// Returns the frame that a record is in; [`None`] if it is in none.
    pub(crate) fn of(&self, read: &(impl Read + ?Sized), number: u64) -> Result<Option<Arc<Frame>>, Error> {
        match self.place_of(read, number)? {
            Some(place) => self.at(read, place).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the place of a record; [`None`] if it is in no block.
    pub(super) fn place_of(&self, read: &(impl Read + ?Sized), number: u64) -> Result<Option<Place>, Error> {
        let (group, key) = Places::group_of(number);
        let mut place = Ok(None);
        read.get(Table::Places, &key, &mut |entry| {
            place = self.cache.places(group, entry, |places| places.get(number));
        })?;
        place.map_err(|error| Error::damaged(Table::Places, &key, error))
    }

    /// Returns the frame at a place.
    pub(crate) fn at(&self, read: &(impl Read + ?Sized), place: Place) -> Result<Arc<Frame>, Error> {
        if let Some(frame) = self.cache.frame(place) {
            return Ok(frame);
        }
        let decoder = self.decoders.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut decoder = decoder.unwrap_or_default();
        let mut bytes = Vec::new();
        let key = place.block.to_be_bytes();
        let mut decoded = Err(Damage::Missing);
        let mut fits = Ok(());
        let mut found = |frame: Packed<'_>| {
            if let Ok(frame) = &frame {
                fits = Error::check_body(frame.bytes(), self.frame_bytes_max);
                if fits.is_err() {
                    return;
                }
            }
            decoded = frame.and_then(|frame| {
                decoder.decode(&frame, &mut bytes)?;
                Ok(frame.records())
            });
        };
        show_packed(read, place, &mut found)?;
        fits?;
        let frame = decoded.and_then(|records| Ok(Frame::new(bytes, records)?));
        let frame = Arc::new(frame.map_err(|damage| Error::damaged(Table::Blocks, &key, damage))?);
        self.decoders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(decoder);
        // The record itself is cached instead, where it is read again.
        if !frame.is_one_whole_record() {
            self.cache.keep_frame(place, &frame);
        }
        Ok(frame)
    }
}
