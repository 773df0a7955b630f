//! The local cache of a repository: files that can be made again from it, and that save reading it.
//!
//! Every file is sealed with the repository's keys, so that a thief of the cache learns no more than a
//! thief of the repository. A file is written under a temporary name and renamed, and never changed, so
//! any number of processes can use a cache at once. Any file can be deleted at any time.

mod complete;
mod copies;
mod file;
mod opened;
mod parts;
mod rates;
mod temporary;
mod twin;

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub(crate) use complete::Complete;
pub(crate) use copies::Copies;
pub(crate) use file::{SealedFile, SealedWriter};
use ibid_format::{FileId, Keys};
pub(crate) use opened::LastOpened;
pub(crate) use parts::Parts;
pub use rates::Rates;

use crate::index::Run;
use crate::layout::new_id;
use crate::similar::SketchRun;
use crate::{Error, Monitor, Result, Warning};

/// Folders in a cache.
const FOLDERS: [&str; 7] = [
    Run::FOLDER,
    SketchRun::FOLDER,
    copies::FOLDERS[0],
    copies::FOLDERS[1],
    copies::FOLDERS[2],
    copies::FOLDERS[3],
    parts::FOLDER,
];
/// Tells programs that make backups to pass the folder over (bford.info/cachedir).
const TAG: &str =
    "Signature: 8a477f597d28d172789f06886806bc55\n# This is a cache of ibid. It can be deleted at any time.\n";
/// Age of a temporary file that a killed process has left behind.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// A kind of file in the cache. Each stands for files of the repository.
pub(crate) trait Kept: Sized {
    /// Folder in the cache.
    const FOLDER: &'static str;

    /// Opens such a file.
    fn open(file: SealedFile) -> Result<Self>;

    fn file(&self) -> &SealedFile;

    /// Returns how much it stands for: files with more are used first.
    fn weight(&self) -> u64;

    /// Returns the files of the repository that it stands for.
    fn covers(&self) -> &[FileId];
}

/// The cache of one repository.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    /// The folder goes with the last handle, if it is a twin.
    _twin: Option<twin::Twin>,
    /// The same, if it is temporary. A twin of it goes first.
    _temporary: Option<Arc<temporary::Folder>>,
}

/// Contents of a local cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Folder of the cache.
    pub folder: PathBuf,
    /// Files in it.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Runs: sorted files of the index.
    pub runs: u64,
    /// Entries in these runs: chunks, each as often as it is stored.
    pub chunks: u64,
    /// Bytes of these runs.
    pub run_bytes: u64,
    /// Bytes of copies of trees, snapshots, and files of index and sketches. There are none if the repository is on a
    /// disk of this machine.
    pub copy_bytes: u64,
    /// Bytes of data that this machine has stored or read, kept for the next backup under the same condition.
    pub data_bytes: u64,
}

impl Cache {
    /// Returns the cache of a repository below `folder`. The folder is made when there is something to
    /// keep.
    pub(crate) fn new(folder: &Path, repository: FileId) -> Cache {
        Cache {
            folder: folder.join(repository.to_string()),
            _twin: None,
            _temporary: None,
        }
    }

    /// Returns the folder of a kind of files. Makes it if there is none.
    pub(crate) fn make<F: Kept>(&self) -> Result<PathBuf> {
        let folder = self.folder.join(F::FOLDER);
        self.make_folder(&folder)?;
        Ok(folder)
    }

