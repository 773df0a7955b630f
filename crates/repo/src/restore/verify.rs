//! Verification of restored files.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ibid_format::content::{Content, Item};
use ibid_format::tree::{EntryKind, TreeEntry};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::open_files::OpenFiles;
use super::selected::Selected;
use super::target::{self, Stack};
use super::task::Task;
use crate::read::ChunkReader;
use crate::source::Opened;
use crate::tree::Items;
use crate::{Error, ProgressCounters, Result, Warning};

impl Task<'_> {
    /// Compares every selected file in the destination with the snapshot; returns the number that
    /// match, and adds the others to `failed`, except those already `lost`.
    pub(crate) fn verify<'r>(
        &self,
        reader: &'r ChunkReader<'r>,
        listing: &Content,
        single: Option<&TreeEntry>,
        root: &Arc<OwnedFd>,
        lost: &HashSet<PathBuf>,
        failed: &mut u64,
    ) -> Result<u64> {
        let mut stack = Stack::new(root.clone(), OpenFiles::within_limits().directories);
        let mut right = 0;
        self.selected(reader, listing, single, &mut |step| {
            let (path, entry) = match step {
                Selected::Entry { path, entry, .. } => (path, entry),
                Selected::Leave => {
                    stack.pop();
                    return Ok(true);
                }
                // Reported when it was restored.
                Selected::Damaged { .. } => return Ok(true),
            };
            match &entry.kind {
                EntryKind::Directory(_) => {
                    let there = stack.current().is_ok_and(|parent| {
                        target::look(&parent, &entry.name)
                            .is_ok_and(|stat| stat.is_some_and(|stat| target::is_directory(&stat)))
                    });
                    if there {
                        stack.push(entry.name.clone());
                    }
                    Ok(there)
                }
                EntryKind::File(content) => {
                    let path = self.destination.join(path);
                    if lost.contains(&path) {
                        return Ok(true);
                    }
                    match self.verify_file(reader, &mut stack, entry, content, &path) {
                        Ok(()) => {
                            right += 1;
                            ProgressCounters::add(&self.monitor.counters.files, 1);
                        }
                        Err(error) => {
                            *failed += 1;
                            self.monitor.warn(Warning::Skipped { path, error });
                        }
                    }
                    Ok(true)
                }
                _ => Ok(true),
            }
        })?;
        Ok(right)
    }

    fn verify_file<'r>(
        &self,
        reader: &'r ChunkReader<'r>,
        stack: &mut Stack,
        entry: &TreeEntry,
        content: &Content,
        path: &Path,
    ) -> Result<()> {
        let failed = |error: Errno| Error::local("read back", path, error);
        let differs = |at: u64| {
            Error::local(
                "verify",
                path,
                std::io::Error::other(format!("it differs from the snapshot at byte {at}")),
            )
        };
        let parent = stack.current().map_err(failed)?;
        let file = Opened::open(&parent, &entry.name).map_err(failed)?;
        let size = file.stat.st_size as u64;
        let mut difference = (size != content.length).then_some(content.length.min(size));
        if difference.is_none() {
            self.compare(reader, &file, content, path, &mut |piece| {
                difference = (!piece.equal).then_some(piece.at);
                ProgressCounters::add(&self.monitor.counters.bytes, piece.length);
                piece.equal
            })?;
        }
        difference.map_or(Ok(()), |at| Err(differs(at)))
    }

    /// Compares a file in the destination with a content of the snapshot, piece by piece, while
    /// `each` returns true.
    pub(crate) fn compare<'r>(
        &self,
        reader: &'r ChunkReader<'r>,
        file: &Opened,
        content: &Content,
        path: &Path,
        each: &mut dyn FnMut(Piece) -> bool,
    ) -> Result<()> {
        let failed = |error: Errno| Error::local("read back", path, error);
        let mut buffer = Vec::new();
        let mut offset = 0;
        for item in Items::new(reader, content) {
            self.monitor.check_cancelled()?;
            let item = item?;
            let wrong = match item {
                Item::Chunk { id, length } => {
                    buffer.resize(length as usize, 0);
                    let read = file.read_at(offset, &mut buffer).map_err(failed)?;
                    let equal = read == length as usize && self.repository.files.keys.chunk_id(&buffer) == id;
                    (!equal).then_some(offset)
                }
                Item::Hole { length } => verify_hole(file, offset, length, &mut buffer).map_err(failed)?,
            };
            let goes_on = each(Piece {
                at: wrong.unwrap_or(offset),
                length: item.length(),
                is_hole: matches!(item, Item::Hole { .. }),
                equal: wrong.is_none(),
            });
            if !goes_on {
                break;
            }
            offset += item.length();
        }
        Ok(())
    }
}

/// A compared chunk or hole.
pub(crate) struct Piece {
    /// Its offset, or the offset of the first difference if known.
    pub(crate) at: u64,
    pub(crate) length: u64,
    pub(crate) is_hole: bool,
    pub(crate) equal: bool,
}

/// Returns the offset of a nonzero byte in a range that should be a hole.
fn verify_hole(
    file: &Opened,
    start: u64,
    length: u64,
    buffer: &mut Vec<u8>,
) -> std::result::Result<Option<u64>, Errno> {
    use rustix::fs::{SeekFrom, seek};
    let end = start + length;
    let mut at = start;
    while at < end {
        // Only allocated ranges need reading.
        at = match seek(&file.fd, SeekFrom::Data(at)) {
            Ok(data) => data.max(at),
            Err(Errno::NXIO) => return Ok(None),
            Err(_) => at,
        };
        if at >= end {
            return Ok(None);
        }
        buffer.resize((end - at).min(1 << 20) as usize, 0);
        let read = file.read_at(at, buffer)?;
        if let Some(wrong) = buffer[..read].iter().position(|&byte| byte != 0) {
            return Ok(Some(at + wrong as u64));
        }
        if read == 0 {
            return Ok(Some(at));
        }
        at += read as u64;
    }
    Ok(None)
}
