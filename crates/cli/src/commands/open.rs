//! Opens the repository that the command line names.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ibid_format::tree::Time;
use ibid_format::writer::TEXT_MAX;
use ibid_repo::{Error, Monitor, Probe, Repository, SnapshotFilter, SnapshotInfo, WriterKey};
use ibid_storage::Storage;
use ibid_terminal::path_text;
use zeroize::Zeroizing;

use super::password::{self, Password};
use super::place::{self, Place, Servers};
use crate::args::{Global, PasswordArgs, SelectArgs, Whose};
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, About, Out, Verb};

/// What opens a repository with its password.
type OpenProbe = fn(&Probe, Arc<dyn Storage>, Option<&[u8]>) -> ibid_repo::Result<Repository>;

/// The global options and standard output, for every command.
pub(crate) struct Context {
    pub(crate) global: Global,
    pub(crate) out: Out,
    pub(crate) servers: Servers,
    /// When the repository is to be read as it was then.
    pub(crate) as_of: Option<Time>,
}

/// An open repository.
pub(crate) struct Opened {
    pub(crate) repository: Repository,
    pub(crate) place: Place,
    /// `None` for a repository without encryption.
    pub(crate) password: Option<Password>,
    pub(crate) about: About,
}

impl Context {
    pub(crate) fn new(global: Global) -> Context {
        let servers = Servers::new(global.quiet);
        let mut out = Out::new(global.json, global.quiet);
        out.servers = servers.clone();
        Context {
            global,
            out,
            servers,
            as_of: None,
        }
    }

    /// Returns the path or the address of the repository, which may not exist yet.
    pub(crate) fn path(&self) -> Result<&Path> {
        let none_given = "no repository was given. Use --repo PATH, or set IBID_REPO";
        let what = "a repository is a folder here, or begins with ssh://, tls://, s3://, gs:// or az://";
        match &self.global.repo {
            Some(path) if place::address(path, &self.global.network)?.is_some() => Ok(path),
            path => local_folder(path.as_deref(), what, none_given),
        }
    }

    /// Opens the storage of the repository.
    pub(crate) fn open_place(&self) -> Result<Place> {
        let place = place::open(self.path()?, &self.global.network, &self.servers)?;
        match self.as_of {
            Some(time) => place.as_of(time),
            None => Ok(place),
        }
    }

    /// Returns what opens another repository with a password of its own.
    pub(crate) fn of_another(&self, repo: PathBuf, password: PasswordArgs, unencrypted: bool) -> Context {
        let global = &self.global;
        Context {
            out: Out::new(global.json, global.quiet),
            servers: self.servers.clone(),
            as_of: None,
            global: global.of_another(repo, password, unencrypted),
        }
    }

    /// Opens a repository to read from.
    pub(crate) fn open(&self) -> Result<Opened> {
        self.refuse_key_file("running this command")?;
        let place = self.open_place()?;
        let probe = self.probe(&place)?;
        self.unlock(place, probe)
    }

    /// Returns what can be read without a password, from the local cache if it has it.
    fn probe(&self, place: &Place) -> Result<Probe> {
        let storage = place.storage();
        Ok(match self.cache_folder() {
            Some(folder) => Repository::probe_with_cache(&*storage, &folder)?,
            None => Repository::probe(&*storage)?,
        })
    }

    /// Refuses the key of a writer for a command that needs a password.
    pub(crate) fn refuse_key_file(&self, action: &'static str) -> Result<()> {
        match self.global.key_file() {
            Some(_) => Err(Error::WriteOnly { action }.into()),
            None => Ok(()),
        }
    }

    /// Opens a repository with the key of a writer.
    fn open_as_writer(&self, place: Place, file: &Path) -> Result<Opened> {
        if self.global.unencrypted || self.global.writer.is_some() {
            return Err(Failure::Usage(
                "--key-file does not go with --unencrypted and --writer: the key says which writer it is. \
                 Leave them out"
                    .into(),
            ));
        }
        let key = read_key(file)?;
        let repository = Repository::open_as_writer(place.storage(), &key)?;
        self.ready(repository, place, None)
    }

    /// Opens a repository to write data to; one without encryption only with --unencrypted.
    pub(crate) fn open_to_store(&self) -> Result<Opened> {
        self.open_to_store_with(Probe::open)
    }

    /// Opens a repository to back up files. The backup finds out whether the [key is gone](Probe::open_to_back_up) that
    /// the cache remembers.
    pub(crate) fn open_to_back_up(&self) -> Result<Opened> {
        self.open_to_store_with(Probe::open_to_back_up)
    }

    /// Opens a repository again whose key is gone that the cache has remembered: with another one, if the password
    /// opens that. There may also be another repository now.
    pub(crate) fn open_again(&self, opened: &Opened) -> Result<Opened> {
        let (place, password) = (opened.place.clone(), opened.password.clone());
        let bytes = password.as_ref().map(|password| password.as_slice());
        let repository = Repository::open(place.storage(), bytes)?;
        let opened = self.ready(repository, place, password)?;
        self.check_lock(&opened)?;
        Ok(opened)
    }

