//! Names as text that a terminal can be trusted with.

pub(crate) use ibid_repo::{escape, escape_text};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(crate) fn path(path: &Path) -> String {
    escape(path.as_os_str().as_bytes())
}
