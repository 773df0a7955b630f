//! Sessions: each backup announces itself, so that a pruner does not delete what it relies on.
//!
//! A session is `sessions/<id>`, and the snapshot that ends it is `snapshots/<id>`. A pruner waits for the
//! sessions that it has seen, or ends them by a void file in the snapshot's place.

use ibid_format::FileId;
use ibid_format::session::{self, Process, Session};
use ibid_format::snapshot::{self, Snapshot};
use ibid_storage::ErrorKind;

use crate::files::Files;
use crate::layout::{folder, name_in, new_id};
use crate::prune::rules::{self, Rule};
use crate::source::{process_started, this_process};
use crate::threads::{each, groups};
use crate::{Error, Repository, Result, clock};

/// The session of this process.
pub(crate) struct OpenSession {
    pub(crate) id: FileId,
    /// Whether its snapshot may have been stored, or may be yet: then it stays for a pruner to decide.
    is_decided_elsewhere: bool,
    /// Whether it was deleted, or could not be.
    has_ended: bool,
}

/// How a session ended.
pub(crate) enum SessionEnd {
    /// The snapshot is durable; its file has so many bytes.
    Stored(u64),
    /// Another process has ended it, and there is no such snapshot.
    Void,
}

impl OpenSession {
    /// Announces what this process begins to do. Call it before anything is read that it relies on.
    pub(crate) fn begin(files: &Files, action: &str, program: &str, paths: &[Vec<u8>]) -> Result<OpenSession> {
        let id = new_id();
        let session = Session {
            time: clock::now(),
            host: crate::source::host_name(),
            user: crate::source::user_name(),
            program: program.to_owned(),
            action: action.to_owned(),
            paths: paths.to_vec(),
            process: this_process(),
        };
        let bytes = session
            .encode(&files.keys, id)
            .map_err(Error::damaged("the new session"))?;
        files.storage.put(&name_in(folder::SESSIONS, id), &[&bytes])?;
        Ok(OpenSession {
            id,
            is_decided_elsewhere: false,
            has_ended: false,
        })
    }

