//! Workers of a restore: read a frame once, verify, write where its chunks belong.

use super::target::{self, Owner};
use super::{RestoreSummary, Task};
use crate::chunks::FrameReader;
use crate::load::Loaded;
use crate::{Counters, Error, Result, Warning};
use crossbeam_channel::Receiver;
use ibid_format::ChunkId;
use ibid_format::tree::{Entry, EntryKind};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What has become of a file that has several names. Its other names are made while it is still being written: if it fails, they go too,
/// since a name that stayed would stand for something wrong.
pub(crate) struct Links(Mutex<LinksState>);

enum LinksState {
    /// The names so far: directory, name, path for messages.
    Pending(Vec<(Arc<OwnedFd>, Vec<u8>, PathBuf)>),
    Whole,
    Failed,
}

/// What to do about a further name of a file.
pub(crate) enum Linked {
    /// The file is whole, and so is this name.
    Whole,
    /// The name counts when the file is whole.
    Pending,
    /// The file could not be restored.
    Failed,
}

impl Links {
    pub(crate) fn pending() -> Arc<Links> {
        Arc::new(Links(Mutex::new(LinksState::Pending(Vec::new()))))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, LinksState> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// Makes a further name with `link`, unless the file has failed.
    pub(crate) fn add(
        &self,
        parent: &Arc<OwnedFd>,
        name: &[u8],
        path: &std::path::Path,
        link: impl FnOnce() -> Result<()>,
    ) -> Result<Linked> {
        let mut state = self.state();
        match &mut *state {
            LinksState::Failed => Ok(Linked::Failed),
            LinksState::Whole => link().map(|()| Linked::Whole),
            LinksState::Pending(names) => {
                link()?;
                names.push((parent.clone(), name.to_vec(), path.to_owned()));
                Ok(Linked::Pending)
            }
        }
    }

    /// The file is whole; returns how many further names it has by now.
    pub(crate) fn succeed(&self) -> u64 {
        match std::mem::replace(&mut *self.state(), LinksState::Whole) {
            LinksState::Pending(names) => names.len() as u64,
            _ => 0,
        }
    }

    /// The file has failed: removes its further names and returns their paths.
    pub(crate) fn fail(&self) -> Vec<PathBuf> {
        match std::mem::replace(&mut *self.state(), LinksState::Failed) {
            LinksState::Pending(names) => names
                .into_iter()
                .map(|(parent, name, path)| {
                    // If even that fails there is nothing left to try: it is reported.
                    let _ = target::remove(&parent, &name);
                    path
                })
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// A further name of a file that could not be restored.
pub(crate) fn lost_with_its_other_name(path: &std::path::Path) -> Error {
    Error::local(
        "link",
        path,
        std::io::Error::other("it is another name of a file that could not be restored"),
    )
}

/// A file being restored. Whoever finishes its last part gives it its attributes.
pub(crate) struct Restoring {
    pub(crate) file: OwnedFd,
    pub(crate) entry: Entry,
    pub(crate) path: PathBuf,
    pub(crate) owner: Option<Owner>,
    /// Bytes it had before; parts below that may be right already.
    pub(crate) existing: u64,
    /// Where it is, to remove it again if it can't be completed and was not there before.
    pub(crate) parent: Arc<OwnedFd>,
    pub(crate) created: bool,
    /// If it has several names.
    pub(crate) links: Option<Arc<Links>>,
    /// Parts that are not done, and one for the planner while it adds more.
    pub(crate) pending: AtomicUsize,
    pub(crate) failed: AtomicBool,
}

/// One chunk and where it goes.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) frame: u32,
    pub(crate) slot: u16,
    pub(crate) length: u32,
    pub(crate) offset: u64,
    pub(crate) id: ChunkId,
    pub(crate) file: Arc<Restoring>,
}

/// What all workers add to.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) files: AtomicU64,
    /// Bytes of these files.
    pub(crate) bytes: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) written: AtomicU64,
    fatal: Mutex<Option<Error>>,
    stopped: AtomicBool,
}

impl Progress {
    pub(crate) fn stop(&self, error: Error) {
        self.fatal
            .lock()
            .expect("no holder of this lock panics")
            .get_or_insert(error);
        self.stopped.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Adds what was done to a summary, unless something ended it all.
    pub(crate) fn add_to(self, summary: &mut RestoreSummary) -> Result<()> {
        if let Some(error) = self.fatal.into_inner().expect("no holder of this lock panics") {
            return Err(error);
        }
        summary.files += self.files.into_inner();
        summary.bytes += self.bytes.into_inner();
        summary.failed += self.failed.into_inner();
        summary.bytes_written = self.written.into_inner();
        Ok(())
    }
}

/// Works until there are no more groups; each holds the parts of one frame, in order of slots.
pub(crate) fn run(task: &Task<'_>, loaded: &Loaded, progress: &Progress, groups: &Receiver<Vec<Part>>) {
    let mut reader = FrameReader::default();
    let mut scratch = Vec::new();
    while let Ok(mut group) = groups.recv() {
        if !progress.is_stopped() && !task.monitor.is_cancelled() {
            group.retain(|part| !is_right_already(task, part, &mut scratch, progress));
            if !group.is_empty() {
                write_group(task, loaded, progress, &mut reader, &group);
            }
        }
        for part in group {
            finish(task, progress, &part.file);
        }
    }
}

/// Whether the file had the right bytes at this place all along; if so the part is done.
fn is_right_already(task: &Task<'_>, part: &Part, scratch: &mut Vec<u8>, progress: &Progress) -> bool {
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

fn write_group(task: &Task<'_>, loaded: &Loaded, progress: &Progress, reader: &mut FrameReader, group: &[Part]) {
    let frame = loaded.index.frames[group[0].frame as usize];
    let pack = loaded.index.packs[frame.pack as usize].id;
    let last = group.iter().map(|part| part.slot).max();
    Counters::add(&task.monitor.counters.stored, u64::from(frame.sealed));
    let opened = match reader.read(task.repository, loaded, &frame, last) {
        Ok(opened) => opened,
        Err(error) => {
            // One message a file says what is lost and why.
            let text = error.to_string();
            for part in group {
                fail(
                    task,
                    progress,
                    &part.file,
                    Error::local("restore", &part.file.path, std::io::Error::other(text.clone())),
                );
            }
            return;
        }
    };
    let mut verified = None;
    for part in group {
        if part.file.failed.load(Ordering::Relaxed) {
            continue;
        }
        let chunk = match opened.chunk(part.slot) {
            Ok(chunk) if chunk.len() == part.length as usize => chunk,
            _ => {
                fail(task, progress, &part.file, Error::ChunkDamaged { id: part.id, pack });
                continue;
            }
        };
        // Many files may want the same chunk: it is compared with its id once.
        if verified != Some(part.slot) {
            if task.repository.keys.chunk_id(chunk) != part.id {
                fail(task, progress, &part.file, Error::ChunkDamaged { id: part.id, pack });
                continue;
            }
            verified = Some(part.slot);
        }
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

fn write_all_at(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> std::result::Result<(), Errno> {
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

/// A file can't be completed: said once. A full disk ends the restore, since every other file would fail the same way.
pub(crate) fn fail(task: &Task<'_>, progress: &Progress, file: &Restoring, error: Error) {
    if matches!(&error, Error::Local { source, .. } if source.kind() == std::io::ErrorKind::StorageFull) {
        file.failed.store(true, Ordering::Relaxed);
        progress.stop(error);
    } else if !file.failed.swap(true, Ordering::Relaxed) {
        progress.failed.fetch_add(1, Ordering::Relaxed);
        task.monitor.warn(Warning::Skipped {
            path: file.path.clone(),
            error,
        });
    }
}

/// One part less; after the last, the file gets its attributes, or goes if it has not become what it should be.
pub(crate) fn finish(task: &Task<'_>, progress: &Progress, file: &Restoring) {
    if file.pending.fetch_sub(1, Ordering::AcqRel) != 1 {
        return;
    }
    if file.failed.load(Ordering::Relaxed) || progress.is_stopped() || task.monitor.is_cancelled() {
        if file.created {
            // Nothing is better than something wrong. If even that fails there is nothing left to try: the file was reported.
            let _ = target::remove(&file.parent, &file.entry.name);
        }
        for path in file.links.iter().flat_map(|links| links.fail()) {
            progress.failed.fetch_add(1, Ordering::Relaxed);
            let error = lost_with_its_other_name(&path);
            task.monitor.warn(Warning::Skipped { path, error });
        }
        return;
    }
    for (what, source) in target::set_attributes(&file.file, &file.entry, file.owner) {
        task.monitor.warn(Warning::Attributes {
            path: file.path.clone(),
            what,
            source,
        });
    }
    let names = 1 + file.links.as_ref().map_or(0, |links| links.succeed());
    progress.files.fetch_add(names, Ordering::Relaxed);
    if let EntryKind::File(content) = &file.entry.kind {
        progress.bytes.fetch_add(content.length, Ordering::Relaxed);
    }
    Counters::add(&task.monitor.counters.files, names);
}
