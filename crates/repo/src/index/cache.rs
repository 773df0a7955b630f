//! The local cache of a repository: files that can be made again from it, and that save reading it.
//!
//! Every file is sealed with the repository's keys, so that a thief of the cache learns no more than a
//! thief of the repository. A file is written under a temporary name and renamed, and never changed, so
//! any number of processes can use a cache at once. Any file can be deleted at any time.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ibid_format::{FileId, Keys};

use super::run::Run;
use crate::{Error, Monitor, Result, Warning};

/// Folder of the runs in a cache.
const INDEX: &str = "index";
/// Tells programs that make backups to pass the folder over (bford.info/cachedir).
const TAG: &str =
    "Signature: 8a477f597d28d172789f06886806bc55\n# This is a cache of ibid. It can be deleted at any time.\n";
/// Age of a temporary file that a killed process has left behind.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// The cache of one repository.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
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
}

impl Cache {
    /// Returns the cache of a repository below `folder`. The folder is made when there is something to
    /// keep.
    pub(crate) fn new(folder: &Path, repository: FileId) -> Cache {
        Cache {
            folder: folder.join(repository.to_string()),
        }
    }

    /// Makes the folders that do not exist.
    pub(super) fn make(&self) -> Result<()> {
        let index = self.index();
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&index);
        made.map_err(|source| Error::local("make directory", &index, source))?;
        let tag = self.folder.join("CACHEDIR.TAG");
        if !tag.exists() {
            std::fs::write(&tag, TAG).map_err(|source| Error::local("write", &tag, source))?;
        }
        Ok(())
    }

    /// Returns the folder of the cache.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the folder of the runs.
    pub(super) fn index(&self) -> PathBuf {
        self.folder.join(INDEX)
    }

    /// Returns the folder for temporary files.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.index()
    }

    /// Returns the runs, largest first. No index file is in two of them: runs that other runs make
    /// unnecessary are deleted, and so are damaged ones.
    pub(super) fn runs(&self, keys: &Keys, monitor: &Monitor) -> Vec<Run> {
        let files = files_in(&self.index()).unwrap_or_else(|error| {
            monitor.warn(Warning::Cache { error });
            Vec::new()
        });
        let mut runs = Vec::new();
        for path in files {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(id) = FileId::parse(name) else {
                remove_abandoned(&path);
                continue;
            };
            match File::open(&path).map_err(|source| Error::local("read", &path, source)) {
                Ok(file) => match Run::open(file, path.clone(), keys, id) {
                    Ok(run) => runs.push(run),
                    Err(error) => {
                        let _ = std::fs::remove_file(&path);
                        monitor.warn(Warning::Cache { error });
                    }
                },
                // Another process has replaced it by a larger one meanwhile.
                Err(Error::Local { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => monitor.warn(Warning::Cache { error }),
            }
        }
        runs.sort_by_key(|run| std::cmp::Reverse((run.trailer.entries, run.trailer.covers, run.id)));
        let mut covered = HashSet::new();
        runs.retain(|run| {
            let covers = &run.tables.covers;
            if covers.iter().any(|id| covered.contains(id)) {
                if covers.iter().all(|id| covered.contains(id)) {
                    run.delete();
                }
                return false;
            }
            covered.extend(covers.iter().copied());
            true
        });
        runs
    }

    /// Returns what the cache holds.
    pub(crate) fn stats(&self, keys: &Keys) -> Result<CacheStats> {
        let mut stats = CacheStats {
            folder: self.folder.clone(),
            ..CacheStats::default()
        };
        for path in files_in(&self.index())? {
            let Ok(size) = std::fs::metadata(&path).map(|file| file.len()) else {
                continue;
            };
            stats.files += 1;
            stats.bytes += size;
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if let (Some(id), Ok(file)) = (FileId::parse(name), File::open(&path))
                && let Ok(run) = Run::open(file, path.clone(), keys, id)
            {
                stats.runs += 1;
                stats.chunks += run.trailer.entries;
                stats.run_bytes += size;
            }
        }
        Ok(stats)
    }

    /// Deletes all files of the cache, and its folder; returns their number and bytes.
    pub(crate) fn clear(&self) -> Result<(u64, u64)> {
        let (mut files, mut bytes) = (0, 0);
        for path in files_in(&self.index())? {
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
        let _ = std::fs::remove_dir(self.index());
        let _ = std::fs::remove_file(self.folder.join("CACHEDIR.TAG"));
        let _ = std::fs::remove_dir(&self.folder);
        Ok((files, bytes))
    }
}

/// Returns the paths of the files in a folder, in order; none if there is no folder.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |source| Error::local("list", folder, source);
    let mut paths = Vec::new();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(paths),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Deletes a temporary file if the process that wrote it must be gone.
fn remove_abandoned(path: &Path) {
    let modified = std::fs::metadata(path).and_then(|file| file.modified());
    let age = modified
        .ok()
        .and_then(|time| SystemTime::now().duration_since(time).ok());
    if age.is_some_and(|age| age > ABANDONED) {
        let _ = std::fs::remove_file(path);
    }
}
