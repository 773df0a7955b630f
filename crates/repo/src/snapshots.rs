//! Finding snapshots by id, age and filter.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use ibid_format::FileId;
use ibid_format::snapshot::Snapshot;
use ibid_format::tree::Time;
use ibid_storage::ErrorKind;

use crate::layout::{folder, name_in};
use crate::listed::Listed;
use crate::options::setters;
use crate::threads::{each, groups};
use crate::{Error, Repository, Result, Warning};

/// A snapshot and its id.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SnapshotInfo {
    /// Id of the snapshot: the name of its file.
    pub id: FileId,
    /// Size of its file, bytes.
    pub file_size: u64,
    /// Contents of the file.
    pub snapshot: Snapshot,
}

impl SnapshotInfo {
    /// Returns the first 8 digits of the id, as shown in listings.
    pub fn short_id(&self) -> String {
        self.id.to_string()[..8].to_owned()
    }

    /// Returns a reference to `path` in this snapshot. Paths are those that were backed up; a leading
    /// slash, double slashes and `.` are ignored.
    pub fn at<'a>(&'a self, path: &'a (impl AsRef<Path> + ?Sized)) -> SnapshotPath<'a> {
        SnapshotPath {
            snapshot: self,
            path: Cow::Borrowed(path.as_ref()),
        }
    }
}

/// A path in a snapshot: its root if made [from](From) a [`SnapshotInfo`], or a path given to
/// [`SnapshotInfo::at`].
#[derive(Clone, Debug)]
pub struct SnapshotPath<'a> {
    pub(crate) snapshot: &'a SnapshotInfo,
    pub(crate) path: Cow<'a, Path>,
}

impl<'a> From<&'a SnapshotInfo> for SnapshotPath<'a> {
    fn from(snapshot: &'a SnapshotInfo) -> SnapshotPath<'a> {
        snapshot.at("")
    }
}

/// Selects the snapshots that match every list that is not empty.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SnapshotFilter {
    /// Made on one of these machines.
    pub hosts: Vec<String>,
    /// Carrying all of these labels.
    pub tags: Vec<String>,
    /// Of one of these absolute paths, as recorded in the snapshot.
    pub paths: Vec<PathBuf>,
}

setters!(SnapshotFilter {
} into {
    hosts: Vec<String>,
    tags: Vec<String>,
    paths: Vec<PathBuf>,
});

impl SnapshotFilter {
    /// Adds to [`paths`](SnapshotFilter#structfield.paths) the forms in which a snapshot may have
    /// recorded this path: absolute and normalized as written, and with symlinks on the way
    /// resolved, as a backup on this machine does. The path need not exist any more.
    ///
    /// ```
    /// # use ibid_repo::SnapshotFilter;
    /// let filter = SnapshotFilter::default().path("/no/such//folder/./x/../y/")?;
    /// assert_eq!(filter.paths, [std::path::Path::new("/no/such/folder/y")]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The path is empty, or the working directory no longer exists.
    pub fn path(mut self, path: impl AsRef<Path>) -> std::io::Result<SnapshotFilter> {
        self.paths.extend(recorded_as(path.as_ref())?);
        Ok(self)
    }

    /// Returns whether the filter selects a snapshot.
    pub fn matches(&self, snapshot: &Snapshot) -> bool {
        (self.hosts.is_empty() || self.hosts.contains(&snapshot.host))
            && self.tags.iter().all(|tag| snapshot.tags.contains(tag))
            && (self.paths.is_empty() || self.paths.iter().any(|path| has_path(snapshot, path)))
    }
}

/// Returns what snapshots are ordered by. One that was made from another, and has its place, comes after it.
pub(crate) fn order(info: &SnapshotInfo) -> (u64, Time, bool, FileId) {
    let snapshot = &info.snapshot;
    (snapshot.sequence, snapshot.time, snapshot.original.is_some(), info.id)
}

