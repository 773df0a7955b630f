//! Workers of a restore: read a frame once, verify, write where its chunks belong.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crossbeam_channel::Receiver;
use ibid_format::ChunkId;
use ibid_format::tree::{Entry, EntryKind};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::attributes::Owner;
use super::finish::finish;
use super::folder::Folder;
use super::links::Links;
use super::open_files::Permit;
use super::{Overwrite, RestoreSummary, Task};
use crate::error::is_no_room;
use crate::read::{ChunkReader, FrameReader};
use crate::{Counters, Error, Result, Warning};

/// Where a file stands while it is not complete.
pub(crate) enum Standing {
    /// Under its own name, where nothing was before.
    New,
    /// Under this other name. It takes its own, and the place of what stands there, once it is
    /// complete.
    Aside(Vec<u8>),
    /// It was there and is brought up to date: chunk by chunk, each verified before.
    InPlace,
}

/// A file being restored. Whoever finishes its last part gives it its attributes.
pub(crate) struct Restoring<'a> {
    pub(crate) file: OwnedFd,
    pub(crate) standing: Standing,
    pub(crate) entry: Entry,
    pub(crate) path: PathBuf,
    pub(crate) owner: Option<Owner>,
    /// Bytes it had before; parts below that may be right already.
    pub(crate) existing: u64,
    /// Holes among these; made at the end, when all else is known to be there.
    pub(crate) holes: Mutex<Vec<(u64, u64)>>,
    /// Where it is.
    pub(crate) parent: Arc<OwnedFd>,
    pub(crate) folder: Arc<Folder<'a>>,
    /// If it has several names.
    pub(crate) links: Option<Arc<Links<'a>>>,
    /// Parts that are not done, and one for the planner while it adds more.
    pub(crate) pending: AtomicUsize,
    /// It won't be completed.
    pub(crate) failed: AtomicBool,
    /// What is lost of it, if it is to be kept nevertheless.
    pub(crate) lost: Mutex<Option<Lost>>,
    /// Whether anything was written to it.
    pub(crate) changed: AtomicBool,
    pub(crate) _permit: Permit<'a>,
}

/// What is missing of a file.
pub(crate) struct Lost {
    /// Offset and length of each piece.
    pub(crate) pieces: Vec<(u64, u64)>,
    /// Why the first one is.
    pub(crate) why: String,
}

/// One chunk and where it goes.
#[derive(Clone)]
pub(crate) struct Part<'a> {
    pub(crate) frame: u32,
    /// The frame's number among those that are handed out together.
    pub(crate) rank: u32,
    pub(crate) slot: u16,
    pub(crate) length: u32,
    pub(crate) offset: u64,
    pub(crate) id: ChunkId,
    pub(crate) file: Arc<Restoring<'a>>,
}

/// What planner and workers add to.
#[derive(Default)]
pub(crate) struct Progress {
    files: AtomicU64,
    others: AtomicU64,
    pub(crate) directories: AtomicU64,
    /// Bytes of these files.
    bytes: AtomicU64,
    written: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) damaged: AtomicU64,
    /// Which these are, if all is to be verified afterwards.
    lost: Mutex<HashSet<PathBuf>>,
    fatal: Mutex<Option<Error>>,
    stopped: AtomicBool,
}

impl Progress {
    /// Something ends it all.
    pub(crate) fn stop(&self, error: Error) {
        self.fatal
            .lock()
            .expect("no holder of this lock panics")
            .get_or_insert(error);
        self.halt();
    }