    /// Makes a folder of the cache if there is none.
    fn make_folder(&self, folder: &Path) -> Result<()> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|source| Error::local("make directory", folder, source))?;
        let tag = self.folder.join("CACHEDIR.TAG");
        if !tag.exists() {
            std::fs::write(&tag, TAG).map_err(|source| Error::local("write", &tag, source))?;
        }
        Ok(())
    }

    /// Makes a file in a folder of the cache, or in its own if that is empty, by `write`: whole or not at all.
    fn write_whole(&self, folder: &str, path: &Path, write: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
        let folder = self.folder.join(folder);
        self.make_folder(&folder)?;
        let temporary = folder.join(format!("tmp-{}", new_id()));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary);
        let mut file = file.map_err(|source| Error::local("make", &temporary, source))?;
        let written = write(&mut file).and_then(|()| {
            // Not synced: what a crash leaves incomplete does not open.
            std::fs::rename(&temporary, path).map_err(|source| Error::local("name", path, source))
        });
        if written.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        written
    }

    /// Makes a file of these bytes in the same way.
    fn write_bytes(&self, folder: &str, path: &Path, bytes: &[u8]) -> Result<()> {
        self.write_whole(folder, path, |file| {
            file.write_all(bytes)
                .map_err(|source| Error::local("write", path, source))
        })
    }

    /// Returns the folder of the cache.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the folder for temporary files.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.folder.join(Run::FOLDER)
    }

    /// Returns the files of a kind, those with most entries first. No two stand for the same file of the
    /// repository: files that others make unnecessary are deleted, and so are damaged ones.
    pub(crate) fn files<F: Kept>(&self, keys: &Keys, monitor: &Monitor) -> Vec<F> {
        let paths = files_in(&self.folder.join(F::FOLDER)).unwrap_or_else(|error| {
            monitor.warn(Warning::Cache { error });
            Vec::new()
        });
        let mut files: Vec<F> = Vec::new();
        for path in paths {
            let Some(id) = id_of(&path) else {
                remove_abandoned(&path);
                continue;
            };
            match SealedFile::open(path.clone(), keys, id).and_then(F::open) {
                Ok(file) => files.push(file),
                // Another process has replaced it by a larger one meanwhile.
                Err(Error::Local { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    let is_unusable = matches!(&error, Error::Damaged { .. })
                        || matches!(&error, Error::Local { source, .. }
                            if source.kind() == std::io::ErrorKind::UnexpectedEof);
                    if is_unusable {
                        let _ = std::fs::remove_file(&path);
                    }
                    monitor.warn(Warning::Cache { error });
                }
            }
        }
        files.sort_by_key(|file| std::cmp::Reverse((file.weight(), file.covers().len(), file.file().id())));
        let mut covered = HashSet::new();
        files.retain(|file| {
            let covers = file.covers();
            if covers.iter().any(|id| covered.contains(id)) {
                if covers.iter().all(|id| covered.contains(id)) {
                    file.file().delete();
                }
                return false;
            }
            covered.extend(covers.iter().copied());
            true
        });
        files
    }

    /// Deletes all files of a kind if one stands for one of these files of the repository, because that is
    /// damaged: the next backup must notice.
    pub(crate) fn forget<F: Kept>(&self, keys: &Keys, monitor: &Monitor, damaged: &[FileId]) {
        if damaged.is_empty() {
            return;
        }
        let files = self.files::<F>(keys, monitor);
        if files.iter().flat_map(F::covers).any(|id| damaged.contains(id)) {
            // All of them: what is in a damaged file may be in another's entries.
            files.iter().for_each(|file| file.file().delete());
        }
    }

    /// Returns the paths of all files.
    fn paths(&self) -> Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for folder in FOLDERS {
            paths.extend(files_in(&self.folder.join(folder))?);
        }
        for name in ["complete", copies::LISTED, opened::OPENED, rates::RATES] {
            let path = self.folder.join(name);
            paths.extend(path.exists().then_some(path));
        }
        Ok(paths)
    }

    /// Returns what the cache holds.
    pub(crate) fn stats(&self, keys: &Keys) -> Result<CacheStats> {
        let mut stats = CacheStats {
            folder: self.folder.clone(),
            ..CacheStats::default()
        };
        for path in self.paths()? {
            let Ok(size) = std::fs::metadata(&path).map(|file| file.len()) else {
                continue;
            };
            stats.files += 1;
            stats.bytes += size;
            let is_run = path.parent().is_some_and(|folder| folder.ends_with(Run::FOLDER));
            if let Some(id) = id_of(&path).filter(|_| is_run)
                && let Ok(run) = SealedFile::open(path.clone(), keys, id).and_then(Run::open)
            {
                stats.runs += 1;
                stats.chunks += run.weight();
                stats.run_bytes += size;
            }
            let is_in = |folder: &&str| path.parent().is_some_and(|parent| parent.ends_with(folder));
            if copies::FOLDERS.iter().any(is_in) {
                stats.copy_bytes += size;
            }
            if is_in(&parts::FOLDER) {
                stats.data_bytes += size;
            }
        }
        Ok(stats)
    }

    /// Deletes all files of the cache, and its folder; returns their number and bytes.
    pub(crate) fn clear(&self) -> Result<(u64, u64)> {
        let (mut files, mut bytes) = (0, 0);
        twin::remove_twins(&self.folder, false);
        for path in self.paths()? {
            let size = std::fs::metadata(&path).map_or(0, |file| file.len());
            match std::fs::remove_file(&path) {
                Ok(()) => {
                    files += 1;
                    bytes += size;
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => return Err(Error::local("delete", &path, source)),
            }
        }
        // Another process may have added a file meanwhile.
        for folder in FOLDERS {
            let _ = std::fs::remove_dir(self.folder.join(folder));
        }
        let _ = std::fs::remove_file(self.folder.join("CACHEDIR.TAG"));
        let _ = std::fs::remove_dir(&self.folder);
        Ok((files, bytes))
    }
}

/// Returns the id that a file is named after.
fn id_of(path: &Path) -> Option<FileId> {
    FileId::parse(path.file_name()?.to_str()?)
}

/// Returns the paths of the files in a folder, in order; none if there is no folder.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |source| Error::local("list", folder, source);
    let mut paths = Vec::new();
    let entries = match std::fs::read_dir(folder) {
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(paths);
        }
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Returns for how long a file has not been written to; none if there is none, or if it is from the future.
fn age(path: &Path) -> Option<Duration> {
    let modified = std::fs::metadata(path).and_then(|file| file.modified()).ok()?;
    SystemTime::now().duration_since(modified).ok()
}

/// Notes that a file was used now. Should that fail, it goes earlier than it should.
fn touch(file: &File) {
    let _ = file.set_modified(SystemTime::now());
}

/// Returns whether the process that wrote a temporary file or folder must be gone.
fn is_abandoned(path: &Path) -> bool {
    age(path).is_some_and(|age| age > ABANDONED)
}

/// Removes those folders in one that have names which begin so, and that are to go.
fn remove_folders(of: &Path, name: &str, goes: impl Fn(&Path) -> bool) {
    for path in files_in(of).unwrap_or_default() {
        let found = path.file_name().and_then(|name| name.to_str());
        if found.is_some_and(|found| found.starts_with(name)) && goes(&path) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Deletes a temporary file if the process that wrote it must be gone.
fn remove_abandoned(path: &Path) {
    if is_abandoned(path) {
        let _ = std::fs::remove_file(path);
    }
}