/// Returns the id of the first of the snapshots that this one was made from: its own if it is that.
pub(crate) fn first_id(info: &SnapshotInfo) -> FileId {
    info.snapshot.original.unwrap_or(info.id)
}

/// Returns the place of a new snapshot in the order of these, which are in order: after all of them or, if
/// its time was set, after those of its time and before.
pub(crate) fn next_sequence(snapshots: &[SnapshotInfo], set_time: Option<Time>) -> u64 {
    let sequence = |info: &SnapshotInfo| info.snapshot.sequence;
    match set_time {
        None => snapshots
            .iter()
            .map(sequence)
            .max()
            .map_or(1, |last| last.saturating_add(1)),
        Some(time) => {
            let before = snapshots.iter().filter(|info| info.snapshot.time <= time);
            before.map(sequence).max().unwrap_or(0)
        }
    }
}

/// Returns whether a snapshot recorded this path.
fn has_path(snapshot: &Snapshot, path: &Path) -> bool {
    snapshot
        .paths
        .iter()
        .any(|recorded| recorded == path.as_os_str().as_bytes())
}

fn recorded_as(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut clean = PathBuf::new();
    for component in std::path::absolute(path)?.components() {
        match component {
            Component::ParentDir => drop(clean.pop()),
            component => clean.push(component),
        }
    }
    let followed = crate::source::resolve(path).ok().or_else(|| {
        let exists = |folder: &Path| Some((folder.canonicalize().ok()?, clean.strip_prefix(folder).ok()?));
        let (folder, rest) = clean.ancestors().skip(1).find_map(exists)?;
        Some(folder.join(rest))
    });
    let mut found = vec![clean];
    found.extend(followed);
    found.dedup();
    Ok(found)
}

impl Repository {
    /// Returns all snapshots, oldest first: in the order in which they were made, whatever the clocks said. A
    /// snapshot file that can't be read is passed to `on_damage`, and the rest is returned.
    ///
    /// # Errors
    /// Errors of the storage when it can't be reached. Damage goes to `on_damage`.
    pub fn snapshots_with(&self, on_damage: impl FnMut(FileId, Error)) -> Result<Vec<SnapshotInfo>> {
        self.snapshots_and_voids(on_damage, &mut 0)
    }

    /// Does the same, and adds the number of void files to `voids`.
    pub(crate) fn snapshots_and_voids(
        &self,
        on_damage: impl FnMut(FileId, Error),
        voids: &mut u64,
    ) -> Result<Vec<SnapshotInfo>> {
        self.snapshots_listed(&Listed::default(), on_damage, voids)
    }

