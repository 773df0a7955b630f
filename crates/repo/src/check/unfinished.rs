//! What backups and prunes have begun and not ended: harmless, but worth knowing.

use ibid_format::FileId;

use super::checking::Checking;
use super::dependents::counted;
use super::report::{PackBytes, Unfinished};
use crate::index::LoadedIndex;
use crate::layout::{folder, list_ids, name_in};
use crate::prune::{PruneState, entry_name, read_entry};
use crate::{Error, Result, SessionState};

impl Checking<'_> {
    /// Returns what backups and prunes have begun. Faults are only those by which a reader or a writer would go
    /// wrong.
    pub(super) fn unfinished(&self, voids: u64) -> Result<Unfinished> {
        let state = &self.loaded.state;
        let mut found = Unfinished {
            void_snapshots: voids,
            log_entry: state.number,
            untrusted_index_files: self.loaded.untrusted.len() as u64,
            ..Unfinished::default()
        };
        self.sessions(&mut found)?;
        self.forgotten()?;
        let condemned = state.condemned();
        self.repository.files.each(folder::PACKS, |id, size| {
            let packs = match (state.is_doomed(id), condemned.binary_search(&id)) {
                (true, _) => &mut found.doomed,
                (false, Ok(_)) => &mut found.condemned,
                (false, Err(_)) => return Ok(()),
            };
            *packs = PackBytes {
                packs: packs.packs + 1,
                bytes: packs.bytes + size,
            };
            Ok(())
        })?;
        self.older_entries(state)?;
        self.epochs()?;
        Ok(found)
    }

    /// Finds the sessions that have not ended. One that can't be read harms nothing: a prune waits for it.
    fn sessions(&self, found: &mut Unfinished) -> Result<()> {
        let mut damaged = Vec::new();
        let sessions = self.repository.sessions(|id, error| damaged.push((id, error)))?;
        for (id, error) in damaged {
            let problem = format!("{}; a prune waits for it until its patience ends", error.problem());
            self.note(name_in(folder::SESSIONS, id), problem);
        }
        let is_open = |session: &crate::SessionInfo| session.state != SessionState::Ended;
        found.sessions = sessions.into_iter().filter(is_open).collect();
        Ok(())
    }

    /// Finds the forgotten snapshots that can't be brought back.
    fn forgotten(&self) -> Result<()> {
        let mut damaged = Vec::new();
        self.repository.forgotten(|id, error| damaged.push((id, error)))?;
        for (id, error) in damaged {
            let problem = format!(
                "{}; this snapshot was forgotten, and can't be brought back",
                error.problem()
            );
            self.note(name_in(folder::FORGOTTEN, id), problem);
        }
        Ok(())
    }

    /// Looks at the entries of the log before the last. They are not read as long as the last can be read; loading
    /// the index has told of the others.
    fn older_entries(&self, state: &PruneState) -> Result<()> {
        let files = &self.repository.files;
        let listed = list_ids(files.storage.as_ref(), folder::PRUNE)?;
        let numbers: Vec<u64> = listed.iter().filter_map(|(id, _)| id.number()).collect();
        for pair in numbers.windows(2) {
            let gone = pair[1] - pair[0] - 1;
            if gone > 0 {
                let problem = format!(
                    "{} before it {} missing; later entries have all that they said",
                    counted(gone, "entry", "entries"),
                    if gone == 1 { "is" } else { "are" }
                );
                self.note(entry_name(pair[1]), problem);
            }
        }
        for number in numbers.into_iter().filter(|number| *number < state.number) {
            let is_told = |name| state.damaged.iter().any(|(damaged, _)| *damaged == name);
            match read_entry(files, number) {
                Ok(_) => {}
                // Another process has written enough since.
                Err(Error::Storage(error)) if error.kind() == ibid_storage::ErrorKind::NotFound => {}
                Err(error) if error.is_fault() => {
                    if !is_told(entry_name(number)) {
                        let problem = format!("{}; a later entry has all that it said", error.problem());
                        self.note(entry_name(number), problem);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Compares the log with the index files: who wrote one had read the log up to the entry that it names. If the
    /// log does not go so far, its end is lost, and with it which packs are not to be used.
    fn epochs(&self) -> Result<()> {
        let Some((file, epoch)) = self.newest_epoch(self.loaded)? else {
            return Ok(());
        };
        // The log may have gone on since it was read.
        let last = PruneState::read(&self.repository.files)?.number;
        if epoch > last {
            let problem = format!(
                "the log of prunes ends with entry {last}, but index file {file} was written after entry {epoch}: \
                 which packs were to be deleted since is not known, and a backup may rely on them"
            );
            self.fault(entry_name(last + 1), problem);
        }
        Ok(())
    }

    /// Returns the index file that was written after the last entry of the log, with the number of that entry;
    /// `None` if that can't be after the one that was read.
    fn newest_epoch(&self, loaded: &LoadedIndex) -> Result<Option<(FileId, u64)>> {
        let mut newest = None;
        for &id in loaded.trusted.iter().chain(&loaded.untrusted) {
            self.monitor.check_cancelled()?;
            match self.repository.files.read_index(id) {
                Ok(file) if file.epoch() > loaded.state.number => {
                    newest = newest.max(Some((file.epoch(), id)));
                }
                Ok(_) => {}
                // Loading has told of damage, or another process has merged the file since.
                Err(error) if error.is_fault() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(newest.map(|(epoch, id)| (id, epoch)))
    }
}
