//! From what was typed to an open repository.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use ibid_repo::{Error, Probe, Repository, SnapshotFilter, SnapshotInfo};
use ibid_storage::{ErrorKind, Local, Storage};
use ibid_terminal::path_text;

use super::password::{self, Password};
use crate::args::{Global, SelectArgs};
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, About, Out};

/// What every command has at hand.
pub(crate) struct Context {
    pub(crate) global: Global,
    pub(crate) out: Out,
}

/// A repository, and what opened it.
pub(crate) struct Opened {
    pub(crate) repository: Repository,
    pub(crate) storage: Arc<Local>,
    /// None if it is not encrypted.
    pub(crate) password: Option<Password>,
    pub(crate) about: About,
}

impl Context {
    /// Where the repository is, or is to be.
    pub(crate) fn path(&self) -> Result<&Path> {
        let which = "which repository? Give its folder: --repo PATH, or set IBID_REPO";
        local_folder(self.global.repo.as_deref(), "a repository", which)
    }

    /// Opens a repository to read from.
    pub(crate) fn open(&self) -> Result<Opened> {
        let path = self.path()?;
        let storage = Arc::new(open_storage(path)?);
        let probe = Repository::probe(storage.as_ref())?;
        self.unlock(storage, probe)
    }

    /// Opens a repository to write data to: one without encryption only if that was said.
    pub(crate) fn open_to_store(&self) -> Result<Opened> {
        let path = self.path()?;
        let storage = Arc::new(open_storage(path)?);
        let probe = Repository::probe(storage.as_ref())?;
        if !probe.encrypted && !self.global.unencrypted {
            return Err(Failure::Fatal(format!(
                "the repository at {} is NOT encrypted: whoever can read it can read what is stored in it. If that is what you want, say \
                 --unencrypted; if it should be encrypted, find out who replaced it",
                storage.location()
            )));
        }
        self.unlock(storage, probe)
    }

    fn unlock(&self, storage: Arc<Local>, probe: Probe) -> Result<Opened> {
        if probe.encrypted && self.global.unencrypted {
            let location = storage.location();
            return Err(Failure::Usage(format!(
                "the repository at {location} is encrypted: leave out --unencrypted and give its password"
            )));
        }
        // A password that was given must not be ignored: who has one expects encryption. --unencrypted says
        // otherwise.
        let password = match probe.encrypted {
            true => {
                let location = storage.location();
                let needed = || ibid_repo::Error::PasswordNeeded { location }.into();
                Some(password::ask(self, self.path()?, needed)?)
            }
            false if self.global.unencrypted => None,
            false => password::given(&self.global.password)?,
        };
        let repository = Repository::open(storage.clone(), password.as_ref().map(|password| password.as_slice()))?;
        self.ready(repository, storage, password)
    }

    /// What is common to repositories that were opened and made.
    pub(crate) fn ready(
        &self,
        repository: Repository,
        storage: Arc<Local>,
        password: Option<Password>,
    ) -> Result<Opened> {
        let repository = repository.with_memory(self.global.memory)?;
        if !repository.is_encrypted() {
            print::unencrypted(&repository.location());
        }
        let about = About::of(&repository);
        Ok(Opened {
            repository,
            storage,
            password,
            about,
        })
    }
}

/// The folder that was given for `what`; `which` asks for it if none was.
pub(crate) fn local_folder<'p>(given: Option<&'p Path>, what: &str, which: &str) -> Result<&'p Path> {
    match given {
        // As `scp` and `rsync` do it: a colon before any slash is another machine's, or another kind of place.
        Some(path) if path.iter().next().is_some_and(|first| first.as_bytes().contains(&b':')) => {
            Err(Failure::Usage(format!(
                "{0} looks like the address of another kind of place, and {what} is a folder; if it is one, write ./{0}",
                path_text(path)
            )))
        }
        Some(path) if !path.as_os_str().is_empty() => Ok(path),
        _ => Err(Failure::Usage(which.into())),
    }
}

/// A folder that should hold a repository.
pub(crate) fn open_storage(path: &Path) -> Result<Local> {
    Local::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::NoRepository {
            location: path.display().to_string(),
        }
        .into(),
        ErrorKind::NotAnObject => Error::NotARepository {
            location: path.display().to_string(),
            found: "it is a file, and a repository is a folder".to_owned(),
        }
        .into(),
        _ => error.into(),
    })
}

/// The snapshots that the options select.
pub(crate) fn filter(select: &SelectArgs) -> Result<SnapshotFilter> {
    let mut paths = Vec::new();
    for path in &select.path {
        let recorded = ibid_repo::recorded_as(path).map_err(|source| Failure::local("find", path, source))?;
        paths.extend(recorded);
    }
    Ok(SnapshotFilter {
        hosts: select.host.clone(),
        tags: select.tag.clone(),
        paths,
    })
}

impl Opened {
    /// The snapshot of this name among those selected.
    pub(crate) fn snapshot(&self, name: &str, select: &SelectArgs) -> Result<SnapshotInfo> {
        Ok(self.repository.snapshot_among(name, &filter(select)?)?)
    }

    /// All snapshots that are selected, oldest first. Those that can't be read are named, and keep
    /// nobody from the others.
    pub(crate) fn snapshots(&self, select: &SelectArgs) -> Result<(Vec<SnapshotInfo>, Outcome)> {
        let filter = filter(select)?;
        let mut outcome = Outcome::Done;
        let mut snapshots = self.repository.snapshots_with(|_, error| {
            outcome = Outcome::Partial;
            print::failure(&error.into());
        })?;
        snapshots.retain(|info| filter.matches(&info.snapshot));
        Ok((snapshots, outcome))
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() as i64)
}
