//! Finishes a file: holes, attributes, rename and other names; or removal on failure.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

use ibid_format::tree::{EntryKind, TreeEntry};
use rustix::fd::OwnedFd;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::attributes::{self, AttributeFaults, Held};
use super::file::{Lost, Placement, Restoring, write_all_at};
use super::folder::Folder;
use super::inode_flags;
use super::links::{self, Links, Name};
use super::options::Overwrite;
use super::progress::{Tally, fail, skipped};
use super::target;
use super::task::Task;
use crate::{Error, ProgressCounters, Result, Warning};

/// Marks one part as done. After the last, the file gets its attributes and its name. A failed file
/// is removed, and an existing file in its place stays.
pub(crate) fn finish<'a>(task: &Task<'_>, progress: &Tally, file: &Restoring<'a>) {
    if file.pending.fetch_sub(1, Ordering::AcqRel) != 1 {
        return;
    }
    let lost = file.lost.lock().expect("no holder of this lock panics").take();
    let mut whole = false;
    if !file.failed.load(Ordering::Relaxed) {
        let finished = match lost {
            None => complete(task, file).map(|()| {
                whole = true;
                progress.restored(task, &file.entry);
            }),
            Some(lost) => keep_damaged(task, file, lost).map(|damage| {
                ProgressCounters::add(&progress.damaged, 1);
                skipped(task, progress, &file.path, damage);
            }),
        };
        if let Err(error) = finished {
            fail(task, progress, file, error);
        }
    }
    if file.failed.load(Ordering::Relaxed) {
        undo(task, file);
    }
    if let Some(links) = &file.links {
        other_names(task, progress, links, file, whole);
    }
}

/// Completes a file that has all its chunks.
fn complete(task: &Task<'_>, file: &Restoring<'_>) -> Result<()> {
    let failed = |action| move |error: Errno| Error::local(action, &file.path, error);
    if matches!(file.placement, Placement::InPlace) {
        for (offset, length) in std::mem::take(&mut *file.holes.lock().expect("no holder of this lock panics")) {
            make_hole(file, offset, length).map_err(failed("make a hole in"))?;
        }
        let EntryKind::File(content) = &file.entry.kind else {
            unreachable!("only files are written")
        };
        let length = rustix::fs::fstat(&file.file).map_err(failed("look at"))?.st_size as u64;
        if length != content.length {
            file.changed.store(true, Ordering::Relaxed);
            rustix::fs::ftruncate(&file.file, content.length).map_err(failed("size"))?;
        }
    }
    give_attributes(task, file);
    match &file.placement {
        Placement::Aside(aside) => target::put_in_place(&file.parent, aside, &file.entry.name)
            .map_err(|error| target::cannot_replace(&file.path, error))?,
        Placement::New | Placement::InPlace => {}
    }
    // An immutable file can't be renamed.
    tell(
        task,
        file,
        inode_flags::set_last(task, &Held::open(&file.file), &file.entry),
    );
    Ok(())
}

/// Gives a file all attributes but its inode flags.
fn give_attributes(task: &Task<'_>, file: &Restoring<'_>) {
    let faults = attributes::mend_attributes(&Held::open(&file.file), &file.entry, file.owner);
    tell(task, file, faults);
}

fn tell(task: &Task<'_>, file: &Restoring<'_>, faults: AttributeFaults) {
    for (what, source) in faults {
        let path = file.path.clone();
        task.monitor.warn(Warning::Attributes { path, what, source });
    }
}

/// Renames a file with missing pieces, so that it is not mistaken for the original. Returns the
/// error to report.
fn keep_damaged(task: &Task<'_>, file: &Restoring<'_>, lost: Lost) -> Result<Error> {
    give_attributes(task, file);
    let name = match &file.placement {
        Placement::New => &file.entry.name,
        Placement::Aside(aside) => aside,
        Placement::InPlace => unreachable!("no file is mended in place with what may be damaged"),
    };
    let kept = target::put_beside(&file.parent, name, &file.entry.name)
        .map_err(|error| Error::local("keep what is left of", &file.path, error))?;
    let text = format!(
        "{}; what is left is in {:?}, with zeros for {}",
        lost.why,
        OsStr::from_bytes(&kept),
        ranges(lost.pieces)
    );
    Ok(Error::local("restore", &file.path, std::io::Error::other(text)))
}

