//! Reading back what was restored.

use super::Task;
use super::selected::Selected;
use super::target::{self, Stack};
use crate::chunks::ChunkReader;
use crate::recipe::Items;
use crate::source::Opened;
use crate::{Counters, Error, Result, Warning};
use ibid_format::content::{Content, Item};
use ibid_format::tree::{Entry, EntryKind};
use rustix::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

impl Task<'_> {
    /// Compares every selected file in the destination with the snapshot; returns how many are right and adds to `failed` those that are not.
    pub(crate) fn verify<'r>(
        &self,
        reader: &'r ChunkReader<'r>,
        listing: &Content,
        single: Option<&Entry>,
        root: &Arc<OwnedFd>,
        failed: &mut u64,
    ) -> Result<u64> {
        let mut stack = Stack::new(root.clone());
        let mut right = 0;
        let mut buffer = Vec::new();
        self.selected(reader, listing, single, &mut |step| {
            let (path, entry) = match step {
                Selected::Entry { path, entry, .. } => (path, entry),
                Selected::Leave => {
                    stack.pop();
                    return Ok(true);
                }
                // Told when it was restored.
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
                    match self.verify_file(reader, &mut stack, entry, content, &path, &mut buffer) {
                        Ok(()) => right += 1,
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
        entry: &Entry,
        content: &Content,
        path: &Path,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let failed = |error: rustix::io::Errno| Error::local("read back", path, error);
        let differs = |at: u64| {
            Error::local(
                "verify",
                path,
                std::io::Error::other(format!("it differs from the snapshot at byte {at}")),
            )
        };
        let parent = stack.current().map_err(failed)?;
        let file = Opened::open(&parent, &entry.name).map_err(failed)?;
        if file.stat.st_size as u64 != content.length {
            return Err(differs(content.length.min(file.stat.st_size as u64)));
        }
        let mut offset = 0;
        for item in Items::new(reader, content) {
            match item? {
                Item::Chunk { id, length } => {
                    buffer.resize(length as usize, 0);
                    let read = file.read_at(offset, buffer).map_err(failed)?;
                    if read != length as usize || self.repository.keys.chunk_id(buffer) != id {
                        return Err(differs(offset));
                    }
                    offset += u64::from(length);
                    Counters::add(&self.monitor.counters.stored, u64::from(length));
                }
                Item::Hole { length } => {
                    self.verify_hole(&file, offset, length, buffer)
                        .map_err(failed)?
                        .map_or(Ok(()), |at| Err(differs(at)))?;
                    offset += length;
                }
            }
        }
        Ok(())
    }

    /// Where a byte that is not zero lies in a range that should be a hole.
    fn verify_hole(
        &self,
        file: &Opened,
        start: u64,
        length: u64,
        buffer: &mut Vec<u8>,
    ) -> std::result::Result<Option<u64>, rustix::io::Errno> {
        use rustix::fs::{SeekFrom, seek};
        let end = start + length;
        let mut at = start;
        while at < end {
            // Only what occupies space needs reading.
            at = match seek(&file.fd, SeekFrom::Data(at)) {
                Ok(data) => data.max(at),
                Err(rustix::io::Errno::NXIO) => return Ok(None),
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
}
