//! Finds the packs that are damaged, and the frames in them that are not.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ibid_format::FileKind;
use ibid_format::pack::PackSummary;
use ibid_storage::ErrorKind;

use super::Repairing;
use crate::index::{Frame, Pack};
use crate::layout::{folder, name_in};
use crate::threads::{cores, scope, spawn};
use crate::{Error, ProgressCounters, Result};

/// A pack with damaged bytes, or of the wrong length.
pub(super) struct DamagedPack {
    pub(super) pack: Pack,
    /// What is wrong with it.
    pub(super) problem: String,
    /// Its directory, if that can be read.
    pub(super) summary: Option<PackSummary>,
    /// Its frames in order, and whether each opens.
    pub(super) frames: Vec<(Frame, bool)>,
}

impl DamagedPack {
    /// Returns the number of frames that do not open.
    pub(super) fn lost(&self) -> u64 {
        self.frames.iter().filter(|(_, opens)| !opens).count() as u64
    }
}

/// What is known of a pack after it was read.
enum Examined {
    Whole,
    Damaged(DamagedPack),
    /// It can't be read now.
    Closed(String),
}

impl Repairing<'_> {
    /// Reads all packs that have frames left. Returns the damaged ones, in the order of the index.
    pub(super) fn examine(&mut self) -> Result<Vec<DamagedPack>> {
        let mut packs: Vec<(u32, Pack)> = self.loaded.index.packs().collect();
        let archived = self.repository.archived_packs()?;
        // That can't be known of what is cut short.
        let is_archived =
            |number: u32, pack: &Pack| archived.contains_key(&pack.id) && self.loaded.index.cut_to(number).is_none();
        for (_, pack) in packs.iter().filter(|(number, pack)| is_archived(*number, pack)) {
            self.report.archived.packs += 1;
            self.report.archived.bytes += pack.size;
        }
        packs.retain(|(number, pack)| !is_archived(*number, pack));
        let counters = &self.monitor.counters;
        let total = packs.iter().map(|(_, pack)| pack.size).sum();
        counters.bytes_total.store(total, Ordering::Relaxed);
        counters.totals_final.store(true, Ordering::Relaxed);
        let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || -> Result<()> {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some((number, pack)) = packs.get(at) else {
                    return Ok(());
                };
                self.monitor.check_cancelled()?;
                let examined = self.examine_pack(*number, pack)?;
                ProgressCounters::add(&counters.bytes, pack.size);
                if !matches!(examined, Examined::Whole) {
                    found
                        .lock()
                        .expect("no holder of this lock panics")
                        .push((*pack, examined));
                }
            }
        };
        let failure = Mutex::new(None);
        let fail = |error| {
            next.store(packs.len(), Ordering::Relaxed);
            failure
                .lock()
                .expect("no holder of this lock panics")
                .get_or_insert(error);
        };
        let cores = cores();
        let threads = cores.min(8).min(self.repository.readers_max(&self.loaded));
        scope(|scope| {
            for _ in 0..threads {
                if let Err(error) = spawn(scope, || work().unwrap_or_else(&fail)) {
                    return fail(error);
                }
            }
        });
        if let Some(error) = failure.into_inner().expect("no holder of this lock panics") {
            return Err(error);
        }
        let mut found = found.into_inner().expect("no holder of this lock panics");
        found.sort_by_key(|(pack, _)| pack.first_frame);
        self.report.packs = packs.len() as u64;
        let mut damaged = Vec::new();
        for (pack, examined) in found {
            match examined {
                Examined::Whole => {}
                Examined::Damaged(pack) => damaged.push(pack),
                Examined::Closed(problem) => self.leave(name_in(folder::PACKS, pack.id), problem),
            }
        }
        Ok(damaged)
    }

    /// Reads a pack. Its frames are read if anything else is wrong with it, too.
    fn examine_pack(&self, number: u32, pack: &Pack) -> Result<Examined> {
        let (index, files) = (&self.loaded.index, &self.repository.files);
        let mut problems = Vec::new();
        let frames: Vec<(u32, Frame)> = index
            .frames_of(number)
            .map(|number| (number, index.frame(number)))
            .collect();
        // What a writer has signed was decoded: a frame that does not hold what it should must not become a keeper's.
        let is_doubted = self.loaded.is_doubted(number);
        if let Some(longer) = self.loaded.longer.iter().find(|longer| longer.id == pack.id) {
            problems.push(format!("{} bytes longer than expected", longer.excess));
        }
        let mut summary = None;
        if let Some(size) = index.cut_to(number) {
            problems.push(format!("{} bytes are missing at its end", pack.size - size));
        } else {
            match index.read_directory(files, number) {
                Ok(read) if lists(&read, &frames) => summary = Some(read),
                Ok(_) => {
                    let problem = "the index lists other frames than the pack's own directory";
                    return Ok(Examined::Closed(problem.to_owned()));
                }
                Err(error) if error.is_of_content() => problems.push(format!("its directory is {}", error.problem())),
                Err(error) if error.is_fault() => return Ok(Examined::Closed(error.problem())),
                Err(error) => return Err(error),
            }
        }
        match self.check_magic(pack) {
            Ok(()) => {}
            Err(error) if error.is_of_content() => problems.push("its first bytes are damaged".to_owned()),
            Err(error) if error.is_fault() => return Ok(Examined::Closed(error.problem())),
            Err(error) => return Err(error),
        }
        if self.options.fast && problems.is_empty() {
            return Ok(Examined::Whole);
        }
        let (mut read, mut is_damaged) = (Vec::with_capacity(frames.len()), false);
        for (number, frame) in frames {
            let is_false = is_doubted && index.lost().contains(number);
            match self.opens(pack, &frame) {
                Ok(opens) => {
                    is_damaged |= !opens;
                    read.push((frame, opens && !is_false));
                }
                Err(error) if error.is_fault() => return Ok(Examined::Closed(error.problem())),
                Err(error) => return Err(error),
            }
        }
        let lost = read.iter().filter(|(_, opens)| !opens).count();
        // If all it says can be read, and not all of it is true, it stays: a prune deals with it.
        if lost > 0 && (is_damaged || !problems.is_empty()) {
            problems.push(format!("{lost} of {} frames are lost", read.len()));
        }
        if problems.is_empty() {
            return Ok(Examined::Whole);
        }
        Ok(Examined::Damaged(DamagedPack {
            pack: *pack,
            problem: problems.join("; "),
            summary,
            frames: read,
        }))
    }

    /// Returns whether a frame of a pack opens.
    fn opens(&self, pack: &Pack, frame: &Frame) -> Result<bool> {
        self.monitor.check_cancelled()?;
        if self.loaded.index.is_cut_off(frame) {
            return Ok(false);
        }
        let mut sealed = vec![0; frame.sealed as usize];
        match self.repository.files.read_frame(pack, frame.offset, &mut sealed, false) {
            Ok((opened, _)) => Ok(opened.is_ok()),
            Err(Error::Storage(error)) if error.kind() == ErrorKind::Truncated => Ok(false),
            // Without its header, nothing of a writer's pack can be opened.
            Err(error) if error.is_of_content() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Checks the first bytes of a pack, which no seal covers.
    fn check_magic(&self, pack: &Pack) -> Result<()> {
        let name = name_in(folder::PACKS, pack.id);
        let mut magic = FileKind::Pack.magic();
        self.repository.files.storage.read_at(&name, 0, &mut magic)?;
        FileKind::Pack.check(&magic).map_err(Error::damaged(name))
    }
}

/// Returns whether a directory lists the frames that the index has.
fn lists(summary: &PackSummary, frames: &[(u32, Frame)]) -> bool {
    summary.frames.len() == frames.len()
        && frames.iter().zip(&summary.frames).all(|((_, known), listed)| {
            (known.offset, known.sealed, known.depth) == (listed.offset, listed.sealed, listed.depth)
                && usize::from(known.blobs) == listed.blobs.len()
        })
}
