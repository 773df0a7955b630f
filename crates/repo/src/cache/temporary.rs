//! A cache for one command: its folder goes with its last handle.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{ABANDONED, Cache, age, files_in};
use crate::layout::new_id;

/// How the folders of such caches begin.
const NAME: &str = "ibid-cache-";

/// The folder of a temporary cache, which goes with it.
#[derive(Clone, Debug)]
pub(super) struct Temporary {
    _folder: Arc<Folder>,
}

#[derive(Debug)]
struct Folder(PathBuf);

impl Cache {
    /// Returns a cache in a folder of its own below `folder`. It is made when there is something to keep.
    pub(crate) fn temporary(folder: &Path) -> Cache {
        remove_abandoned(folder);
        // Simulations of one seed, side by side, draw the same ids, and must not have the same folder.
        let folder = folder.join(format!("{NAME}{}-{}", std::process::id(), new_id()));
        Cache {
            folder: folder.clone(),
            _twin: None,
            _temporary: Some(Temporary {
                _folder: Arc::new(Folder(folder)),
            }),
        }
    }
}

/// Removes what killed processes of this user have left behind.
fn remove_abandoned(folder: &Path) {
    for path in files_in(folder).unwrap_or_default() {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_own = || {
            let metadata = std::fs::symlink_metadata(&path);
            metadata.is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw())
        };
        if name.starts_with(NAME) && is_own() && age(&path).is_some_and(|age| age > ABANDONED) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
