//! Files that results are written to.

use std::path::Path;

use crate::failure::{Failure, Result};

/// Refuses what can't be written to before minutes are spent on what to write.
pub(crate) fn check_place(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let error = |kind: std::io::ErrorKind| Err(Failure::local("write", path, kind.into()));
    match folder.unwrap_or(Path::new(".")).metadata() {
        _ if path.is_dir() => error(std::io::ErrorKind::IsADirectory),
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => error(std::io::ErrorKind::NotADirectory),
        Err(source) => Err(Failure::local("write", path, source)),
    }
}

pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|source| Failure::local("write", path, source))
}
