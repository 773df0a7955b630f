//! Temporary files, for what an operation has no memory for.
//!
//! They are sealed as all local files are, and have no names: whatever happens, none is left behind.
//!
//! | what is kept | module |
//! |---|---|
//! | numbers by position, bits | [`array`] |
//! | byte strings | [`texts`] |
//! | numbers by id | [`IdMap`](crate::index::IdMap) |
//! | sorted pairs and ids | [`Sorter`](crate::index::Sorter) |

mod array;
mod pages;
mod texts;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use array::{Array, Bits, Element};
use ibid_format::run::ShortId;
pub(crate) use texts::Texts;

use crate::files::Files;
use crate::index::IndexLimits;
use crate::{Error, Monitor, Result};

/// What it takes to write temporary files.
#[derive(Clone)]
pub(crate) struct Scratch {
    pub(crate) files: Arc<Files>,
    /// Folder of temporary files.
    pub(crate) folder: PathBuf,
    pub(crate) limits: IndexLimits,
    pub(crate) monitor: Arc<Monitor>,
}

impl Scratch {
    /// Makes a temporary file in the folder for them or, if that fails, where the system puts such
    /// files: the folder may have been deleted, or its disk may be full.
    pub(crate) fn in_some_folder<T>(&self, make: impl Fn(&Path) -> Result<T>) -> Result<T> {
        in_some_folder(&self.folder, make)
    }
}

/// Identity of a file in a snapshot: device and inode.
pub(crate) type Inode = (u64, u64);

/// Returns the key of a file for an [`IdMap`](crate::index::IdMap): its numbers are not uniform, as
/// ids must be.
pub(crate) fn inode_id(scratch: &Scratch, (device, inode): Inode) -> ShortId {
    let bytes = [device.to_le_bytes(), inode.to_le_bytes()].concat();
    ShortId::of(&scratch.files.keys.chunk_id(&bytes))
}

/// Makes a temporary file in `folder` or, if that fails, where the system puts such files.
pub(crate) fn in_some_folder<T>(folder: &Path, make: impl Fn(&Path) -> Result<T>) -> Result<T> {
    match make(folder) {
        Err(Error::Local { .. }) if folder != std::env::temp_dir() => make(&std::env::temp_dir()),
        made => made,
    }
}

#[cfg(test)]
impl Scratch {
    /// Returns a place for temporary files with limits that a few of anything exceed.
    pub(crate) fn tiny(folder: &Path) -> Scratch {
        use ibid_format::{FileId, Keys, MasterKey};

        Scratch {
            files: Arc::new(Files::new(
                Arc::new(ibid_storage::Memory::new()),
                Keys::encrypted(FileId::random(), &MasterKey::random()),
            )),
            folder: folder.to_owned(),
            limits: IndexLimits::tiny(),
            monitor: Arc::default(),
        }
    }
}
