//! Names of a repository's files in storage: see `docs/format/README.md`.

use ibid_format::FileId;
use ibid_storage::{Name, Storage};

use crate::Result;

/// Name prefixes of a repository's folders.
pub(crate) mod folder {
    pub(crate) const CONFIG: &str = "config";
    pub(crate) const CONFIG_COPY: &str = "config.copy";
    pub(crate) const KEYS: &str = "keys";
    pub(crate) const PACKS: &str = "packs";
    pub(crate) const INDEX: &str = "index";
    pub(crate) const SNAPSHOTS: &str = "snapshots";
    pub(crate) const SKETCHES: &str = "sketches";
    pub(crate) const SESSIONS: &str = "sessions";
    pub(crate) const CHECKPOINTS: &str = "checkpoints";
    pub(crate) const PRUNE: &str = "prune";
    pub(crate) const FORGOTTEN: &str = "forgotten";
    pub(crate) const WRITERS: &str = "writers";
    pub(crate) const REVOKED: &str = "revoked";
    /// The files of writers, those of each in a folder with its id.
    pub(crate) const WRITTEN: &str = "written";
    /// When keepers saw the snapshots of a writer first, among the files of that.
    pub(crate) const SEEN: &str = "seen";
    /// Files that a repair has set aside, under the names that they had.
    pub(crate) const DAMAGED: &str = "damaged";
}

/// Packs that a repair has set aside.
pub(crate) const DAMAGED_PACKS: &str = "damaged/packs";

/// Folders with files that live for hours, or that can be done without.
const PASSING: [&str; 5] = [
    folder::SESSIONS,
    folder::CHECKPOINTS,
    folder::SKETCHES,
    folder::FORGOTTEN,
    folder::DAMAGED,
];

/// Returns whether a file is locked where a repository has its files locked. Also of those of writers.
pub(crate) fn is_kept(name: &Name) -> bool {
    let mut segments = name.as_str().split('/');
    let top = match segments.next() {
        Some(folder::WRITTEN) => segments.nth(1),
        top => top,
    };
    top.is_none_or(|top| !PASSING.contains(&top))
}

/// Returns the id of a new file: random, or in a simulation from a seed.
pub(crate) fn new_id() -> FileId {
    #[cfg(feature = "simulation")]
    if let Some(id) = crate::simulation::id() {
        return id;
    }
    FileId::random()
}

pub(crate) fn name_in(folder: &str, id: FileId) -> Name {
    let hex = id.to_string();
    let name = if folder == folder::PACKS {
        format!("{folder}/{}/{hex}", &hex[..2])
    } else {
        format!("{folder}/{hex}")
    };
    Name::new(&name).expect("hexadecimal digits make a valid name")
}

pub(crate) fn config_name() -> Name {
    Name::new(folder::CONFIG).expect("a valid name")
}

pub(crate) fn config_copy_name() -> Name {
    Name::new(folder::CONFIG_COPY).expect("a valid name")
}

/// Returns the id of the file in a folder that has this name, if it is one.
pub(crate) fn id_of(folder: &str, name: &Name) -> Option<FileId> {
    FileId::parse(name.last_segment()).filter(|id| name_in(folder, *id) == *name)
}

/// Folders in which something that is no file counts as a file that can't be read: it may be one that was moved away,
/// and without a word a snapshot would be forgotten, a password wrong, or the state of pruners an earlier one.
const TAKEN_COUNT: [&str; 3] = [folder::KEYS, folder::SNAPSHOTS, folder::PRUNE];

/// Returns the ids of all files in a folder, with their sizes in bytes, ascending.
pub(crate) fn list_ids(storage: &dyn Storage, folder: &str) -> Result<Vec<(FileId, u64)>> {
    let mut names = Vec::new();
    storage.list(folder, &mut |name, size| names.push((name, size)))?;
    ids_of(storage, folder, names)
}

/// Returns the ids of the files with these names in a folder, with their sizes in bytes, ascending.
pub(crate) fn ids_of(storage: &dyn Storage, folder: &str, names: Vec<(Name, u64)>) -> Result<Vec<(FileId, u64)>> {
    let ids = names
        .into_iter()
        .filter_map(|(name, size)| Some((id_of(folder, &name)?, size)));
    let mut found: Vec<(FileId, u64)> = ids.collect();
    if TAKEN_COUNT.contains(&folder) {
        storage.list_taken(folder, &mut |name| {
            found.extend(FileId::parse(name.last_segment()).map(|id| (id, 0)));
        })?;
    }
    found.sort_unstable();
    Ok(found)
}

/// Calls `each` with the ids of all files in a folder, in any order, and their sizes in bytes, until it
/// fails. Files whose names are not ids belong to other programs and are ignored.
pub(crate) fn each_id(
    storage: &dyn Storage,
    folder: &str,
    mut each: impl FnMut(FileId, u64) -> Result<()>,
) -> Result<()> {
    let mut failed = None;
    storage.list(folder, &mut |name, size| {
        if failed.is_none()
            && let Some(id) = id_of(folder, &name)
        {
            failed = each(id, size).err();
        }
    })?;
    failed.map_or(Ok(()), Err)
}
