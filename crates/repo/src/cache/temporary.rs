//! A cache for one command: its folder goes with its last handle.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Cache, is_abandoned, remove_folders};
use crate::layout::new_id;

/// How the folders of such caches begin.
const NAME: &str = "ibid-cache-";

/// The folder of a temporary cache, which goes with it.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Cache {
    /// Returns a cache in a folder of its own below `folder`. It is made when there is something to keep. Removes what
    /// killed processes of this user have left behind there.
    pub(crate) fn temporary(folder: &Path) -> Cache {
        let is_own = |path: &Path| {
            let metadata = std::fs::symlink_metadata(path);
            metadata.is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw())
        };
        remove_folders(folder, NAME, |path| is_own(path) && is_abandoned(path));
        // Simulations of one seed, side by side, draw the same ids, and must not have the same folder.
        let folder = folder.join(format!("{NAME}{}-{}", std::process::id(), new_id()));
        Cache {
            folder: folder.clone(),
            _twin: None,
            _temporary: Some(Arc::new(Folder(folder))),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
