//! Deleting doomed packs: index files and sketches are written without them first. Any process may do this at
//! any time, and several at once.

use std::collections::{HashMap, HashSet};

use ibid_format::sketches::Sketches;
use ibid_format::{FileId, index as index_file};
use ibid_storage::{ErrorKind, Name};

use super::moved::Moved;
use super::{PruneState, PruneSummary};
use crate::archives::Kept;
use crate::layout::{folder, name_in, new_id};
use crate::listed::Listed;
use crate::threads::groups_within;
use crate::{Error, Repository, Result, similar};

/// Memory budget for the sketches of a chunk that are written, bytes.
const BUDGET_A_SKETCH: u64 = 600;
/// The share of the memory that files of sketches may be long which are fetched at once. In memory they take four times
/// as many bytes.
const READ_SHARE: u64 = 128;

impl Repository {
    /// Deletes what is doomed in this state, and also what is `gone` with it. `listed` has folders as they were before
    /// this was decided, if they were listed together; `moved` are frames that were moved, whose sketches move with
    /// them.
    pub(super) fn sweep(
        &self,
        state: &PruneState,
        mut listed: Listed,
        moved: &mut Moved,
        mut gone: Vec<Name>,
        summary: &mut PruneSummary,
    ) -> Result<()> {
        if state.entry.doomed.is_empty() && state.entry.fence == 0 {
            return self.delete_names(&gone);
        }
        if !state.settle(&self.files)? {
            return Ok(());
        }
        let storage = &*self.files.storage;
        if !listed.has(folder::INDEX) {
            listed = Listed::of(storage, &[folder::INDEX, folder::PACKS, folder::SKETCHES])?;
        }
        let (mut bytes, mut doomed) = (0, Vec::new());
        listed.each(storage, folder::PACKS, |id, size| {
            if state.is_doomed(id) {
                bytes += size;
                doomed.push(id);
            }
            Ok(())
        })?;
        let index_left = match self.sweep_index(state, &listed, &mut gone, summary) {
            // There is space for them once the packs are gone. To all who read them, these are not there already.
            Err(Error::Storage(error)) if error.kind() == ErrorKind::NoSpace && !doomed.is_empty() => true,
            swept => swept.map(|()| false)?,
        };
        if !doomed.is_empty() {
            self.sweep_sketches(state, &listed, moved, &mut gone, summary)?;
        }
        let names: Vec<_> = doomed.iter().map(|id| name_in(folder::PACKS, *id)).collect();
        self.note_locked(&names, summary)?;
        gone.extend(names);
        self.delete_names(&gone)?;
        doomed.iter().for_each(|id| self.files.forget_pack(*id));
        summary.packs_deleted += doomed.len() as u64;
        summary.deleted += bytes;
        if index_left {
            let mut gone = Vec::new();
            self.sweep_index(state, &Listed::default(), &mut gone, summary)?;
            self.delete_names(&gone)?;
        }
        Ok(())
    }

    /// Deletes files of a folder that others stand for, because the next ones may need the space. Where the storage is
    /// far, leaves them to be `gone` with the packs: a server takes many names with one request.
    fn delete_with_packs(&self, folder: &str, ids: &[FileId], gone: &mut Vec<Name>) -> Result<()> {
        if !self.files.storage.is_remote() {
            return self.delete_all(folder, ids);
        }
        gone.extend(ids.iter().map(|id| name_in(folder, *id)));
        Ok(())
    }