    /// Nothing more is to be begun; what is not complete goes.
    pub(crate) fn halt(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Something stands as in the snapshot under one more name.
    pub(crate) fn restored(&self, task: &Task<'_>, entry: &Entry) {
        match &entry.kind {
            EntryKind::File(content) => {
                Counters::add(&self.files, 1);
                Counters::add(&self.bytes, content.length);
                Counters::add(&task.monitor.counters.files, 1);
            }
            _ => Counters::add(&self.others, 1),
        }
    }

    /// Something was left as it is.
    pub(crate) fn kept(&self, task: &Task<'_>, entry: &Entry) {
        Counters::add(&self.kept, 1);
        if matches!(entry.kind, EntryKind::File(_)) {
            Counters::add(&task.monitor.counters.files, 1);
        }
    }

    /// Something turned out to be right already. Who compares times only has left it alone.
    pub(crate) fn right(&self, task: &Task<'_>, entry: &Entry) {
        match task.options.overwrite {
            Overwrite::IfChanged => self.kept(task, entry),
            _ => self.restored(task, entry),
        }
    }

    /// What was done and what was lost, unless something ended it all.
    pub(crate) fn into_summary(self) -> Result<(RestoreSummary, HashSet<PathBuf>)> {
        if let Some(error) = self.fatal.into_inner().expect("no holder of this lock panics") {
            return Err(error);
        }
        let summary = RestoreSummary {
            files: self.files.into_inner(),
            directories: self.directories.into_inner(),
            others: self.others.into_inner(),
            bytes: self.bytes.into_inner(),
            bytes_written: self.written.into_inner(),
            kept: self.kept.into_inner(),
            failed: self.failed.into_inner(),
            damaged: self.damaged.into_inner(),
            verified: 0,
        };
        Ok((summary, self.lost.into_inner().expect("no holder of this lock panics")))
    }
}

/// Works until there are no more groups; each holds the parts of one frame, in order of slots.
/// `bodies` are for workers together.
pub(crate) fn run(task: &Task<'_>, bodies: &ChunkReader<'_>, progress: &Progress, groups: &Receiver<Vec<Part<'_>>>) {
    let mut reader = FrameReader::default();
    let mut scratch = Vec::new();
    while let Ok(mut group) = groups.recv() {
        if progress.is_stopped() || task.monitor.is_cancelled() {
            group
                .iter()
                .for_each(|part| part.file.failed.store(true, Ordering::Relaxed));
        } else {
            group.retain(|part| !is_right_already(task, part, &mut scratch, progress));
            if !group.is_empty() {
                write_group(task, bodies, progress, &mut reader, &group);
            }
        }
        for part in group {
            finish(task, progress, &part.file);
        }
    }
}

/// Whether the file had the right bytes at this place all along; if so the part is done.
fn is_right_already(task: &Task<'_>, part: &Part<'_>, scratch: &mut Vec<u8>, progress: &Progress) -> bool {
    if part.offset + u64::from(part.length) > part.file.existing {
        return false;
    }
    scratch.resize(part.length as usize, 0);
    let mut done = 0;
    while done < scratch.len() {
        match rustix::io::pread(&part.file.file, &mut scratch[done..], part.offset + done as u64) {
            Ok(0) => return false,
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(_) => return false, // then writing it will tell
        }
    }
    if task.repository.keys.chunk_id(scratch) != part.id {
        return false;
    }
    Counters::add(&task.monitor.counters.bytes, u64::from(part.length));
    finish(task, progress, &part.file);
    true
}

fn write_group(
    task: &Task<'_>,
    bodies: &ChunkReader<'_>,
    progress: &Progress,
    reader: &mut FrameReader,
    group: &[Part<'_>],
) {
    let index = &bodies.loaded.index;
    let frame = index.frame(group[0].frame);
    Counters::add(&task.monitor.counters.stored, u64::from(frame.sealed));
    let last = group.iter().map(|part| part.slot).max();
    let opened = match reader.open(bodies, group[0].frame, last) {
        Ok(opened) => opened,
        Err(error) => {
            // One message a file says what is lost and why.
            let text = error.to_string();
            for part in group {
                let error = Error::local("restore", &part.file.path, std::io::Error::other(text.clone()));
                lose(task, progress, &part.file, part.offset, part.length.into(), error);
            }
            return;
        }
    };
    // Many files may want the same chunk: it is compared with its id once.
    let mut verified: Option<(&Part<'_>, Option<&[u8]>)> = None;
    for part in group {
        if part.file.failed.load(Ordering::Relaxed) {
            continue;
        }
        let same = |before: &Part<'_>| (before.slot, before.length, before.id) == (part.slot, part.length, part.id);
        let chunk = match verified {
            Some((before, chunk)) if same(before) => chunk,
            _ => {
                let id = opened.id(&task.repository.keys, part.slot);
                let chunk = opened.chunk(part.slot).filter(|_| id == Some(part.id));
                chunk.filter(|chunk| chunk.len() == part.length as usize)
            }
        };
        verified = Some((part, chunk));
        let Some(chunk) = chunk else {
            let (id, pack) = (part.id, index.pack(frame.pack).id);
            let error = Error::ChunkDamaged { id, pack };
            lose(task, progress, &part.file, part.offset, part.length.into(), error);
            continue;
        };
        part.file.changed.store(true, Ordering::Relaxed);
        match write_all_at(&part.file.file, chunk, part.offset) {
            Ok(()) => {
                Counters::add(&task.monitor.counters.bytes, u64::from(part.length));
                progress.written.fetch_add(u64::from(part.length), Ordering::Relaxed);
            }
            Err(error) => fail(
                task,
                progress,
                &part.file,
                Error::local("write", &part.file.path, error),
            ),
        }
    }
}

pub(crate) fn write_all_at(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> std::result::Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A piece of a file is not to be had: the file fails, or does without if that was asked for.
pub(crate) fn lose(task: &Task<'_>, progress: &Progress, file: &Restoring<'_>, offset: u64, length: u64, why: Error) {
    if !task.options.keep_damaged {
        return fail(task, progress, file, why);
    }
    let why = match why {
        Error::Local { source, .. } => source.to_string(),
        why => why.to_string(),
    };
    let mut lost = file.lost.lock().expect("no holder of this lock panics");
    let pieces = Vec::new();
    let lost = lost.get_or_insert(Lost { pieces, why });
    lost.pieces.push((offset, length));
}

/// A file can't be completed: said once. A full disk ends the restore, since every other file would
/// fail the same way.
pub(crate) fn fail(task: &Task<'_>, progress: &Progress, file: &Restoring<'_>, error: Error) {
    if is_full_disk(&error) {
        file.failed.store(true, Ordering::Relaxed);
        progress.stop(error);
    } else if !file.failed.swap(true, Ordering::Relaxed) {
        skipped(task, progress, &file.path, error);
    }
}

pub(crate) fn is_full_disk(error: &Error) -> bool {
    matches!(error, Error::Local { source, .. } if is_no_room(source))
}

/// Something could not be restored: it is said and counted.
pub(crate) fn skipped(task: &Task<'_>, progress: &Progress, path: &Path, error: Error) {
    Counters::add(&progress.failed, 1);
    let path = path.to_owned();
    if task.options.verify {
        progress
            .lost
            .lock()
            .expect("no holder of this lock panics")
            .insert(path.clone());
    }
    task.monitor.warn(Warning::Skipped { path, error });
}