    /// Does the same, with the list of snapshots if they were listed.
    pub(crate) fn snapshots_listed(
        &self,
        listed: &Listed,
        mut on_damage: impl FnMut(FileId, Error),
        voids: &mut u64,
    ) -> Result<Vec<SnapshotInfo>> {
        self.refuse_write_only("reading snapshots")?;
        let mut found = Vec::new();
        let listed = listed.ids(&*self.files.storage, folder::SNAPSHOTS)?;
        if let Some(copies) = &self.files.copies {
            copies.retain_listed(folder::SNAPSHOTS, &listed);
        }
        for group in groups(&listed) {
            let read = |&(id, size): &(FileId, u64)| self.files.read_snapshot(id, size);
            for (&(id, file_size), read) in group.iter().zip(each(self.files.storage.is_remote(), group, read)) {
                match read {
                    Ok(Some(snapshot)) => found.push(SnapshotInfo {
                        id,
                        file_size,
                        snapshot,
                    }),
                    Ok(None) => *voids += 1,
                    // It was forgotten meanwhile.
                    Err(Error::Storage(error)) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) if error.is_fault() => on_damage(id, error),
                    Err(error) => return Err(error),
                }
            }
        }
        found.sort_by_key(order);
        Ok(found)
    }

    /// Returns all snapshots, oldest first.
    ///
    /// # Errors
    /// Those of [`snapshots_with`](Repository::snapshots_with); also the first snapshot that can't
    /// be read.
    pub fn snapshots(&self) -> Result<Vec<SnapshotInfo>> {
        let mut damage = None;
        let found = self.snapshots_with(|_, error| {
            damage.get_or_insert(error);
        })?;
        damage.map_or(Ok(found), Err)
    }

    /// Returns whether a snapshot is still there. Another process may have forgotten it since it was read: then a prune
    /// may have freed its data, which is no damage.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn has_snapshot(&self, id: FileId) -> Result<bool> {
        match self.files.storage.size(&name_in(folder::SNAPSHOTS, id)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the snapshot called `wanted`: the beginning of an id, `latest`, or `latest~N` for
    /// the N-th before it.
    ///
    /// Snapshots that can't be read don't count for `latest`. The monitor is told of each, since it might
    /// be a newer one.
    ///
    /// # Errors
    /// [`Error::UnknownSnapshot`], [`Error::AmbiguousSnapshot`]; damage of the snapshot, and for `latest`
    /// of the first one if none can be read.
    pub fn snapshot(&self, wanted: &str) -> Result<SnapshotInfo> {
        self.find_snapshot(wanted, &SnapshotFilter::default())
    }

    /// Returns the snapshot called `wanted` among those that a filter selects.
    ///
    /// # Errors
    /// As [`snapshot`](Repository::snapshot).
    pub fn find_snapshot(&self, wanted: &str, filter: &SnapshotFilter) -> Result<SnapshotInfo> {
        let warn = |_, error| self.monitor.warn(Warning::Repository { error });
        self.find_snapshot_with(wanted, filter, warn)
    }

    /// Does the same, but passes snapshots that can't be read, and might be newer than `latest`, to
    /// `on_damage`.
    ///
    /// # Errors
    /// As [`snapshot`](Repository::snapshot).
    pub fn find_snapshot_with(
        &self,
        wanted: &str,
        filter: &SnapshotFilter,
        mut on_damage: impl FnMut(FileId, Error),
    ) -> Result<SnapshotInfo> {
        let unknown = || Error::UnknownSnapshot {
            wanted: wanted.to_owned(),
        };
        let back = match wanted.strip_prefix("latest") {
            Some("") => Some(0),
            Some(rest) => Some(
                rest.strip_prefix('~')
                    .and_then(|n| n.parse::<usize>().ok())
                    .ok_or_else(unknown)?,
            ),
            None => None,
        };
        if let Some(back) = back {
            let mut unreadable = Vec::new();
            let mut all = self.snapshots_with(|id, error| unreadable.push((id, error)))?;
            if all.is_empty() && !unreadable.is_empty() {
                return Err(unreadable.swap_remove(0).1);
            }
            unreadable.into_iter().for_each(|(id, error)| on_damage(id, error));
            all.retain(|info| filter.matches(&info.snapshot));
            let at = all.len().checked_sub(1 + back).ok_or_else(unknown)?;
            return Ok(all.swap_remove(at));
        }
        self.refuse_write_only("reading snapshots")?;
        if wanted.is_empty() {
            return Err(unknown());
        }
        let ids = self.files.list(folder::SNAPSHOTS)?;
        let mut matching = ids
            .into_iter()
            .filter(|(id, _)| id.to_string().starts_with(&wanted.to_ascii_lowercase()));
        let (id, file_size) = matching.next().ok_or_else(unknown)?;
        let others = matching.count();
        if others > 0 {
            return Err(Error::AmbiguousSnapshot {
                wanted: wanted.to_owned(),
                matches: others + 1,
            });
        }
        Ok(SnapshotInfo {
            id,
            file_size,
            snapshot: self.files.read_snapshot(id, file_size)?.ok_or_else(unknown)?,
        })
    }
}
