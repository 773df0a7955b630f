//! The walk over files to back up: depth first, each directory in byte order of names.
//!
//! Directories are opened relative to their parents. Only the innermost [`OPEN_MAX`] stay open. On
//! the way back up, a closed parent is reopened as `..` and must be the same directory as before.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ibid_format::tree::check_name;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

use super::Filter;
use super::ahead::{Ahead, Folders};
use super::names::{NameSorter, Names};
use crate::scratch::Scratch;
use crate::{Error, Result};

/// Maximum number of open directories.
const OPEN_MAX: usize = 128;

/// Least bytes of names that a directory may keep in memory.
const NAMES_MIN: u64 = 128 << 10;

/// Name of the file that marks a directory as a cache.
const CACHE_TAG_NAME: &[u8] = b"CACHEDIR.TAG";
/// First bytes of a `CACHEDIR.TAG` (bford.info/cachedir).
const CACHE_TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// One step of the walk.
pub(crate) enum Step {
    /// A directory; the following steps, up to the matching [`Step::Leave`], are inside it.
    Enter {
        name: Vec<u8>,
        stat: Stat,
        directory: Arc<OwnedFd>,
    },
    /// The end of a directory.
    Leave,
    /// Any other file, in the directory `parent`. `named` is set if the user named this very file.
    Node {
        name: Vec<u8>,
        stat: Stat,
        parent: Arc<OwnedFd>,
        named: bool,
    },
    /// A file or directory could not be read.
    Failed { path: PathBuf, error: Error },
    /// The repository's own folder was found and left out.
    OwnFolder { path: PathBuf },
}

/// Folders that are not backed up, by device and inode.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwnFolders {
    /// The folder of the repository, if it is local.
    pub(crate) repository: Option<(u64, u64)>,
    /// The folder of its cache. It changes with every backup, and can be made again.
    pub(crate) cache: Option<(u64, u64)>,
}

/// The requested part of a directory.
#[derive(Default, Debug)]
struct Wanted {
    /// Whether the whole directory is requested.
    whole: bool,
    children: BTreeMap<Vec<u8>, Wanted>,
}

struct Level {
    /// `None` while too many are open. If it can't be opened again, its remaining names are
    /// skipped.
    directory: Option<Arc<OwnedFd>>,
    stat: Stat,
    names: Names,
    /// Directories in it that may be looked at before the walk gets there.
    folders: Folders,
    /// Whether the whole directory is requested.
    whole: bool,
    /// Names requested in it or below, in addition to the rest if [`whole`](Level::whole) is set.
    wanted: BTreeMap<Vec<u8>, Wanted>,
    path_length: usize,
}

/// Iterator over the files to back up.
pub(crate) struct Walker {
    filter: Arc<Filter>,
    levels: Vec<Level>,
    path: Vec<u8>,
    own: OwnFolders,
    failed_first: Vec<Step>,
    scratch: Scratch,
    ahead: Option<Ahead>,
}