    fn open_to_store_with(&self, open: OpenProbe) -> Result<Opened> {
        let opened = self.open_to_store_somewhere(open)?;
        self.check_lock(&opened)?;
        Ok(opened)
    }

    /// Refuses a place that can't lock what is to be locked, before anything is stored there. Where the repository
    /// records a lock, that was asked when it was made.
    pub(crate) fn check_lock(&self, opened: &Opened) -> Result<()> {
        match self.global.network.lock() {
            Some(_) => Ok(opened.repository.check_lock()?),
            None => Ok(()),
        }
    }

    fn open_to_store_somewhere(&self, open: OpenProbe) -> Result<Opened> {
        let place = self.open_place()?;
        if let Some(file) = self.global.key_file() {
            return self.open_as_writer(place, file);
        }
        let probe = self.probe(&place)?;
        if !probe.encrypted && !self.global.unencrypted {
            return Err(Failure::Fatal(format!(
                "the repository in {} is NOT encrypted: anyone who can read its files can read your data. \
                 Add {} to use it all the same. If it should be encrypted, find out who replaced it",
                place.location(),
                self.unencrypted_option()
            )));
        }
        self.unlock_with(place, probe, open)
    }

    fn unlock(&self, place: Place, probe: Probe) -> Result<Opened> {
        self.unlock_with(place, probe, Probe::open)
    }

    fn unlock_with(&self, place: Place, probe: Probe, open: OpenProbe) -> Result<Opened> {
        let (mut repository, password) = self.unlock_all(&place, &probe, open)?;
        if let Some(writer) = &self.global.writer {
            repository = repository.writer(writer)?;
        }
        self.ready(repository, place, password)
    }

    /// Opens the repository itself, also if a writer is wanted.
    fn unlock_all(&self, place: &Place, probe: &Probe, open: OpenProbe) -> Result<(Repository, Option<Password>)> {
        if probe.encrypted && self.global.unencrypted {
            let location = place.location();
            return Err(Failure::Usage(format!(
                "the repository in {location} is encrypted. Leave out {}, and give its password",
                self.unencrypted_option()
            )));
        }
        let password = self.password_of(place, probe)?;
        let bytes = password.as_ref().map(|password| password.as_slice());
        let repository = open(probe, place.storage(), bytes)?;
        Ok((repository, password))
    }

    /// Returns the option by which a user accepts this repository without encryption.
    fn unencrypted_option(&self) -> &'static str {
        match self.global.password.whose {
            Whose::Own => "--unencrypted",
            Whose::Destination => "--to-unencrypted",
            Whose::Model => "--like-unencrypted",
        }
    }

    /// Returns the password of a repository; `None` for one without encryption.
    fn password_of(&self, place: &Place, probe: &Probe) -> Result<Option<Password>> {
        // Never ignore a password: a user who gives one expects encryption, unless --unencrypted is there.
        match probe.encrypted {
            true => {
                let location = place.location();
                let needed = || {
                    let (variable, option) = match self.global.password.whose {
                        Whose::Own => return Error::PasswordNeeded { location }.into(),
                        Whose::Destination => ("TO", "to"),
                        Whose::Model => ("LIKE", "like"),
                    };
                    Failure::Password(format!(
                        "the repository in {location} is encrypted, and no password was given. Set \
                         IBID_{variable}_PASSWORD, or use --{option}-password-file or --{option}-password-command"
                    ))
                };
                Ok(Some(password::ask(self, self.path()?, needed)?))
            }
            false if self.global.unencrypted => Ok(None),
            false => password::given(&self.global.password),
        }
    }

    /// Opens a repository, or the files of a writer, to repair it. Makes its config again if that is lost or damaged; a
    /// dry run only opens it with the copy, if there is one. Returns whether it was.
    pub(crate) fn open_to_repair(&self, dry_run: bool) -> Result<(Opened, bool)> {
        self.refuse_key_file("repairing")?;
        let place = self.open_place()?;
        if let Some(writer) = &self.global.writer {
            let probe = self.probe(&place)?;
            let (repository, password) = self.unlock_all(&place, &probe, Probe::open)?;
            let config_made = repository.repair_writer_config(writer, dry_run)?;
            return Ok((self.ready(repository.writer(writer)?, place, password)?, config_made));
        }
        let storage = place.storage();
        let Ok(Some(copy)) = Repository::probe_copy(&*storage) else {
            let probe = Repository::probe(&*storage)?;
            return Ok((self.unlock(place, probe)?, false));
        };
        let password = self.password_of(&place, &copy)?;
        let bytes = password.as_ref().map(|password| password.as_slice());
        let with_copy = match dry_run {
            true => Repository::open_with_copy(storage.clone(), bytes)?,
            false => None,
        };
        let config_made = with_copy.is_some() || !dry_run && Repository::repair_config(storage.clone(), bytes)?;
        let repository = match with_copy {
            Some(repository) => repository,
            None => Repository::open(storage, bytes)?,
        };
        Ok((self.ready(repository, place, password)?, config_made))
    }

    /// Returns the folder of caches, if they are used.
    fn cache_folder(&self) -> Option<PathBuf> {
        let folder = self.global.cache_dir.clone().or_else(default_cache);
        // What was must not mix with what is.
        folder.filter(|_| !self.global.no_cache && self.as_of.is_none())
    }

    /// Gives a repository its local cache.
    fn with_cache(&self, repository: Repository) -> Repository {
        match self.cache_folder() {
            Some(folder) => repository.with_cached_data(self.global.cached_data).with_cache(&folder),
            None => repository,
        }
    }

    /// Completes the opening of an old or a new repository.
    pub(crate) fn ready(&self, repository: Repository, place: Place, password: Option<Password>) -> Result<Opened> {
        let mut repository = self.with_cache(repository.with_memory(self.global.memory)?);
        if let Some(lock) = self.global.network.lock().filter(|_| self.as_of.is_none()) {
            if repository.lock().is_none() && place.storage().locks().is_none() {
                return Err(super::place::cannot_lock(&place.location()));
            }
            repository = repository.with_lock(lock)?;
        }
        if !repository.is_encrypted() {
            print::unencrypted(&repository.location());
        }
        let about = About::of(&repository);
        Ok(Opened {
            repository,
            place,
            password,
            about,
        })
    }
}

