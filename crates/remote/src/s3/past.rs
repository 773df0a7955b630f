//! A bucket as it was, through deletions and replacements.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;

use ibid_storage::{ArchiveState, Archives, Error, ErrorKind, Name, Operation, Storage, Thaw};

use super::versions::Version;
use crate::address::is_archive;
use crate::{ObjectStorage, Requests, Service};

/// The objects of a bucket as they were at a time, if it keeps versions. They can be read, and not changed.
///
/// It is made by [`ObjectStorage::as_of`]. Which objects there were is asked once, when it is made, and takes memory
/// for each of them.
pub struct PastStorage {
    storage: Arc<ObjectStorage>,
    /// How messages say when.
    time: String,
    objects: HashMap<Name, There>,
}

/// The version that was there.
struct There {
    version: String,
    size: u64,
    /// The class, if that is an archive.
    archive: Option<String>,
}

impl fmt::Debug for PastStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PastStorage")
            .field("location", &self.location())
            .field("objects", &self.objects.len())
            .finish_non_exhaustive()
    }
}

impl ObjectStorage {
    /// Returns the objects as they were at a time, seconds since 1970. What was stored or deleted in that second was
    /// so already.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) if the bucket keeps no versions, or its service has no S3; those of
    /// other requests.
    pub fn as_of(self: &Arc<Self>, seconds: i64) -> Result<PastStorage, Error> {
        let mut newest: HashMap<Name, Version> = HashMap::new();
        let (mut any, mut any_kept) = (false, false);
        self.each_version(|version| {
            any = true;
            any_kept |= version.id != "null";
            if version.modified > seconds {
                return;
            }
            match newest.entry(version.name.clone()) {
                Entry::Vacant(entry) => drop(entry.insert(version)),
                Entry::Occupied(mut entry) => {
                    // Within a second, the first in the list is the newest, unless the server lists what was deleted
                    // by itself: then what was there is of more use than that it is gone.
                    if version.modified > entry.get().modified {
                        entry.insert(version);
                    }
                }
            }
        })?;
        if any && !any_kept {
            let found = "this bucket keeps no versions of what is deleted or replaced, so it can only be read as it is";
            return Err(Error::new(ErrorKind::Unsupported, Operation::Open, None, self.location()).with_found(found));
        }
        let there = newest.into_values().filter(|version| !version.is_marker);
        let objects = there.map(|version| {
            let there = There {
                version: version.id,
                size: version.size,
                archive: Some(version.class).filter(|class| is_archive(Service::S3, class)),
            };
            (version.name, there)
        });
        let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
        Ok(PastStorage {
            storage: self.clone(),
            time: time.to_string(),
            objects: objects.collect(),
        })
    }
}

impl PastStorage {
    /// Returns the storage as it is.
    #[must_use]
    pub fn present(&self) -> &Arc<ObjectStorage> {
        &self.storage
    }

    /// Returns what was sent so far, also through others who use the storage.
    #[must_use]
    pub fn requests(&self) -> Requests {
        self.storage.requests()
    }

    fn there(&self, operation: Operation, name: &Name) -> Result<&There, Error> {
        let there = self.objects.get(name);
        there.ok_or_else(|| Error::new(ErrorKind::NotFound, operation, Some(name), self.location()))
    }

    /// Returns these objects with the versions that were there. Of one that was not there, no version has this id.
    fn versions<'a>(&'a self, names: &'a [Name]) -> Vec<(&'a Name, Option<&'a str>)> {
        let version = |name| self.objects.get(name).map_or("", |there| there.version.as_str());
        names.iter().map(|name| (name, Some(version(name)))).collect()
    }

    fn refuse(&self, operation: Operation, name: &Name) -> Error {
        let found = "what was can be read, and not changed";
        Error::new(ErrorKind::ReadOnly, operation, Some(name), self.location()).with_found(found)
    }
}

impl Storage for PastStorage {
    fn put(&self, name: &Name, _parts: &[&[u8]]) -> Result<(), Error> {
        Err(self.refuse(Operation::Put, name))
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        let there = self.there(Operation::Get, name)?;
        self.storage.get_version(name, Some(&there.version), limit)
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let there = self.there(Operation::ReadAt, name)?;
        let length = buffer.len();
        match offset.checked_add(length as u64) {
            _ if length == 0 => Ok(()),
            Some(end) if end <= there.size => self.storage.read_version_at(name, Some(&there.version), offset, buffer),
            _ => Err(Error::truncated(there.size, offset, length, name, self.location())),
        }
    }

    fn size(&self, name: &Name) -> Result<u64, Error> {
        self.there(Operation::Size, name).map(|there| there.size)
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        Error::check_folder(folder, || self.location())?;
        let listed = self.objects.iter().filter(|(name, _)| name.is_in(folder));
        listed.for_each(|(name, there)| each(name.clone(), there.size));
        Ok(())
    }

    fn settle(&self, _name: &Name) -> Result<(), Error> {
        Ok(())
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        Err(self.refuse(Operation::Delete, name))
    }

    fn archives(&self) -> Option<&dyn Archives> {
        let is_any = self.objects.values().any(|there| there.archive.is_some());
        is_any.then_some(self)
    }

    fn tells_absence(&self) -> bool {
        false
    }

    fn is_append_only(&self) -> bool {
        true
    }

    fn location(&self) -> String {
        format!("{} as it was at {}", self.storage.location(), self.time)
    }
}

/// What was archived is thawed as it was: the old version, and no newer one.
impl Archives for PastStorage {
    fn class_of_data(&self) -> Option<&str> {
        None
    }

    fn list_archived(&self, folder: &str, each: &mut dyn FnMut(Name, u64, &str)) -> Result<(), Error> {
        Error::check_folder(folder, || self.location())?;
        for (name, there) in self.objects.iter().filter(|(name, _)| name.is_in(folder)) {
            if let Some(class) = &there.archive {
                each(name.clone(), there.size, class);
            }
        }
        Ok(())
    }

    fn states(&self, names: &[Name]) -> Result<Vec<ArchiveState>, Error> {
        self.storage.states_of(&self.versions(names))
    }

    fn thaw(&self, names: &[Name], thaw: Thaw, each: &(dyn Fn(u64) -> bool + Sync)) -> Result<(), Error> {
        self.storage.thaw_those(&self.versions(names), thaw, each)
    }
}
