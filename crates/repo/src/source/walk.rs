//! Walking what is to be backed up: depth first, every directory's names in order of their bytes.
//!
//! Directories are opened relative to their parents. Only the nearest [`OPEN_MAX`] stay open; on the way back up from deeper ones the
//! parent is opened again as `..` and must be the same directory as before.

use super::Filter;
use crate::{Error, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories held open on the way down.
const OPEN_MAX: usize = 128;

/// First bytes of a `CACHEDIR.TAG` (bford.info/cachedir).
const CACHE_TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// What the walk meets.
pub(crate) enum Step {
    /// A directory; what follows, up to the matching [`Step::Leave`], is in it.
    Enter {
        name: Vec<u8>,
        stat: Stat,
        directory: Arc<OwnedFd>,
    },
    /// The end of a directory.
    Leave,
    /// Anything else, in the directory `parent`. `named` if the user named this very file.
    Node {
        name: Vec<u8>,
        stat: Stat,
        parent: Arc<OwnedFd>,
        named: bool,
    },
    /// Something could not be read.
    Failed { path: PathBuf, error: Error },
    /// The repository itself was met and left out.
    OwnFolder { path: PathBuf },
}

/// What of a directory was asked for.
#[derive(Default, Debug)]
struct Wanted {
    /// All of it.
    whole: bool,
    children: BTreeMap<Vec<u8>, Wanted>,
}

/// Names of one directory, in one allocation: a directory may have millions.
struct Names {
    bytes: Vec<u8>,
    /// (start, length), in order; those before `next` are done.
    spans: Vec<(u32, u16)>,
    next: usize,
}

impl Names {
    fn sorted(names: impl Iterator<Item = Result<Vec<u8>>>) -> Result<Names> {
        let mut all = Names {
            bytes: Vec::new(),
            spans: Vec::new(),
            next: 0,
        };
        for name in names {
            let name = name?;
            let start = u32::try_from(all.bytes.len()).map_err(|_| Error::TooMuch {
                what: "the names of one directory",
                limit: 4 << 30,
            })?;
            all.spans.push((start, name.len() as u16));
            all.bytes.extend_from_slice(&name);
        }
        let Names { bytes, spans, .. } = &mut all;
        spans.sort_unstable_by(|a, b| span(bytes, *a).cmp(span(bytes, *b)));
        Ok(all)
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let at = *self.spans.get(self.next)?;
        self.next += 1;
        Some(span(&self.bytes, at).to_vec())
    }
}

fn span(bytes: &[u8], (start, length): (u32, u16)) -> &[u8] {
    &bytes[start as usize..start as usize + usize::from(length)]
}

struct Level {
    /// None while too many are open.
    directory: Option<Arc<OwnedFd>>,
    stat: Stat,
    names: Names,
    /// What was asked for below; none if all of it.
    wanted: Option<BTreeMap<Vec<u8>, Wanted>>,
    path_length: usize,
}

/// The walk.
pub(crate) struct Walker {
    filter: Arc<Filter>,
    levels: Vec<Level>,
    path: Vec<u8>,
    /// (device, inode) of the folder that holds the repository.
    own: Option<(u64, u64)>,
    /// Device of each path that was asked for: of the innermost one we are in.
    device: Option<u64>,
    failed_first: Vec<Step>,
}

impl Walker {
    /// A walk over `paths`, which are absolute and without links ([`resolve`]).
    pub(crate) fn new(paths: &[PathBuf], filter: Arc<Filter>, own: Option<(u64, u64)>) -> Result<Walker> {
        let mut wanted = Wanted::default();
        for path in paths {
            let mut at = &mut wanted;
            for name in path.iter().skip(1) {
                at = at.children.entry(name.as_bytes().to_vec()).or_default();
            }
            at.whole = true;
        }
        let mut walker = Walker {
            filter,
            levels: Vec::new(),
            path: Vec::new(),
            own,
            device: None,
            failed_first: Vec::new(),
        };
        let root = rustix::fs::open("/", directory_flags(), Mode::empty()).map_err(|e| Error::local("open", "/", e))?;
        let stat = rustix::fs::fstat(&root).map_err(|e| Error::local("look at", "/", e))?;
        let level = walker.level(Arc::new(root), stat, wanted)?;
        walker.levels.push(level);
        Ok(walker)
    }

    /// The absolute path of what the last step was about.
    pub(crate) fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    fn level(&mut self, directory: Arc<OwnedFd>, stat: Stat, wanted: Wanted) -> Result<Level> {
        let path_length = self.path.len();
        let (names, wanted) = if wanted.whole {
            self.device = Some(stat.st_dev);
            (self.read_names(&directory)?, None)
        } else {
            (
                Names::sorted(wanted.children.keys().cloned().map(Ok))?,
                Some(wanted.children),
            )
        };
        Ok(Level {
            directory: Some(directory),
            stat,
            names,
            wanted,
            path_length,
        })
    }

    fn read_names(&self, directory: &Arc<OwnedFd>) -> Result<Names> {
        let failed = |error: rustix::io::Errno| Error::local("read directory", self.path(), error);
        if self.filter.caches && is_cache(directory) {
            return Names::sorted(std::iter::once(Ok(b"CACHEDIR.TAG".to_vec())));
        }
        let entries = Dir::read_from(directory).map_err(failed)?;
        Names::sorted(entries.filter_map(|entry| match entry {
            Ok(entry) => {
                let name = entry.file_name().to_bytes();
                (name != b"." && name != b"..").then(|| Ok(name.to_vec()))
            }
            Err(error) => Some(Err(failed(error))),
        }))
    }

    /// The next step; none at the end.
    pub(crate) fn next(&mut self) -> Option<Step> {
        if let Some(step) = self.failed_first.pop() {
            return Some(step);
        }
        loop {
            let depth = self.levels.len();
            let level = self.levels.last_mut()?;
            self.path.truncate(level.path_length);
            let Some(name) = level.names.next() else {
                return match self.ascend() {
                    _ if depth == 1 => None,
                    Ok(()) => Some(Step::Leave),
                    Err(error) => {
                        self.failed_first.push(Step::Leave);
                        Some(Step::Failed {
                            path: self.path().to_owned(),
                            error,
                        })
                    }
                };
            };
            self.path.push(b'/');
            self.path.extend_from_slice(&name);
            match self.visit(name) {
                Ok(Some(step)) => return Some(step),
                Ok(None) => {}
                Err(error) => {
                    return Some(Step::Failed {
                        path: self.path().to_owned(),
                        error,
                    });
                }
            }
        }
    }

    fn visit(&mut self, name: Vec<u8>) -> Result<Option<Step>> {
        let level = self.levels.last_mut().expect("a level");
        let parent = level.directory.clone().expect("the last level is open");
        let wanted = level
            .wanted
            .as_mut()
            .map(|wanted| wanted.remove(&name).expect("names come from here"));
        let named = wanted.as_ref().is_some_and(|wanted| wanted.whole);
        let failed = |error| Error::local("look at", self.path(), error);
        let stat = match rustix::fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // Gone between listing and looking: it was not there when we came by.
            Err(rustix::io::Errno::NOENT) if wanted.is_none() => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        // What the user named, and the way to it, is not subject to patterns.
        if wanted.is_none() && self.left_out(&stat, is_directory) {
            return Ok(None);
        }
        if !is_directory {
            return Ok(Some(Step::Node {
                name,
                stat,
                parent,
                named,
            }));
        }
        if self.own == Some((stat.st_dev, stat.st_ino)) {
            return Ok(Some(Step::OwnFolder {
                path: self.path().to_owned(),
            }));
        }
        let wanted = wanted.unwrap_or(Wanted {
            whole: true,
            children: BTreeMap::new(),
        });
        let stays_out = self.filter.one_file_system
            && !named
            && wanted.whole
            && self.device.is_some_and(|device| device != stat.st_dev);
        let directory =
            open_directory(&parent, &name).map_err(|error| Error::local("open directory", self.path(), error))?;
        let stat = rustix::fs::fstat(&directory).map_err(|error| Error::local("look at", self.path(), error))?;
        let directory = Arc::new(directory);
        // A mount point of another file system is kept as an empty directory.
        let wanted = if stays_out { Wanted::default() } else { wanted };
        let device = self.device;
        let level = match self.level(directory.clone(), stat, wanted) {
            Ok(level) => level,
            Err(error) => {
                self.device = device;
                return Err(error);
            }
        };
        self.levels.push(level);
        if self.levels.len() > OPEN_MAX {
            let far = self.levels.len() - 1 - OPEN_MAX;
            self.levels[far].directory = None;
        }
        Ok(Some(Step::Enter { name, stat, directory }))
    }

    fn left_out(&self, stat: &Stat, is_directory: bool) -> bool {
        let too_large = self.filter.larger_than.is_some_and(|limit| {
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size as u64 > limit
        });
        too_large || self.filter.leaves_out(self.path(), is_directory)
    }

    fn ascend(&mut self) -> Result<()> {
        let below = self.levels.pop().expect("a level");
        let Some(level) = self.levels.last_mut() else {
            return Ok(());
        };
        if level.directory.is_none() {
            let below = below.directory.expect("the last level is open");
            let path = || Path::new(OsStr::from_bytes(&self.path)).to_owned();
            let again =
                open_directory(&below, b"..").map_err(|error| Error::local("go back up from", path(), error))?;
            let stat = rustix::fs::fstat(&again).map_err(|error| Error::local("look at", path(), error))?;
            let same = (stat.st_dev, stat.st_ino) == (level.stat.st_dev, level.stat.st_ino);
            level.directory = Some(Arc::new(again));
            if !same {
                // The directory was moved while we were in it: what else is in its old parent can't be reached any more.
                level.names.next = level.names.spans.len();
                let source = std::io::Error::other("it was moved to another directory during the backup");
                return Err(Error::local("go back up from", path(), source));
            }
        }
        if let Some(level) = self.levels.last() {
            self.device = level.wanted.is_none().then_some(level.stat.st_dev);
        }
        Ok(())
    }
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn open_directory(parent: impl AsFd, name: &[u8]) -> std::result::Result<OwnedFd, rustix::io::Errno> {
    rustix::fs::openat(parent, name, directory_flags(), Mode::empty())
}

fn is_cache(directory: &Arc<OwnedFd>) -> bool {
    let mut start = [0; CACHE_TAG.len()];
    super::Opened::open(directory, b"CACHEDIR.TAG")
        .is_ok_and(|tag| tag.read_at(0, &mut start) == Ok(CACHE_TAG.len()) && start == *CACHE_TAG)
}

/// An absolute path without links on the way (the last name may be one: then the link is meant).
pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
    let failed = |source| Error::local("find", path, source);
    let ends_in_name = path.file_name().is_some() && !path.as_os_str().as_bytes().ends_with(b"/");
    if !ends_in_name {
        return std::fs::canonicalize(path).map_err(failed);
    }
    let name = path.file_name().expect("it ends in a name");
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let resolved = std::fs::canonicalize(parent).map_err(failed)?.join(name);
    std::fs::symlink_metadata(&resolved).map_err(failed)?;
    Ok(resolved)
}