/// Maximum number of pieces listed in a message.
const NAMED_MAX: usize = 20;

/// Formats ranges: "bytes 0–65535 and 131072–196607".
fn ranges(mut pieces: Vec<(u64, u64)>) -> String {
    pieces.sort_unstable();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (start, length) in pieces {
        match ranges.last_mut() {
            Some((_, end)) if *end == start => *end += length,
            _ => ranges.push((start, start + length)),
        }
    }
    let more = ranges.len().saturating_sub(NAMED_MAX);
    let named = ranges
        .iter()
        .take(NAMED_MAX)
        .map(|(start, end)| format!("{start}–{}", end - 1));
    let mut text = format!("bytes {}", named.collect::<Vec<_>>().join(", "));
    if more > 0 {
        text += &format!(" and {more} more ranges");
    }
    text
}

fn undo(task: &Task<'_>, file: &Restoring<'_>) {
    // No file is better than a wrong one. If removing it fails, nothing is left to try: the file
    // was reported.
    let _ = match &file.placement {
        Placement::New => target::remove(&file.parent, &file.entry.name),
        Placement::Aside(aside) => target::remove(&file.parent, aside),
        Placement::InPlace => {
            if file.changed.load(Ordering::Relaxed) {
                let path = file.path.clone();
                task.monitor.warn(Warning::Mixed { path });
            }
            Ok(())
        }
    };
}

/// Creates the pending other names of a complete file. If the file failed, they fail too.
fn other_names(task: &Task<'_>, progress: &Tally, links: &Links<'_>, file: &Restoring<'_>, whole: bool) {
    if whole {
        for name in links.succeed() {
            add_name(task, progress, &file.folder, &file.entry.name, &file.entry, &name);
        }
        return;
    }
    for name in links.fail() {
        // After the user stops a restore, do not list all files that were still to come.
        if !progress.is_stopped() && !task.monitor.is_cancelled() {
            skipped(task, progress, &name.path, links::lost_with_its_other_name(&name.path));
        }
    }
}

/// Gives the file at `first` in `folder` one more name.
pub(crate) fn add_name(
    task: &Task<'_>,
    progress: &Tally,
    folder: &Folder<'_>,
    first: &[u8],
    entry: &TreeEntry,
    name: &Name<'_>,
) {
    let may_replace = task.options.overwrite != Overwrite::Refuse;
    match links::link(folder, first, entry, name, may_replace) {
        Ok(true) => progress.restored(task, entry),
        Ok(false) => progress.right(task, entry),
        Err(error) => return skipped(task, progress, &name.path, error),
    }
    if let EntryKind::File(content) = &entry.kind {
        ProgressCounters::add(&task.monitor.counters.bytes, content.length);
    }
}

/// Makes a range of an existing file read as zeros, unless it does.
fn make_hole(file: &Restoring<'_>, offset: u64, length: u64) -> std::result::Result<(), Errno> {
    match rustix::fs::seek(&file.file, rustix::fs::SeekFrom::Data(offset)) {
        Ok(data) if data < offset + length => {}
        Ok(_) | Err(Errno::NXIO) => return Ok(()),
        Err(_) => {} // punching it reports the error
    }
    file.changed.store(true, Ordering::Relaxed);
    punch(&file.file, offset, length)
}

/// Makes `length` bytes from `offset` read as zeros, deallocating them if the file system can.
fn punch(file: &OwnedFd, offset: u64, length: u64) -> std::result::Result<(), Errno> {
    match rustix::fs::fallocate(
        file,
        FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        offset,
        length,
    ) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        result => return result,
    }
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let mut done = 0;
    while done < length {
        let now = (length - done).min(ZEROS.len() as u64);
        write_all_at(file, &ZEROS[..now as usize], offset + done)?;
        done += now;
    }
    Ok(())
}
