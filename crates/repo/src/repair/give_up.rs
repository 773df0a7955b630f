//! Lists the packs of a writer anew, without those that are lost and those that lack their bases.
//!
//! A writer can't read which frames are encoded against which. As long as an index file lists a pack that is missing,
//! it must not rely on anything that may need that pack. So after a repair of its files, index files list only packs
//! whose frames all have their bases:
//!
//! - The frames that can be decoded move out of packs in which others lack their bases. Those packs stay, and no index
//!   file lists them: keepers find them by their directories, and list them once what they lack is stored again.
//! - Index files that list them or missing packs are written again without them. What the writer has signed, keepers
//!   sign again with the writer's key: it is believed no more and no less than before.
//! - An entry of the log of prunes says that from now on only these index files count. So nothing that a prune which
//!   runs beside it has read before comes back.

use std::collections::HashSet;
use std::sync::Arc;

use ibid_format::index::{self as index_file, Index as IndexFile, IndexedPack};
use ibid_format::prune_log::Entry;
use ibid_format::writer::Signer;
use ibid_format::{FileId, FileKind};
use ibid_storage::ErrorKind;

use super::{Repairing, aside};
use crate::index::LoadedIndex;
use crate::layout::{folder, name_in, new_id};
use crate::prune::{self, PruneState};
use crate::{Error, Result};

/// Times that it begins again because a prune was faster.
const TRIES_MAX: usize = 10;

/// The index files as they will count.
#[derive(Default)]
struct Anew {
    /// Those that are trusted.
    trusted: Vec<FileId>,
    /// Those that others take the place of.
    replaced: Vec<FileId>,
    /// Missing packs that they list no longer.
    gone: HashSet<FileId>,
}

impl Repairing<'_> {
    /// Lists the packs anew, if any are missing or lack bases.
    pub(super) fn give_up(&mut self) -> Result<()> {
        for _ in 0..TRIES_MAX {
            let files = &self.repository.files;
            let state = PruneState::read(files)?.settled(files)?;
            self.loaded = self.repository.load_to_read(&state, Default::default())?;
            let loaded = self.loaded.clone();
            let state = &loaded.state;
            if !state.damaged.is_empty() {
                continue;
            }
            let lacking = lacking_bases(&loaded);
            let moved = self.move_out(&lacking)?;
            let lacking: HashSet<FileId> = lacking.iter().map(|number| loaded.index.pack(*number).id).collect();
            let mut anew = match self.list_anew(&loaded, &lacking) {
                // A prune has merged index files meanwhile.
                Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => continue,
                anew => anew?,
            };
            if anew.replaced.is_empty() {
                return Ok(());
            }
            anew.trusted.extend(moved);
            anew.trusted.sort_unstable();
            let entry = Entry {
                fence: state.number + 1,
                verified: anew.trusted,
                ..state.entry.clone()
            };
            let files = &self.repository.files;
            if prune::append(files, state, entry)?.is_some() {
                for id in anew.replaced {
                    aside::delete(files.storage.as_ref(), &name_in(folder::INDEX, id))?;
                }
                self.report.forgotten_packs += anew.gone.len() as u64;
                return Ok(());
            }
        }
        Err(Error::PruneBusy)
    }

    /// Writes the index files again that list missing packs, or these.
    fn list_anew(&mut self, loaded: &Arc<LoadedIndex>, lacking: &HashSet<FileId>) -> Result<Anew> {
        let mut anew = Anew::default();
        let missing: HashSet<FileId> = loaded.gone().collect();
        for &id in &loaded.trusted {
            let file = self.repository.files.read_index(id)?;
            self.list_file_anew(&mut anew, id, file, lacking, |pack| missing.contains(&pack.id), false)?;
        }
        // To a keeper who doubts, what the writer lists is not known: its packs say themselves what is in them.
        let unread: HashSet<FileId> = loaded.damaged_packs().chain(loaded.archived.iter().copied()).collect();
        let is_gone = |pack: &IndexedPack| {
            let number = loaded.index.find_pack(pack.id);
            missing.contains(&pack.id) || number.is_none() && !unread.contains(&pack.id)
        };
        for &id in &loaded.untrusted {
            let files = &self.repository.files;
            let file = match files.read_index(id) {
                Ok(file) => file,
                Err(error) if error.is_fault() => continue,
                Err(error) => return Err(error),
            };
            let is_of_writer = files.keys.signer_of(FileKind::Index, id) == Some(Signer::Writer);
            if is_of_writer && loaded.state.trusts(id, file.epoch()) {
                self.list_file_anew(&mut anew, id, file, lacking, is_gone, true)?;
            }
        }
        Ok(anew)
    }

    /// Writes an index file again, if it lists packs that are gone or lack bases.
    fn list_file_anew(
        &mut self,
        anew: &mut Anew,
        id: FileId,
        file: IndexFile,
        lacking: &HashSet<FileId>,
        is_gone: impl Fn(&IndexedPack) -> bool,
        is_of_writer: bool,
    ) -> Result<()> {
        self.monitor.check_cancelled()?;
        let gone: HashSet<FileId> = file.packs().filter(is_gone).map(|pack| pack.id).collect();
        let is_kept = |pack: FileId| !gone.contains(&pack) && !lacking.contains(&pack);
        let kept = file.packs().filter(|pack| is_kept(pack.id)).count();
        if kept == file.packs().len() {
            anew.trusted.push(id);
            return Ok(());
        }
        anew.replaced.push(id);
        if kept > 0 {
            anew.trusted.extend(self.put_without(file, is_kept, is_of_writer)?);
        }
        anew.gone.extend(gone);
        Ok(())
    }

    /// Stores an index file again with some of its packs. Returns its id; `None` if what the writer signs counts no
    /// more.
    fn put_without(
        &mut self,
        file: IndexFile,
        is_kept: impl Fn(FileId) -> bool,
        is_of_writer: bool,
    ) -> Result<Option<FileId>> {
        let (files, id) = (&self.repository.files, new_id());
        let bytes = index_file::merge(&files.keys, id, self.loaded.state.number, &[file], is_kept);
        let bytes = bytes.map_err(Error::damaged("the new index"))?;
        let name = name_in(folder::INDEX, id);
        let written = self.repository.written.as_ref();
        match written.and_then(|written| Some((&written.storage, written.keys.as_ref()?))) {
            _ if !is_of_writer => files.storage.put(&name, &[&bytes])?,
            Some((storage, keys)) => storage.put_as(keys, &name, &bytes)?,
            None => return Ok(None),
        }
        self.report.written += bytes.len() as u64;
        Ok(Some(id))
    }
}

/// Returns the packs of keepers that index files list, and of which a frame lacks its bases.
fn lacking_bases(loaded: &LoadedIndex) -> Vec<u32> {
    let unlisted: HashSet<FileId> = loaded.unlisted.iter().map(|(id, _)| *id).collect();
    let mut found: Vec<u32> = Vec::new();
    for frame in loaded.index.lost().iter() {
        let number = loaded.index.frame(frame).pack;
        let is_listed = !unlisted.contains(&loaded.index.pack(number).id);
        if found.last() != Some(&number) && is_listed && !loaded.index.is_missing(number) {
            found.push(number);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}