    /// Puts the snapshot of this session.
    pub(crate) fn put(&mut self, files: &Files, snapshot: &Snapshot) -> Result<SessionEnd> {
        let bytes = snapshot
            .encode(&files.keys, self.id)
            .map_err(Error::damaged("the new snapshot"))?;
        let name = name_in(folder::SNAPSHOTS, self.id);
        self.is_decided_elsewhere = true;
        match files.storage.put_noting_repeats(&name, &[&bytes]) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let mut found = files.storage.get(&name, snapshot::LIMIT)?;
                if files.keys.is_write_only() {
                    // What it has not sealed just now, a pruner has stored.
                    self.is_decided_elsewhere = false;
                    return Ok(match found == bytes {
                        true => SessionEnd::Stored(bytes.len() as u64),
                        false => SessionEnd::Void,
                    });
                }
                // Seals differ each time, so compare what is in them: the answer to a first try was lost.
                let found = Snapshot::open(&files.keys, self.id, &mut found).map_err(Error::damaged(name))?;
                if found.as_ref() != Some(snapshot) && rules::holds(Rule::Fence) {
                    self.is_decided_elsewhere = false;
                    return Ok(SessionEnd::Void);
                }
            }
            Ok(true) if !self.is_there(files)? => {
                // A try before had arrived. Its snapshot ended the session, was forgotten, and what it needed may have
                // been pruned, before this one came.
                match files.storage.delete(&name) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                    _ => {}
                }
                self.is_decided_elsewhere = false;
                return Ok(SessionEnd::Void);
            }
            put => put.map(drop)?,
        }
        self.is_decided_elsewhere = false;
        if let Some(copies) = &files.copies {
            copies.put(folder::SNAPSHOTS, self.id, &bytes);
        }
        Ok(SessionEnd::Stored(bytes.len() as u64))
    }

    /// Returns whether the session was ended by no other process.
    fn is_there(&self, files: &Files) -> Result<bool> {
        match files.storage.size(&name_in(folder::SESSIONS, self.id)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the session, if it has not ended yet. If its snapshot may be stored without this process knowing, it stays,
    /// and a pruner decides.
    pub(crate) fn end(&mut self, files: &Files) -> Result<()> {
        if self.is_decided_elsewhere || self.has_ended {
            return Ok(());
        }
        self.has_ended = true;
        match files.storage.delete(&name_in(folder::SESSIONS, self.id)) {
            // A storage may let writers delete nothing. The snapshot says that the session has ended.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && files.keys.is_write_only() => Ok(()),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// A session in the repository.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Its id, which its snapshot will have.
    pub id: FileId,
    /// What it says of itself.
    pub session: Session,
    /// What has become of it.
    pub state: SessionState,
}

/// What has become of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Its process runs on this machine.
    Running,
    /// Its process ran on this machine, and is gone.
    Dead,
    /// It may run on another machine.
    Unknown,
    /// Its snapshot is stored, or it was ended; only its file is left.
    Ended,
}

impl Repository {
    /// Returns the sessions of the repository, oldest first. One that can't be read is passed to `on_damage`.
    ///
    /// # Errors
    /// Errors of the storage when it can't be reached.
    pub fn sessions(&self, mut on_damage: impl FnMut(FileId, Error)) -> Result<Vec<SessionInfo>> {
        let mut found = Vec::new();
        for group in groups(&self.files.list(folder::SESSIONS)?) {
            let read = |(id, _): &(FileId, u64)| self.session(*id);
            for (&(id, _), read) in group.iter().zip(each(self.files.storage.is_remote(), group, read)) {
                match read {
                    Ok(info) => found.push(info),
                    // It has ended meanwhile.
                    Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) if error.is_fault() => on_damage(id, error),
                    Err(error) => return Err(error),
                }
            }
        }
        found.sort_by_key(|info| (info.session.time, info.id));
        Ok(found)
    }

    /// Returns a session.
    pub(crate) fn session(&self, id: FileId) -> Result<SessionInfo> {
        let session = self.files.read_session(id)?;
        let state = match self.files.storage.size(&name_in(folder::SNAPSHOTS, id)) {
            Ok(_) => SessionState::Ended,
            Err(error) if error.kind() == ErrorKind::NotFound => state_of(&session.process),
            Err(error) => return Err(error.into()),
        };
        Ok(SessionInfo { id, session, state })
    }
}

impl Files {
    pub(crate) fn read_session(&self, id: FileId) -> Result<Session> {
        let name = name_in(folder::SESSIONS, id);
        let mut bytes = self.storage.get(&name, session::LIMIT)?;
        Session::open(&self.keys, id, &mut bytes).map_err(Error::damaged(name))
    }
}

/// Returns whether a process of this machine still runs, as far as can be told.
fn state_of(process: &Process) -> SessionState {
    let here = this_process();
    let is_known = !process.machine.is_empty() && !process.boot.is_empty() && process.started > 0;
    if !is_known || process.machine != here.machine {
        return SessionState::Unknown;
    }
    if process.boot != here.boot {
        return SessionState::Dead;
    }
    // A process in another container can't be seen.
    if process.namespace == 0 || process.namespace != here.namespace {
        return SessionState::Unknown;
    }
    match process_started(process.pid) {
        Some(started) if started == process.started => SessionState::Running,
        _ => SessionState::Dead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_until_it_ends() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let of_child = || Process {
            pid: child.id().into(),
            started: process_started(child.id().into()).unwrap_or(0),
            ..this_process()
        };
        let process = of_child();
        assert_eq!(state_of(&process), SessionState::Running);
        let other = Process {
            started: process.started + 1,
            ..process.clone()
        };
        assert_eq!(
            state_of(&other),
            SessionState::Dead,
            "another process has its number now"
        );
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(state_of(&process), SessionState::Dead);
    }

    #[test]
    fn a_process_elsewhere_may_run() {
        let here = this_process();
        assert_eq!(state_of(&here), SessionState::Running);
        let elsewhere = Process {
            machine: "another".into(),
            ..here.clone()
        };
        let contained = Process {
            namespace: here.namespace + 1,
            ..here.clone()
        };
        for process in [elsewhere, contained, Process::default()] {
            assert_eq!(state_of(&process), SessionState::Unknown, "{process:?}");
        }
        let before = Process {
            boot: "before".into(),
            ..here
        };
        assert_eq!(state_of(&before), SessionState::Dead);
    }
}
