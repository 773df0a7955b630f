//! What is measured: files, and what is in folders.

use crate::{Error, Observer, Result};
use std::path::{Path, PathBuf};

/// Regular files, in the order in which they are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) files: Vec<Input>,
    /// Bytes of all of them when they were listed.
    pub(crate) bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    /// Named by the user, not found in a folder: it must be there.
    pub(crate) is_named: bool,
}

impl Inputs {
    /// The files that are named, and all regular files in the folders that are; below these, symlinks are not followed, and each
    /// folder is listed in the order of its names. What can't be listed below a folder is told to the observer and passed over.
    pub(crate) fn list(paths: &[PathBuf], observer: &mut impl Observer) -> Result<Inputs> {
        let mut inputs = Inputs::default();
        for path in paths {
            // Of what a link points to: it was named.
            let metadata = std::fs::metadata(path).map_err(Error::file("read", path))?;
            if metadata.is_dir() {
                let entries = sorted(path).map_err(Error::file("list", path))?;
                inputs.take(entries, observer);
            } else {
                inputs.push(path.clone(), true, metadata.len());
            }
        }
        match inputs.bytes {
            0 => Err(Error::OutOfRange {
                what: "bytes to measure with",
                expected: "files that are not empty".into(),
                found: "none".into(),
            }),
            _ => Ok(inputs),
        }
    }

    fn push(&mut self, path: PathBuf, is_named: bool, bytes: u64) {
        self.bytes += bytes;
        self.files.push(Input { path, is_named });
    }

    fn take(&mut self, entries: Vec<PathBuf>, observer: &mut impl Observer) {
        // What is left to look at, the next one last.
        let mut waiting: Vec<PathBuf> = entries.into_iter().rev().collect();
        while let Some(path) = waiting.pop() {
            let looked = path.symlink_metadata().and_then(|metadata| {
                if metadata.is_dir() {
                    waiting.extend(sorted(&path)?.into_iter().rev());
                } else if metadata.is_file() {
                    self.push(path.clone(), false, metadata.len());
                }
                Ok(())
            });
            if let Err(error) = looked {
                observer.problem(&path, &error);
            }
        }
    }
}

fn sorted(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut entries = entries.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}
