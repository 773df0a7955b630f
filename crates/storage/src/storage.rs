//! The trait that every storage implements.

use std::path::PathBuf;
use std::sync::Arc;

use crate::{Archives, Error, ErrorKind, Locks, Name};

/// A storage of objects: named sequences of bytes that are written once, read, and deleted.
///
/// Calls block. Every method takes `&self` and may be called from many threads at once. The trait
/// is safe for `dyn Storage`, and `&S`, `Box<S>` and `Arc<S>` implement it if `S` does.
///
/// Each method states what an implementation promises, and
/// [`conformance::run`](crate::conformance::run) tests it.
///
/// ```
/// use ibid_storage::{ErrorKind, Memory, Name, Storage};
/// let storage: Box<dyn Storage> = Box::new(Memory::new());
/// let name = Name::new("packs/a")?;
/// storage.put(&name, &[b"head", b"tail"])?;
/// assert_eq!(storage.get(&name, 1024)?, b"headtail");
/// assert_eq!(storage.put(&name, &[b"other"]).unwrap_err().kind(), ErrorKind::AlreadyExists);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Storage: Send + Sync {
    /// Stores a new object made of `parts` in order.
    ///
    /// When it returns `Ok` the object is whole and durable: it survives a loss of power. A crash
    /// at any moment leaves either nothing under `name` or the whole object. Others can see the
    /// object a moment before it is durable, but never before it is whole.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) if `name` is taken: nothing is
    /// overwritten, and the object there is durable too.
    /// [`NotAnObject`](crate::ErrorKind::NotAnObject) may be returned if a name is used both for
    /// an object and for a folder of objects; choose names so that this never happens.
    /// After any other error nothing or the whole object is there; the call can be repeated.
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error>;

    /// Does the same as [`put`](Storage::put), and returns whether the object may have been stored twice: the answer to
    /// an earlier try was lost, so it was sent again, and others may have seen and deleted it in between. By default it
    /// never is, as where each object is sent once.
    ///
    /// ```
    /// use ibid_storage::{Memory, Name, Storage};
    /// let storage = Memory::new();
    /// assert!(!storage.put_noting_repeats(&Name::new("snapshots/a")?, &[b"an object"])?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`put`](Storage::put).
    fn put_noting_repeats(&self, name: &Name, parts: &[&[u8]]) -> Result<bool, Error> {
        self.put(name, parts).map(|()| false)
    }

    /// Stores a new object that is seldom read and mostly large, as [`put`](Storage::put). A storage may keep it where
    /// that costs less, and even where it must be [thawed](Storage::archives) before it can be read. By default it is
    /// as any other.
    ///
    /// # Errors
    /// As [`put`](Storage::put).
    fn put_data(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        self.put(name, parts)
    }

    /// Returns the whole object.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge), before memory is taken, if it has more than
    /// `limit` bytes. [`NotFound`](crate::ErrorKind::NotFound) if there is none.
    /// Here and where objects are looked for below, [`NotAnObject`](crate::ErrorKind::NotAnObject) may be returned
    /// instead if something else has this name.
    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error>;

    /// Fills `buffer` with the bytes of the object from `offset` on.
    ///
    /// An empty buffer succeeds if the object exists. After an error the content of `buffer` is
    /// unspecified.
    ///
    /// # Errors
    /// [`Truncated`](crate::ErrorKind::Truncated) if the object ends before `offset` + the length
    /// of `buffer`. [`NotFound`](crate::ErrorKind::NotFound) if there is none.
    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error>;

    /// Returns the size of the object, bytes.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) if there is none.
    fn size(&self, name: &Name) -> Result<u64, Error>;

    /// Calls `each` with the name and the size in bytes of every object whose name starts with
    /// `folder` + `/`, at any depth. An empty `folder` means all objects.
    ///
    /// Only objects: unfinished files, and files of other programs that no [`Name`] can denote, are
    /// left out (see [`Local::foreign`](crate::Local::foreign)). The order is not defined. A folder
    /// that does not exist is empty. An object stored or deleted during the call may be listed or
    /// not. `each` may call this storage again.
    ///
    /// # Errors
    /// [`InvalidName`](crate::ErrorKind::InvalidName) if `folder` is neither empty nor a valid
    /// name.
    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error>;

    /// Lists several folders together, as far as that takes fewer requests than to [list](Storage::list) each. Returns
    /// which of them were listed whole, in their order: of the others, `each` may have been called with a part.
    ///
    /// A name among `folders` may also be that of an object, which is listed, too. What is there during the whole call
    /// is listed. The folders are listed in no order: of two objects that are stored one after the other during the
    /// call, the second may be listed and the first not. By default none is listed.
    ///
    /// ```
    /// use ibid_storage::{Memory, Name, Storage};
    /// let storage = Memory::new();
    /// storage.put(&Name::new("index/1")?, &[b"an object"])?;
    /// let mut found = 0;
    /// let whole = storage.list_together(&["index", "packs"], &mut |_, _| found += 1)?;
    /// assert_eq!((whole, found), (vec![false; 2], 0), "in memory, nothing is gained");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`list`](Storage::list).
    fn list_together(&self, folders: &[&str], each: &mut dyn FnMut(Name, u64)) -> Result<Vec<bool>, Error> {
        let _ = each;
        Ok(vec![false; folders.len()])
    }

    /// Calls `each` with every name directly in `folder` that something has which is no object: a folder, a symbolic
    /// link, a device. Reading or storing an object of this name is [`NotAnObject`](crate::ErrorKind::NotAnObject). By
    /// default there are none.
    ///
    /// # Errors
    /// As [`list`](Storage::list).
    fn list_taken(&self, folder: &str, each: &mut dyn FnMut(Name)) -> Result<(), Error> {
        let _ = (folder, each);
        Ok(())
    }

    /// Makes an object durable that another process stored.
    ///
    /// [`put`](Storage::put) does so for its own object. But an object that another process is
    /// storing can be seen a moment before it is durable, and that process may be killed in that
    /// moment. Call this before you acknowledge anything that relies on such an object.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) if there is none, unless the storage [does not
    /// look](Storage::tells_absence). After any other error the object may be durable or not; the call can be repeated.
    fn settle(&self, name: &Name) -> Result<(), Error>;

    /// Removes the object. When it returns `Ok` the removal is durable.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) if there is none, and its absence is durable too, unless the storage
    /// [does not look](Storage::tells_absence).
    /// After any other error the object may be there or not; the call can be repeated.
    fn delete(&self, name: &Name) -> Result<(), Error>;

    /// Removes objects, of which some may be gone already. When it returns `Ok`, all are, and that is durable.
    ///
    /// By default one after the other. A storage that is reached over a network removes several at once.
    ///
    /// # Errors
    /// As [`delete`](Storage::delete), but none if there is no such object. Any of the others may be there or not; the
    /// call can be repeated.
    fn delete_all(&self, names: &[Name]) -> Result<(), Error> {
        names.iter().try_for_each(|name| match self.delete(name) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
    }

    /// Returns whether [`settle`](Storage::settle) and [`delete`](Storage::delete) tell that there is no such object. A
    /// server would have to be asked once more for that. By default they do; otherwise they return `Ok`.
    fn tells_absence(&self) -> bool {
        true
    }

    /// Returns whether objects can be added, and hardly any deleted: a server may see to that. Then what only tidies up
    /// is better left alone. By default they can be deleted.
    fn is_append_only(&self) -> bool {
        false
    }

    /// Returns what locks objects, if the storage can do that. By default it can't.
    fn locks(&self) -> Option<&dyn Locks> {
        None
    }

    /// Returns what thaws objects, if some may be kept where they can't be read at once. By default none are.
    fn archives(&self) -> Option<&dyn Archives> {
        None
    }

    /// Returns the name of this storage for messages: `folder /srv/backup`.
    fn location(&self) -> String;

    /// Returns the folder of this machine that holds the objects, if one does.
    fn folder(&self) -> Option<PathBuf> {
        None
    }

    /// Returns whether the objects are reached over a network, so that copies of those that are read
    /// often pay. By default, if they are in no [folder](Storage::folder).
    fn is_remote(&self) -> bool {
        self.folder().is_none()
    }
}

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<S: Storage + ?Sized> Storage for $pointer {
            fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
                (**self).put(name, parts)
            }
            fn put_data(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
                (**self).put_data(name, parts)
            }
            fn put_noting_repeats(&self, name: &Name, parts: &[&[u8]]) -> Result<bool, Error> {
                (**self).put_noting_repeats(name, parts)
            }
            fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
                (**self).get(name, limit)
            }
            fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
                (**self).read_at(name, offset, buffer)
            }
            fn size(&self, name: &Name) -> Result<u64, Error> {
                (**self).size(name)
            }
            fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
                (**self).list(folder, each)
            }
            fn list_together(&self, folders: &[&str], each: &mut dyn FnMut(Name, u64)) -> Result<Vec<bool>, Error> {
                (**self).list_together(folders, each)
            }
            fn list_taken(&self, folder: &str, each: &mut dyn FnMut(Name)) -> Result<(), Error> {
                (**self).list_taken(folder, each)
            }
            fn settle(&self, name: &Name) -> Result<(), Error> {
                (**self).settle(name)
            }
            fn delete(&self, name: &Name) -> Result<(), Error> {
                (**self).delete(name)
            }
            fn delete_all(&self, names: &[Name]) -> Result<(), Error> {
                (**self).delete_all(names)
            }
            fn location(&self) -> String {
                (**self).location()
            }
            fn folder(&self) -> Option<PathBuf> {
                (**self).folder()
            }
            fn is_remote(&self) -> bool {
                (**self).is_remote()
            }
            fn tells_absence(&self) -> bool {
                (**self).tells_absence()
            }
            fn is_append_only(&self) -> bool {
                (**self).is_append_only()
            }
            fn locks(&self) -> Option<&dyn Locks> {
                (**self).locks()
            }
            fn archives(&self) -> Option<&dyn Archives> {
                (**self).archives()
            }
        }
    )*};
}

forward!(&S, Box<S>, Arc<S>);