    /// Writes index files without doomed packs, and small ones together. Those that are not trusted go: what they
    /// list is listed by others, or is found by its own directory.
    fn sweep_index(
        &self,
        state: &PruneState,
        listed: &Listed,
        gone: &mut Vec<Name>,
        summary: &mut PruneSummary,
    ) -> Result<()> {
        let bytes_max = (self.memory / 8).min(24 << 20);
        let (mut group, mut ids, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut archived = None;
        for (id, size) in listed.ids(&*self.files.storage, folder::INDEX)? {
            self.monitor.check_cancelled()?;
            let file = match self.files.read_index(id) {
                Ok(file) => file,
                // Another process has merged it; a check tells of damage.
                Err(error) if error.is_fault() => continue,
                Err(error) => return Err(error),
            };
            let is_believed = self.files.believes_index(id);
            let is_old = !state.trusts(id, file.epoch());
            if is_old && is_believed && self.list_anew(state, id, &file, &mut archived)? {
                summary.files_merged += 1;
                continue;
            }
            // A writer that was taken over may say that it has read an entry which is not there yet.
            if is_old || !is_believed && file.epoch() > state.number {
                self.delete_if_there(&name_in(folder::INDEX, id))?;
                continue;
            }
            if !is_believed {
                // Of a backup that came meanwhile. The next prune lists what it has stored.
                continue;
            }
            let lists_doomed = file.packs().any(|pack| state.is_doomed(pack.id));
            if !lists_doomed {
                continue;
            }
            if bytes + size > bytes_max && !group.is_empty() {
                self.merge_index(state, &group, &ids, gone, summary)?;
                (group, ids, bytes) = (Vec::new(), Vec::new(), 0);
            }
            bytes += size;
            group.push(file);
            ids.push(id);
        }
        if !group.is_empty() {
            self.merge_index(state, &group, &ids, gone, summary)?;
        }
        Ok(())
    }

    /// Writes an index file anew that is not trusted, with the packs in it that are in an archive, where they can't be
    /// found by their own directories. Returns whether there are any: only what has no deltas lacks no bases.
    fn list_anew(
        &self,
        state: &PruneState,
        id: FileId,
        file: &index_file::Index,
        archived: &mut Option<HashMap<FileId, Kept>>,
    ) -> Result<bool> {
        if file.frames().any(|frame| frame.depth > 0) {
            return Ok(false);
        }
        let archived = match archived {
            Some(archived) => archived,
            None => archived.insert(self.archived_packs()?),
        };
        let is_there = |pack: &index_file::IndexedPack| {
            let size = archived.get(&pack.id).map(|kept| kept.size);
            size == Some(pack.size) && !state.is_doomed(pack.id)
        };
        let there: HashSet<FileId> = file.packs().filter(is_there).map(|pack| pack.id).collect();
        if there.is_empty() {
            return Ok(false);
        }
        let new = new_id();
        let bytes = index_file::merge(
            &self.files.keys,
            new,
            state.number,
            std::slice::from_ref(file),
            |pack| there.contains(&pack),
        );
        let bytes = bytes.map_err(Error::damaged("the new index"))?;
        self.files.put_copied(folder::INDEX, new, &bytes)?;
        self.delete_if_there(&name_in(folder::INDEX, id))?;
        Ok(true)
    }

    fn merge_index(
        &self,
        state: &PruneState,
        files: &[index_file::Index],
        ids: &[FileId],
        gone: &mut Vec<Name>,
        summary: &mut PruneSummary,
    ) -> Result<()> {
        let is_kept = |pack| !state.is_doomed(pack);
        if files.iter().any(|file| file.packs().any(|pack| is_kept(pack.id))) {
            let id = new_id();
            let bytes = index_file::merge(&self.files.keys, id, state.number, files, is_kept)
                .map_err(Error::damaged("the merged index"))?;
            self.files.put_copied(folder::INDEX, id, &bytes)?;
        }
        self.delete_with_packs(folder::INDEX, ids, gone)?;
        summary.files_merged += ids.len() as u64;
        Ok(())
    }

    /// Writes sketches without those of doomed packs, and with the places of frames that were moved. Files of
    /// sketches become few.
    fn sweep_sketches(
        &self,
        state: &PruneState,
        listed: &Listed,
        moved: &mut Moved,
        gone: &mut Vec<Name>,
        summary: &mut PruneSummary,
    ) -> Result<()> {
        let most = similar::CHUNKS_OF_ONE_FILE.min((self.memory / 8 / BUDGET_A_SKETCH) as usize);
        let mut out: Option<Sketches> = None;
        let (mut chunks, mut replaced) = (0, Vec::new());
        let listed = listed.ids(&*self.files.storage, folder::SKETCHES)?;
        let groups = groups_within(&listed, self.memory / READ_SHARE);
        let read = groups.flat_map(|group| {
            let ids = group.iter().map(|(id, _)| *id);
            ids.zip(similar::read_each(&self.files, group))
        });
        for (id, read) in read {
            self.monitor.check_cancelled()?;
            let mut is_changed = false;
            let mut sketches = match read {
                Ok(sketches) => sketches,
                Err(error) if error.is_fault() => continue,
                Err(error) => return Err(error),
            };
            let mut runs = Vec::with_capacity(sketches.runs.len());
            for mut run in sketches.runs {
                if state.is_doomed(run.pack) {
                    is_changed = true;
                    match moved.find(run.pack, run.offset)? {
                        Some(now) => (run.pack, run.offset) = now,
                        None => continue,
                    }
                }
                runs.push(run);
            }
            sketches.runs = runs;
            let count: usize = sketches.runs.iter().map(|run| run.chunks.len()).sum();
            if !is_changed && count > most / 2 {
                continue;
            }
            if chunks + count > most && chunks > 0 {
                self.put_sketches(out.take(), &mut replaced, gone, summary)?;
                chunks = 0;
            }
            chunks += count;
            replaced.push(id);
            match &mut out {
                None => out = Some(sketches),
                Some(out) => {
                    out.time = out.time.max(sketches.time);
                    out.runs.append(&mut sketches.runs);
                }
            }
        }
        self.put_sketches(out, &mut replaced, gone, summary)
    }

    /// Stores these sketches in place of some files.
    fn put_sketches(
        &self,
        sketches: Option<Sketches>,
        replaced: &mut Vec<FileId>,
        gone: &mut Vec<Name>,
        summary: &mut PruneSummary,
    ) -> Result<()> {
        if let Some(sketches) = sketches.filter(|sketches| !sketches.runs.is_empty()) {
            let id = new_id();
            let bytes = sketches
                .encode(&self.files.keys, id)
                .map_err(Error::damaged("the new sketches"))?;
            match self.files.put_copied(folder::SKETCHES, id, &bytes) {
                // They are optional, and this frees space.
                Err(Error::Storage(error)) if error.kind() == ErrorKind::NoSpace => {}
                put => put?,
            }
        }
        self.delete_with_packs(folder::SKETCHES, replaced, gone)?;
        summary.files_merged += replaced.len() as u64;
        replaced.clear();
        Ok(())
    }
}