/// Reads the key of a writer.
fn read_key(file: &Path) -> Result<WriterKey> {
    let read = || -> std::io::Result<Zeroizing<String>> {
        let mut text = Zeroizing::new(String::with_capacity(TEXT_MAX as usize + 1));
        std::fs::File::open(file)?
            .take(TEXT_MAX + 1)
            .read_to_string(&mut text)?;
        Ok(text)
    };
    let not_a_key = |fault: String| {
        Failure::Fatal(format!(
            "{} is {fault}. `ibid key add-writer` makes one, on a machine that has a password",
            path_text(file)
        ))
    };
    let text = match read() {
        Ok(text) if text.len() as u64 <= TEXT_MAX => text,
        Ok(_) => return Err(not_a_key("not the key of a writer: it is too long".into())),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            return Err(not_a_key("not the key of a writer: it is no text".into()));
        }
        Err(source) => return Err(Failure::local("read", file, source)),
    };
    WriterKey::parse(&text).map_err(|error| not_a_key(error.to_string()))
}

/// Returns the folder for local caches that the environment names, as the XDG base directories have it.
fn default_cache() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let folder = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(folder.join("ibid"))
}

/// Returns the folder that was given. `what` says what it could have been, `none_given` is the error if there is none.
pub(crate) fn local_folder<'p>(given: Option<&'p Path>, what: &str, none_given: &str) -> Result<&'p Path> {
    match given {
        // As in `scp` and `rsync`, a colon before any slash means another machine.
        Some(path) if path.iter().next().is_some_and(|first| first.as_bytes().contains(&b':')) => {
            Err(Failure::Usage(format!(
                "{0} looks like the address of another machine, and {what}. \
                 If it is a folder, write ./{0}",
                path_text(path)
            )))
        }
        Some(path) if !path.as_os_str().is_empty() => Ok(path),
        _ => Err(Failure::Usage(none_given.into())),
    }
}

/// Returns the filter that the options describe.
pub(crate) fn filter(select: &SelectArgs) -> Result<SnapshotFilter> {
    let mut filter = SnapshotFilter::default()
        .hosts(select.host.clone())
        .tags(select.tag.clone());
    for path in &select.path {
        filter = filter
            .path(path)
            .map_err(|source| Failure::local("find", path, source))?;
    }
    Ok(filter)
}

impl Opened {
    /// Returns the repository with its warnings printed, for a command without progress.
    pub(crate) fn warning(&self) -> Repository {
        let warn = |warning| drop(print::warning(Verb::Look, &warning));
        self.repository.watched_by(&Arc::new(Monitor::new(warn)))
    }

    /// Returns the snapshot of this name among those selected. Names those that can't be read and might be
    /// newer than `latest`.
    pub(crate) fn snapshot(&self, name: &str, select: &SelectArgs) -> Result<SnapshotInfo> {
        let passed_over = |_, error| print::passed_over(name, &error);
        Ok(self
            .repository
            .find_snapshot_with(name, &filter(select)?, passed_over)?)
    }

    /// Returns the snapshots of these names among those selected, each once.
    pub(crate) fn chosen(&self, names: &[String], select: &SelectArgs) -> Result<Vec<SnapshotInfo>> {
        let mut chosen: Vec<SnapshotInfo> = Vec::new();
        for name in names {
            let info = self.snapshot(name, select)?;
            if chosen.iter().all(|other| other.id != info.id) {
                chosen.push(info);
            }
        }
        Ok(chosen)
    }

    /// Returns all selected snapshots, oldest first. One that can't be read is an error: it might be any.
    pub(crate) fn snapshots_strictly(&self, select: &SelectArgs) -> Result<Vec<SnapshotInfo>> {
        let filter = filter(select)?;
        let mut snapshots = self.repository.snapshots()?;
        snapshots.retain(|info| filter.matches(&info.snapshot));
        Ok(snapshots)
    }

    /// Returns all selected snapshots, oldest first. Names those that cannot be read, and goes on.
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
