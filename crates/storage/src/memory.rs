//! Objects in memory, for tests and for data that need not outlive the process.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{Error, ErrorKind, Name, Operation, Storage};

type Objects = BTreeMap<Name, Arc<[u8]>>;

/// Keeps objects in memory. A clone has the same objects.
///
/// It is as strict as a folder: a name is not used both for an object and for a folder of objects.
/// Durable means here: until the last clone is dropped.
///
/// ```
/// use ibid_storage::{Memory, Name, Storage};
/// let place = Memory::new();
/// place.put(&Name::new("a")?, &[b"bytes"])?;
/// assert_eq!(place.clone().size(&Name::new("a")?)?, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Memory {
    objects: Arc<RwLock<Objects>>,
}

impl Memory {
    /// Returns an empty storage.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    // No code that holds the lock can leave the map half changed, so a panic elsewhere does not spoil
    // it.
    fn objects(&self) -> RwLockReadGuard<'_, Objects> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn objects_mut(&self) -> RwLockWriteGuard<'_, Objects> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, operation: Operation, name: &Name) -> Result<Arc<[u8]>, Error> {
        let object = self.objects().get(name).cloned();
        object.ok_or_else(|| self.error(ErrorKind::NotFound, operation, name))
    }

    fn error(&self, kind: ErrorKind, operation: Operation, name: &Name) -> Error {
        Error::new(kind, operation, Some(name), self.location())
    }
}

impl Storage for Memory {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        let whole: Arc<[u8]> = parts.concat().into();
        let mut objects = self.objects_mut();
        if objects.contains_key(name) {
            return Err(self.error(ErrorKind::AlreadyExists, Operation::Put, name));
        }
        if is_folder(&objects, name) || is_inside_object(&objects, name) {
            return Err(self.error(ErrorKind::NotAnObject, Operation::Put, name));
        }
        objects.insert(name.clone(), whole);
        Ok(())
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        let object = self.find(Operation::Get, name)?;
        if object.len() as u64 > limit {
            return Err(Error::too_large(object.len() as u64, limit, name, self.location()));
        }
        Ok(object.to_vec())
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let object = self.find(Operation::ReadAt, name)?;
        if buffer.is_empty() {
            return Ok(());
        }
        let from = usize::try_from(offset).ok();
        let range = from.and_then(|from| Some(from..from.checked_add(buffer.len())?));
        match range.and_then(|range| object.get(range)) {
            Some(bytes) => buffer.copy_from_slice(bytes),
            None => {
                return Err(Error::truncated(
                    object.len() as u64,
                    offset,
                    buffer.len(),
                    name,
                    self.location(),
                ));
            }
        }
        Ok(())
    }

    fn size(&self, name: &Name) -> Result<u64, Error> {
        Ok(self.find(Operation::Size, name)?.len() as u64)
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        Error::check_folder(folder, || self.location())?;
        // Collected first: `each` may call this place again, which must not wait for our own lock.
        let objects = self.objects();
        let found: Vec<_> = objects.iter().filter(|(name, _)| name.is_in(folder)).collect();
        let found: Vec<_> = found
            .into_iter()
            .map(|(name, bytes)| (name.clone(), bytes.len() as u64))
            .collect();
        drop(objects);
        found.into_iter().for_each(|(name, size)| each(name, size));
        Ok(())
    }

    fn settle(&self, name: &Name) -> Result<(), Error> {
        self.find(Operation::Settle, name).map(drop)
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        match self.objects_mut().remove(name) {
            Some(_) => Ok(()),
            None => Err(self.error(ErrorKind::NotFound, Operation::Delete, name)),
        }
    }

    fn location(&self) -> String {
        "memory".to_owned()
    }
}

fn is_folder(objects: &Objects, name: &Name) -> bool {
    // `a-b` and `a.b` sort between `a` and `a/b`, so check all names that start with `a`.
    let mut same_start = objects
        .range(name..)
        .take_while(|(other, _)| other.as_str().starts_with(name.as_str()));
    same_start.any(|(other, _)| other.is_in(name.as_str()))
}

fn is_inside_object(objects: &Objects, name: &Name) -> bool {
    let mut folder = name.folder();
    while let Ok(ancestor) = Name::new(folder) {
        if objects.contains_key(&ancestor) {
            return true;
        }
        folder = folder.rsplit_once('/').map_or("", |(outer, _)| outer);
    }
    false
}
