//! The operations of the simulated disk.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use super::disk::{Call, FaultDisk, State};
use super::tree::Id;
use crate::disk::{Access, Disk, FolderEntry};

/// A file that a [`FaultDisk`] opened.
pub struct FaultFile {
    id: Id,
    handle: u64,
    state: Arc<Mutex<State>>,
}

impl Disk for FaultDisk {
    type File = FaultFile;

    /// It is on no disk of this machine, so copies of its objects are kept and put to the test.
    fn is_remote(&self, _folder: &Path) -> bool {
        true
    }

    fn create_new(&self, path: &Path) -> io::Result<FaultFile> {
        let mut state = self.begin(Call::CreateNew)?;
        let now = state.clock;
        let id = state.tree.create_file(path, now)?;
        Ok(FaultFile::new(self, &mut state, id))
    }

    fn open(&self, path: &Path, _access: Access) -> io::Result<FaultFile> {
        let mut state = self.begin(Call::Open)?;
        let id = state.tree.find(path)?;
        state.tree.file(id)?;
        Ok(FaultFile::new(self, &mut state, id))
    }

    fn lock(&self, file: &FaultFile) -> io::Result<bool> {
        let mut state = self.begin(Call::Lock)?;
        let node = state.tree.file_mut(file.id)?;
        let holder = *node.lock.get_or_insert(file.handle);
        Ok(holder == file.handle && node.names > 0)
    }

    fn write(&self, file: &mut FaultFile, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.begin(Call::Write)?;
        let bytes = parts.iter().flat_map(|part| part.iter().copied()).collect::<Vec<u8>>();
        if bytes.is_empty() {
            return Ok(0);
        }
        let space = state.settings.space.unwrap_or(usize::MAX);
        if space == 0 {
            return Err(Errno::NOSPC.into());
        }
        let mut length = bytes.len().min(space);
        if state.settings.short_writes {
            length = 1 + state.random.below(length);
        }
        let now = state.clock;
        let node = state.tree.file_mut(file.id)?;
        node.append(&bytes[..length]);
        node.modified = now;
        state.settings.space = state.settings.space.map(|space| space - length);
        Ok(length)
    }

    fn sync(&self, file: &FaultFile) -> io::Result<()> {
        let mut state = self.state();
        let result = state.begin(Call::Sync);
        if state.crashed {
            return result;
        }
        let drop_syncs = state.settings.drop_syncs;
        let node = state.tree.file_mut(file.id)?;
        match result {
            Ok(()) if drop_syncs => {}
            Ok(()) => node.sync(),
            Err(_) => node.fail_sync(),
        }
        result
    }

    fn rename_noreplace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.begin(Call::RenameNoreplace)?.tree.rename(from, to)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.begin(Call::MakeDir)?.tree.make_folder(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin(Call::SyncDir)?;
        if state.settings.drop_syncs {
            return Ok(());
        }
        state.tree.sync_folder(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin(Call::Remove)?;
        let freed = state.tree.remove(path)?;
        state.settings.space = state.settings.space.map(|space| space + freed);
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        self.begin(Call::List)?.tree.entries(path)
    }

    fn read_at(&self, file: &FaultFile, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.begin(Call::ReadAt)?;
        let short = state.settings.short_reads;
        let cut = if short && !buffer.is_empty() {
            1 + state.random.below(buffer.len())
        } else {
            buffer.len()
        };
        let content = &state.tree.file(file.id)?.live;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let length = cut.min(content.len() - from);
        buffer[..length].copy_from_slice(&content[from..from + length]);
        Ok(length)
    }

    fn length(&self, file: &FaultFile) -> io::Result<u64> {
        Ok(self.begin(Call::Length)?.tree.file(file.id)?.live.len() as u64)
    }

    fn age(&self, file: &FaultFile) -> io::Result<Duration> {
        let state = self.begin(Call::Age)?;
        Ok(state.clock.saturating_sub(state.tree.file(file.id)?.modified))
    }

    fn unique(&self) -> io::Result<u128> {
        let mut state = self.state();
        Ok(u128::from(state.random.next()) << 64 | u128::from(state.random.next()))
    }
}

impl FaultFile {
    fn new(disk: &FaultDisk, state: &mut State, id: Id) -> Self {
        state.handles += 1;
        Self {
            id,
            handle: state.handles,
            state: Arc::clone(&disk.state),
        }
    }
}

impl Drop for FaultFile {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // After a crash the file may be gone, and its lock with it.
        if let Ok(node) = state.tree.file_mut(self.id)
            && node.lock == Some(self.handle)
        {
            node.lock = None;
        }
    }
}
