//! Names as text that a terminal can be trusted with.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(crate) use ibid_repo::{escape, escape_text};

pub(crate) fn path(path: &Path) -> String {
    escape(path.as_os_str().as_bytes())
}
