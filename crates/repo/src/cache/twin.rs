//! A twin of a cache, for what must not change it: links to its files in a folder of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Cache, FOLDERS, copies, files_in, id_of, is_abandoned, remove_folders};
use crate::rehearsal::Rehearsal;
use crate::{Error, Result};

/// How the folders of twins begin.
const NAME: &str = "twin-";

/// The folder of a twin, which goes with it.
#[derive(Clone)]
pub(super) struct Twin(Arc<Folder>);

struct Folder {
    of: PathBuf,
    folder: PathBuf,
    rehearsal: Arc<Rehearsal>,
}

impl std::fmt::Debug for Twin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Twin").field(&self.0.folder).finish()
    }
}

impl Cache {
    /// Returns a cache with the same files, whose changes stay its own. When it is dropped, this one gets the copies of
    /// files that are in the repository itself, and not only in the rehearsal.
    pub(crate) fn twin(&self, rehearsal: Arc<Rehearsal>) -> Result<Cache> {
        remove_twins(&self.folder, true);
        let folder = self.folder.join(format!("{NAME}{}", crate::layout::new_id()));
        let twin = Cache {
            folder: folder.clone(),
            _twin: None,
            _temporary: self._temporary.clone(),
        };
        twin.make_folder(&folder)?;
        let twin = Cache {
            _twin: Some(Twin(Arc::new(Folder {
                of: self.folder.clone(),
                folder: folder.clone(),
                rehearsal,
            }))),
            ..twin
        };
        for name in FOLDERS {
            let paths: Vec<PathBuf> = files_in(&self.folder.join(name))?;
            let is_whole = |path: &PathBuf| {
                let name = path.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| !name.starts_with("tmp-"))
            };
            let paths: Vec<PathBuf> = paths.into_iter().filter(is_whole).collect();
            if !paths.is_empty() {
                twin.make_folder(&folder.join(name))?;
            }
            for path in paths {
                link(&path, &folder.join(name).join(path.file_name().unwrap_or_default()))?;
            }
        }
        // It is replaced, and never written to.
        link(&self.folder.join("complete"), &folder.join("complete"))?;
        // Its age tells, so it is no link.
        let listed = self.folder.join(copies::LISTED);
        if let Ok(modified) = std::fs::metadata(&listed).and_then(|file| file.modified()) {
            let path = folder.join(copies::LISTED);
            let made = std::fs::File::create(&path).and_then(|file| file.set_modified(modified));
            made.map_err(|source| Error::local("write", &path, source))?;
        }
        Ok(twin)
    }
}

/// Gives a file another name. One that is gone meanwhile is not needed.
fn link(from: &Path, to: &Path) -> Result<()> {
    let is_there = |error: &std::io::Error| {
        use std::io::ErrorKind::{AlreadyExists, NotFound};
        matches!(error.kind(), AlreadyExists | NotFound)
    };
    match std::fs::hard_link(from, to) {
        Err(error) if is_there(&error) => Ok(()),
        // Some file systems have no links.
        Err(_) => match std::fs::copy(from, to) {
            Err(error) if !is_there(&error) => Err(Error::local("write", to, error)),
            _ => Ok(()),
        },
        Ok(()) => Ok(()),
    }
}

/// Removes the twins in the folder of a cache: with `abandoned`, only those that killed processes have left behind.
pub(super) fn remove_twins(of: &Path, abandoned: bool) {
    remove_folders(of, NAME, |path| !abandoned || is_abandoned(path));
}

impl Drop for Folder {
    fn drop(&mut self) {
        for (name, of_repository) in copies::FOLDERS.into_iter().zip(copies::OF_REPOSITORY) {
            for path in files_in(&self.folder.join(name)).unwrap_or_default() {
                let Some(id) = id_of(&path) else { continue };
                let there = self.of.join(name).join(id.to_string());
                if !there.exists() && !self.rehearsal.has_stored(of_repository, id) {
                    let folder = self.of.join(name);
                    let made = folder.is_dir() || std::fs::create_dir_all(&folder).is_ok();
                    // Without it, it is read again.
                    let _ = made.then(|| std::fs::rename(&path, &there));
                }
            }
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
