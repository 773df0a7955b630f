//! Checks every pack's directory against the index, and selects the packs to read completely.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ibid_format::pack::PackSummary;
use ibid_format::{FileId, FileKind};

use super::checking::Checking;
use super::dependents::counted;
use super::order::Plan;
use super::report::{CheckReport, ReadData};
use crate::index::{Frame, Pack, find_base};
use crate::layout::{folder, name_in};
use crate::{Error, Result};

impl Checking<'_> {
    /// Checks the directories of all packs against the index, and all bytes of selected packs but those that were
    /// read before and are `intact`. Returns whether it has read each, by number.
    pub(super) fn packs(
        &self,
        read: ReadData,
        intact: &HashSet<FileId>,
        report: &mut CheckReport,
    ) -> Result<Vec<bool>> {
        let packs: Vec<(u32, Pack)> = self.loaded.index.packs().collect();
        let counters = &self.monitor.counters;
        let mut chosen = choose(&packs, self.loaded.index.pack_count(), read);
        for (number, pack) in packs.iter().filter(|(_, pack)| self.archived.contains(&pack.id)) {
            chosen[*number as usize] = false;
            report.archived.packs += 1;
            report.archived.bytes += pack.size;
        }
        for (number, _) in packs.iter().filter(|(_, pack)| intact.contains(&pack.id)) {
            report.packs_read += u64::from(std::mem::take(&mut chosen[*number as usize]));
        }
        let total: u64 = packs
            .iter()
            .filter(|(number, _)| chosen[*number as usize])
            .map(|(_, pack)| pack.size)
            .sum();
        let before = self.bytes_read.load(Ordering::Relaxed);
        counters.bytes_total.store(before + total, Ordering::Relaxed);
        counters.totals_final.store(true, Ordering::Relaxed);
        let reads = chosen.contains(&true);
        let frames = if reads { self.loaded.index.stored_frames() } else { 0 };
        let plan = Mutex::new(Plan::new(&self.scratch, frames)?);
        let next = AtomicUsize::new(0);
        self.side_by_side(
            packs.len(),
            self.repository.files.storage.is_remote(),
            || next.store(packs.len(), Ordering::Relaxed),
            || {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= packs.len() || self.monitor.is_cancelled() {
                        return Ok(());
                    }
                    let (number, pack) = packs[n];
                    self.pack(number, &pack, chosen[number as usize], reads.then_some(&plan))?;
                }
            },
        )?;
        for pack in &self.loaded.longer {
            let bytes = counted(pack.excess, "byte", "bytes");
            self.fault(name_in(folder::PACKS, pack.id), format!("{bytes} longer than expected"));
        }
        if reads {
            let plan = plan.into_inner().expect("no holder of this lock panics");
            self.frames(plan, &chosen)?;
        }
        report.packs = packs.len() as u64;
        report.packs_read += chosen.iter().filter(|chosen| **chosen).count() as u64;
        report.bytes_read = self.bytes_read.load(Ordering::Relaxed);
        report.pack_bytes = packs.iter().map(|(_, pack)| pack.size).sum();
        Ok(chosen)
    }

    /// Adds the packs that were read and whose frames can all be decoded.
    pub(super) fn whole(&self, chosen: &[bool], whole: &mut HashSet<FileId>) {
        let index = &self.loaded.index;
        let damage = self.damage();
        let bad = damage.frames.iter().chain(damage.dependents.iter());
        let bad: HashSet<u32> = bad.map(|frame| index.frame(frame).pack).collect();
        let read = index.packs().filter(|(number, _)| chosen[*number as usize]);
        whole.extend(
            read.filter(|(number, _)| !bad.contains(number))
                .map(|(_, pack)| pack.id),
        );
    }

    /// Checks a pack's directory, and its first bytes if it is to be read.
    fn pack(&self, number: u32, pack: &Pack, read: bool, plan: Option<&Mutex<Plan>>) -> Result<()> {
        if self.archived.contains(&pack.id) {
            return Ok(());
        }
        let (first, frames) = self.frames_of(number);
        let object = name_in(folder::PACKS, pack.id).to_string();
        if self.loaded.index.cut_to(number).is_some() {
            // Its directory was at the end. It is reported once it is known what needs what is gone.
            self.damage().lacks_bases |= frames.iter().any(|frame| frame.depth > 0);
            return if read { self.magic(pack.id, &object) } else { Ok(()) };
        }
        if let Some(rehearsal) = &self.repository.files.rehearsal {
            let files = &self.repository.files;
            let begins = frames.last().map_or(0, Frame::end);
            let first = self.loaded.index.directory_length(files, number);
            rehearsal.spare_get(first);
            // It begins where the frames end.
            let whole = pack.size.saturating_sub(begins);
            if whole > first {
                rehearsal.spare_get(whole - ibid_format::pack::TRAILER);
            }
            if read {
                rehearsal.spare_get(FileKind::Pack.magic().len() as u64);
            }
            return Ok(());
        }
        match self.loaded.index.read_directory(&self.repository.files, number) {
            Ok(summary) => {
                self.compare(number, first, &frames, &summary, &object);
                if let Some(plan) = plan {
                    let mut plan = plan.lock().expect("no holder of this lock panics");
                    plan.add(self.loaded, &self.repository.files.keys, first, frames.len(), &summary)?;
                }
            }
            // That it does not begin as a pack says no more.
            Err(error) if error.is_fault() => {
                self.fault(&object, error.problem());
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        if read {
            self.magic(pack.id, &object)?;
        }
        Ok(())
    }

    /// Checks the first bytes of a pack, which no seal covers.
    fn magic(&self, id: FileId, object: &str) -> Result<()> {
        let kind = FileKind::Pack;
        let mut magic = kind.magic();
        let name = name_in(folder::PACKS, id);
        let read = self
            .repository
            .files
            .storage
            .read_at(&name, 0, &mut magic)
            .map_err(Error::from);
        match read.and_then(|()| kind.check(&magic).map_err(Error::damaged(object))) {
            Err(error) if error.is_fault() => self.fault(object, error.problem()),
            result => result?,
        }
        Ok(())
    }

    /// Compares the index with a pack's directory.
    fn compare(&self, number: u32, first: u32, frames: &[Frame], summary: &PackSummary, object: &str) {
        let same = frames.len() == summary.frames.len()
            && frames.iter().zip(&summary.frames).all(|(a, b)| {
                (a.offset, a.sealed, a.depth) == (b.offset, b.sealed, b.depth) && usize::from(a.blobs) == b.blobs.len()
            });
        if !same {
            self.fault(object, "the index lists other frames than the pack's own directory");
            return;
        }
        for (known, listed) in (first..).zip(&summary.frames) {
            if self.loaded.index.lost().contains(known) {
                continue;
            }
            if listed
                .bases
                .iter()
                .any(|&base| find_base(self.loaded, base, listed.depth).is_none())
            {
                self.damage().lacks_bases = true;
            }
            for (blob, slot) in listed.blobs.iter().zip(0u16..) {
                // The same chunk may be in two packs; the index names one.
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
}

/// Selects the packs to read completely: for a share, those with the smallest hash of id and seed
/// until the share is reached, and at least one. Returns whether each is selected, by number.
fn choose(packs: &[(u32, Pack)], count: u32, read: ReadData) -> Vec<bool> {
    let ReadData::Share { share, seed } = read else {
        let mut chosen = vec![false; count as usize];
        let all = packs.iter().filter(|_| read == ReadData::All);
        all.for_each(|(number, _)| chosen[*number as usize] = true);
        return chosen;
    };
    let order = |pack: &Pack| {
        // SplitMix64's last steps. Ids are random, but an attacker may have chosen them.
        let mut z = u64::from_le_bytes(pack.id.0[..8].try_into().expect("8 bytes")) ^ seed;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    };
    let mut numbers: Vec<usize> = (0..packs.len()).collect();
    numbers.sort_unstable_by_key(|&n| order(&packs[n].1));
    let most = (packs.len() as f64 * share.clamp(0.0, 1.0)).ceil() as usize;
    let mut chosen = vec![false; count as usize];
    for &n in &numbers[..most] {
        chosen[packs[n].0 as usize] = true;
    }
    chosen
}
