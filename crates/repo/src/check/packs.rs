//! Every pack: its directory against the index, and perhaps all of its bytes.

use super::hanging::Cause;
use super::{CheckReport, Checking, ReadData, is_fault};
use crate::chunks::FrameReader;
use crate::edges::usable;
use crate::error::BaseFault;
use crate::index::{Frame, Pack, Place};
use crate::load::read_directory;
use crate::repository::{folder, name_in};
use crate::threads::spawn;
use crate::{Counters, Error, Result};
use ibid_format::pack::{FrameSummary, Summary};
use ibid_format::{FileId, FileKind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

impl Checking<'_> {
    /// Directories of all packs against the index; all bytes of some.
    pub(super) fn packs(&self, read: ReadData, report: &mut CheckReport) -> Result<()> {
        let packs = &self.loaded.index.packs;
        let mut frames: Vec<Vec<(u32, Frame)>> = vec![Vec::new(); packs.len()];
        for (frame, number) in self.loaded.index.frames.iter().zip(0..) {
            frames[frame.pack as usize].push((number, *frame));
        }
        let counters = &self.monitor.counters;
        let chosen = choose(packs, read);
        let total = packs
            .iter()
            .zip(&chosen)
            .filter(|(_, chosen)| **chosen)
            .map(|(pack, _)| pack.size)
            .sum();
        counters.bytes_total.store(total, Ordering::Relaxed);
        counters.totals_final.store(true, Ordering::Relaxed);
        let next = AtomicUsize::new(0);
        let failure = Mutex::new(None);
        let fail = |error| {
            failure
                .lock()
                .expect("no holder of this lock panics")
                .get_or_insert(error);
            next.store(packs.len(), Ordering::Relaxed);
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let started = spawn(scope, || {
                    let mut reader = FrameReader::default();
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= packs.len() || self.monitor.is_cancelled() {
                            return;
                        }
                        if let Err(error) = self.pack(n, &frames[n], chosen[n], &mut reader) {
                            return fail(error);
                        }
                    }
                });
                if let Err(error) = started {
                    return fail(error);
                }
            }
        });
        self.monitor.check_cancelled()?;
        if let Some(error) = failure.into_inner().expect("no holder of this lock panics") {
            return Err(error);
        }
        report.packs = packs.len() as u64;
        report.packs_read = chosen.iter().filter(|chosen| **chosen).count() as u64;
        report.bytes_read = counters.bytes.load(Ordering::Relaxed);
        report.pack_bytes = packs.iter().map(|pack| pack.size).sum();
        Ok(())
    }

    fn pack(&self, number: usize, frames: &[(u32, Frame)], read: bool, reader: &mut FrameReader) -> Result<()> {
        let pack = self.loaded.index.packs[number];
        let object = name_in(folder::PACKS, pack.id).to_string();
        let summary = match read_directory(self.repository, pack.id, pack.size) {
            Ok(summary) => Some(summary),
            Err(error) if is_fault(&error) => {
                self.fault(&object, error.problem());
                None
            }
            Err(error) => return Err(error),
        };
        if let Some(summary) = &summary {
            self.compare(number as u32, frames, summary, &object);
        }
        if read {
            self.magic(pack.id, &object)?;
            for (n, (number, frame)) in frames.iter().enumerate() {
                if self.monitor.is_cancelled() {
                    return Ok(());
                }
                let listed = summary.as_ref().and_then(|summary| summary.frames.get(n));
                self.frame(*number, frame, listed, reader)?;
                Counters::add(&self.monitor.counters.bytes, u64::from(frame.sealed));
            }
        }
        Ok(())
    }

    /// The first bytes of a pack, which no seal covers.
    fn magic(&self, id: FileId, object: &str) -> Result<()> {
        let kind = FileKind::Pack;
        let mut magic = kind.magic();
        let name = name_in(folder::PACKS, id);
        let read = self
            .repository
            .storage
            .read_at(&name, 0, &mut magic)
            .map_err(Error::from);
        match read.and_then(|()| kind.check(&magic).map_err(Error::damaged(object))) {
            Err(error) if is_fault(&error) => self.fault(object, error.problem()),
            result => result?,
        }
        Ok(())
    }

    /// The index against what the pack says of itself.
    fn compare(&self, number: u32, frames: &[(u32, Frame)], summary: &Summary, object: &str) {
        let same = frames.len() == summary.frames.len()
            && frames.iter().zip(&summary.frames).all(|((_, a), b)| {
                (a.offset, a.sealed, a.depth) == (b.offset, b.sealed, b.depth) && usize::from(a.blobs) == b.blobs.len()
            });
        if !same {
            self.fault(object, "the index lists other frames than the pack's own directory");
            return;
        }
        for ((known, _), listed) in frames.iter().zip(&summary.frames) {
            if self.loaded.lost.contains(known) {
                continue;
            }
            if listed
                .bases
                .iter()
                .any(|&base| usable(self.loaded, base, listed.depth).is_none())
            {
                self.bad().lacks_bases = true;
            }
            for (blob, slot) in listed.blobs.iter().zip(0u16..) {
                // The same chunk may lie in two packs; the index knows one.
                match self.loaded.index.get(&blob.id) {
                    None => self.fault(
                        object,
                        format!("chunk {} is in the pack's directory, but not in the index", blob.id),
                    ),
                    Some(place) => {
                        let frame = self.loaded.index.frame(place.frame);
                        if frame.pack == number && frame.offset == listed.offset && place.slot != slot {
                            self.fault(
                                object,
                                format!("chunk {} is in slot {slot}, but the index says {}", blob.id, place.slot),
                            );
                        }
                    }
                }
            }
        }
    }

    /// One frame: seal, compression, and every chunk against its id.
    fn frame(&self, number: u32, frame: &Frame, listed: Option<&FrameSummary>, reader: &mut FrameReader) -> Result<()> {
        let keys = &self.repository.keys;
        let opened = match reader.open(&self.bodies, number, None) {
            Ok(opened) => opened,
            Err(error) if is_fault(&error) => {
                self.unreadable(number, frame, &error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let blobs = listed.map_or(&[][..], |listed| &listed.blobs);
        let mut wrong = 0;
        for (blob, slot) in blobs.iter().zip(0u16..) {
            if opened.id(keys, slot) != Some(blob.id) {
                wrong += 1;
                self.bad().places.insert(Place { frame: number, slot });
            }
        }
        if wrong > 0 {
            let (pack, offset) = (self.loaded.index.pack(frame.pack).id, frame.offset);
            let problem = format!("{wrong} chunks of the frame at offset {offset} have other bytes than their ids say");
            self.bad().causes.insert((pack, offset), Cause::Chunks(problem));
        }
        Ok(())
    }

    /// A frame can't be read: for a reason of its own, or since it hangs on another. Then that one is to blame, even if nobody reads it.
    fn unreadable(&self, number: u32, frame: &Frame, error: &Error) {
        let index = &self.loaded.index;
        let mut bad = self.bad();
        let Error::BaseUnreadable { base, fault, .. } = error else {
            bad.frames.insert(number);
            let at = (index.pack(frame.pack).id, frame.offset);
            bad.causes.insert(at, Cause::frame(frame.offset, error));
            return;
        };
        bad.hanging.insert(number);
        match fault {
            BaseFault::Unreadable { pack, offset, error } => {
                let cause = Cause::frame(*offset, error);
                bad.causes.entry((*pack, *offset)).or_insert(cause);
            }
            BaseFault::Damaged { pack, offset } => {
                let problem = format!("a chunk of the frame at offset {offset} has other bytes than its id says");
                bad.causes.entry((*pack, *offset)).or_insert(Cause::Chunks(problem));
                bad.places.extend(index.find(*base).map(|(_, place)| place));
            }
            _ => drop(bad.unexplained.insert(number, error.problem())),
        }
    }
}

/// Which packs are to be read whole: of a share, so many that it is reached, the smallest by a fingerprint of id and seed. There is always one.
fn choose(packs: &[Pack], read: ReadData) -> Vec<bool> {
    let ReadData::Share { share, seed } = read else {
        return vec![read == ReadData::All; packs.len()];
    };
    let order = |pack: &Pack| {
        // SplitMix64's last steps: ids are random, but somebody else chose them.
        let mut z = u64::from_le_bytes(pack.id.0[..8].try_into().expect("8 bytes")) ^ seed;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    };
    let mut numbers: Vec<usize> = (0..packs.len()).collect();
    numbers.sort_unstable_by_key(|&n| order(&packs[n]));
    let count = (packs.len() as f64 * share.clamp(0.0, 1.0)).ceil() as usize;
    let mut chosen = vec![false; packs.len()];
    for &n in &numbers[..count] {
        chosen[n] = true;
    }
    chosen
}