impl Walker {
    /// Returns a walk over `paths`, which are absolute and without links ([`resolve`]). Names of large
    /// directories go to temporary files.
    pub(crate) fn new(paths: &[PathBuf], filter: Arc<Filter>, own: OwnFolders, scratch: Scratch) -> Result<Walker> {
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
            failed_first: Vec::new(),
            scratch,
            ahead: None,
        };
        let root = open_root().map_err(|error| Error::local("open", "/", error))?;
        let stat = rustix::fs::fstat(&root).map_err(|e| Error::local("look at", "/", e))?;
        let level = walker.level(Arc::new(root), stat, wanted)?;
        walker.levels.push(level);
        Ok(walker)
    }

    /// Has directories looked at before the walk gets there.
    pub(crate) fn looking_ahead(self, ahead: Ahead) -> Walker {
        Walker {
            ahead: Some(ahead),
            ..self
        }
    }

    /// Returns the absolute path of the last step.
    fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    fn level(&self, directory: Arc<OwnedFd>, stat: Stat, wanted: Wanted) -> Result<Level> {
        let Wanted { mut whole, children } = wanted;
        let mut names = NameSorter::new(&self.scratch, self.room());
        let mut folders = Folders::default();
        children.keys().try_for_each(|name| names.push(name))?;
        if whole {
            // A directory with a tag is stored with nothing in it but the tag, and what was named.
            for tag in self.tags(&directory) {
                whole = false;
                names.push(tag)?;
            }
        }
        if whole {
            self.read_names(&directory, &mut names, &mut folders)?;
        }
        let names = names.finish()?;
        Ok(Level {
            directory: Some(directory),
            stat,
            names,
            folders,
            whole,
            wanted: children,
            path_length: self.path.len(),
        })
    }

    /// Returns the names in a directory that exclude the rest of it.
    fn tags(&self, directory: &Arc<OwnedFd>) -> impl Iterator<Item = &[u8]> {
        let exists = move |name: &&[u8]| rustix::fs::statat(directory, *name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let given = self.filter.tags.iter().map(Vec::as_slice).filter(exists);
        let is_cache = self.filter.caches && is_cache(directory);
        given.chain(is_cache.then_some(CACHE_TAG_NAME))
    }

    /// Returns the bytes of names that the next directory may keep in memory: half of what the others
    /// leave, but not so little that its names would be in very many runs.
    fn room(&self) -> u64 {
        let limit = self.scratch.limits.names;
        let held = self.levels.iter().map(|level| level.names.memory()).sum();
        (limit.saturating_sub(held) / 2).max(NAMES_MIN.min(limit))
    }

    /// Reads all names of a directory.
    fn read_names(&self, directory: &Arc<OwnedFd>, names: &mut NameSorter<'_>, folders: &mut Folders) -> Result<()> {
        let failed = |error: rustix::io::Errno| Error::local("read directory", self.path(), error);
        for entry in Dir::read_from(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name)?;
                if self.ahead.is_some() && entry.file_type() == FileType::Directory {
                    folders.push(name);
                }
            }
        }
        folders.sort();
        Ok(())
    }

    /// Returns the next step; none at the end.
    pub(crate) fn next(&mut self) -> Option<Step> {
        if let Some(step) = self.failed_first.pop() {
            return Some(step);
        }
        loop {
            let depth = self.levels.len();
            let level = self.levels.last_mut()?;
            self.path.truncate(level.path_length);
            let name = match level.names.next() {
                Ok(name) => name,
                Err(error) => {
                    let path = self.path().to_owned();
                    return Some(Step::Failed { path, error });
                }
            };
            let Some(name) = name else {
                return match self.ascend() {
                    _ if depth == 1 => None,
                    None => Some(Step::Leave),
                    failed => {
                        self.failed_first.push(Step::Leave);
                        failed
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
        let parent = level
            .directory
            .clone()
            .expect("a level that is not open has no names left");
        let all_wanted = level.whole;
        let device = level.stat.st_dev;
        let wanted = level.wanted.remove(&name).unwrap_or_default();
        level.folders.reached(&name);
        let named = wanted.whole;
        let stat = rustix::fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| Error::local("look at", self.path(), error))?;
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        // Patterns do not apply to the paths that the user named, nor to their parents.
        let left_out = !named && all_wanted && self.left_out(&stat, is_directory);
        if left_out && wanted.children.is_empty() {
            return Ok(None);
        }
        check_name(&name).map_err(Error::Unstorable)?;
        if !is_directory {
            return Ok(Some(Step::Node {
                name,
                stat,
                parent,
                named,
            }));
        }
        let folder = Some((stat.st_dev, stat.st_ino));
        if self.own.cache == folder {
            return Ok(None);
        }
        if self.own.repository == folder {
            return Ok(Some(Step::OwnFolder {
                path: self.path().to_owned(),
            }));
        }
        let directory =
            open_directory(&parent, &name).map_err(|error| Error::local("open directory", self.path(), error))?;
        let stat = rustix::fs::fstat(&directory).map_err(|error| Error::local("look at", self.path(), error))?;
        let directory = Arc::new(directory);
        // The mount point of another file system is kept as an empty directory.
        let stays_out = self.filter.one_file_system && stat.st_dev != device;
        let wanted = Wanted {
            whole: named || all_wanted && !left_out && !stays_out,
            children: wanted.children,
        };
        let level = self.level(directory.clone(), stat, wanted)?;
        self.levels.push(level);
        if self.levels.len() > OPEN_MAX {
            let far = self.levels.len() - 1 - OPEN_MAX;
            self.levels[far].directory = None;
        }
        self.look_ahead();
        Ok(Some(Step::Enter { name, stat, directory }))
    }

    /// Has directories looked at that the walk will enter next: first those in the innermost one.
    fn look_ahead(&mut self) {
        let Some(ahead) = &self.ahead else { return };
        for level in self.levels.iter_mut().rev() {
            let Some(directory) = &level.directory else { return };
            while !ahead.is_full() {
                let Some(name) = level.folders.next() else { break };
                let path = [&self.path[..level.path_length], b"/", &name].concat();
                if !self.filter.leaves_out(Path::new(OsStr::from_bytes(&path)), true) {
                    ahead.look(directory, name, level.stat.st_dev);
                }
            }
        }
    }

    fn left_out(&self, stat: &Stat, is_directory: bool) -> bool {
        let too_large = self.filter.larger_than.is_some_and(|limit| {
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size as u64 > limit
        });
        too_large || self.filter.leaves_out(self.path(), is_directory)
    }

    /// Leaves the innermost level. If its parent can't be opened again and has names left, these
    /// are skipped and the error is returned.
    fn ascend(&mut self) -> Option<Step> {
        let below = self.levels.pop().expect("a level");
        let mut level = self.levels.pop()?;
        let mut failed = None;
        if level.directory.is_none() {
            match self.reopen(&level, below.directory.as_deref()) {
                Ok(directory) => level.directory = Some(Arc::new(directory)),
                Err(source) if level.names.give_up() => {
                    let path = PathBuf::from(OsStr::from_bytes(&self.path[..level.path_length]));
                    let error = Error::local("go back up to", &path, source);
                    failed = Some(Step::Failed { path, error });
                }
                Err(_) => {}
            }
        }
        self.levels.push(level);
        failed
    }

    /// Reopens a directory that was closed on the way down: as the parent of the one below, or by
    /// its path if that was moved.
    fn reopen(&self, level: &Level, below: Option<&OwnedFd>) -> std::io::Result<OwnedFd> {
        let same = |directory: OwnedFd| {
            let stat = rustix::fs::fstat(&directory)?;
            match (stat.st_dev, stat.st_ino) == (level.stat.st_dev, level.stat.st_ino) {
                true => Ok(directory),
                false => Err(std::io::Error::other(
                    "it was moved to another directory during the backup",
                )),
            }
        };
        if let Some(directory) = below
            .and_then(|below| open_directory(below, b"..").ok())
            .and_then(|directory| same(directory).ok())
        {
            return Ok(directory);
        }
        let mut directory = open_root()?;
        for name in self.path[..level.path_length]
            .split(|&byte| byte == b'/')
            .filter(|name| !name.is_empty())
        {
            directory = open_directory(&directory, name)?;
        }
        same(directory)
    }
}

fn open_root() -> std::result::Result<OwnedFd, rustix::io::Errno> {
    rustix::fs::open("/", directory_flags(), Mode::empty())
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

pub(super) fn open_directory(parent: impl AsFd, name: &[u8]) -> std::result::Result<OwnedFd, rustix::io::Errno> {
    rustix::fs::openat(parent, name, directory_flags(), Mode::empty())
}

fn is_cache(directory: &Arc<OwnedFd>) -> bool {
    let mut start = [0; CACHE_TAG.len()];
    super::Opened::open(directory, CACHE_TAG_NAME)
        .is_ok_and(|tag| tag.read_at(0, &mut start) == Ok(CACHE_TAG.len()) && start == *CACHE_TAG)
}

/// Returns an absolute path with links on the way resolved. If the last name is a link, the path
/// means the link itself.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Excludes;

    #[test]
    fn directories_whose_names_are_in_files_are_walked_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let mut files = Vec::new();
        for n in 0..600 {
            // Three levels, each with many names.
            let below = ["", "m/", "m/m/"][n % 3];
            let name = PathBuf::from(format!("{below}{:x}-{n}", n * 7919 % 256));
            std::fs::create_dir_all(root.join(below)).unwrap();
            std::fs::write(root.join(&name), b"").unwrap();
            files.push(name);
        }
        // Paths compare by their names.
        files.sort();
        let (walked, failed) = walked(&root, || ());
        assert!(failed.is_empty(), "{failed:?}");
        assert!(walked == files, "in the order of names, each once");
    }

    #[test]
    fn directories_that_will_be_walked_are_looked_at_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["a/x", "b/left-out/deep", "c", "left-out", "z"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        let excludes = Excludes::default().patterns(["left-out".to_owned()]);
        let filter = Arc::new(Filter::new(&excludes).unwrap());
        let scratch = Scratch::tiny(&std::env::temp_dir());
        let walker = Walker::new(std::slice::from_ref(&root), filter, OwnFolders::default(), scratch).unwrap();
        let (ahead, asked) = super::super::ahead::channel();
        let mut walker = walker.looking_ahead(ahead);
        while walker.next().is_some() {}
        drop(walker);
        let names: Vec<_> = asked
            .folders
            .into_iter()
            .map(|folder| folder.name().to_owned())
            .collect();
        assert_eq!(names, [b"a", b"b", b"c", b"z", b"x"]);
    }

    /// Walks `root` and returns the paths of files and of failures. `at_the_bottom` is called at
    /// the file "bottom".
    fn walked(root: &Path, mut at_the_bottom: impl FnMut()) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let filter = Arc::new(Filter::new(&Excludes::default()).unwrap());
        let scratch = Scratch::tiny(&std::env::temp_dir());
        let mut walker = Walker::new(&[root.to_owned()], filter, OwnFolders::default(), scratch).unwrap();
        let (mut files, mut failed) = (Vec::new(), Vec::new());
        while let Some(step) = walker.next() {
            match step {
                Step::Node { name, .. } => {
                    files.push(walker.path().strip_prefix(root).unwrap().to_owned());
                    if name == b"bottom" {
                        at_the_bottom();
                    }
                }
                Step::Failed { path, .. } => failed.push(path.strip_prefix(root).unwrap().to_owned()),
                _ => {}
            }
        }
        (files, failed)
    }

    /// Makes nested directories, more than are held open, with a file "z" in each of the upper ten.
    fn deep() -> (tempfile::TempDir, PathBuf) {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().canonicalize().unwrap();
        let deepest = root.join("d/".repeat(OPEN_MAX + 20));
        std::fs::create_dir_all(&deepest).unwrap();
        std::fs::write(deepest.join("bottom"), "").unwrap();
        for depth in 0..10 {
            std::fs::write(root.join("d/".repeat(depth)).join("z"), "").unwrap();
        }
        (temporary, root)
    }

    #[test]
    fn a_folder_that_is_moved_while_the_walk_is_far_below_costs_nothing() {
        let (_temporary, root) = deep();
        let (files, failed) = walked(&root, || {
            std::fs::rename(root.join("d/d/d/d"), root.join("elsewhere")).unwrap();
        });
        assert_eq!(failed, Vec::<PathBuf>::new());
        assert_eq!(files.len(), 1 + 10, "{files:?}");
    }

    #[test]
    fn a_folder_that_cannot_be_found_again_is_named_and_those_above_are_walked() {
        let (_temporary, root) = deep();
        let (files, failed) = walked(&root, || {
            std::fs::rename(root.join("d/d/d/d"), root.join("d/d/elsewhere")).unwrap();
            std::fs::rename(root.join("d/d/d"), root.join("renamed")).unwrap();
        });
        assert!(failed.contains(&"d/d/d".into()), "{failed:?}");
        for depth in 0..3 {
            let above = PathBuf::from("d/".repeat(depth)).join("z");
            assert!(files.contains(&above), "{above:?} is not among {files:?}");
        }
    }
}
