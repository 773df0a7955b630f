//! The local file system as a backup reads it. Names are resolved relative to open directories, so
//! no path is too long, and no name can be replaced by a link between check and open.

pub(crate) mod ahead;
mod attributes;
mod exclude;
mod names;
mod open;
mod process;
mod walk;

pub(crate) use attributes::{
    AttributeFault, Owners, entry_from, read_attributes, read_xattrs_at, read_xattrs_of, read_xattrs_through,
    version_of, xattr_text,
};
pub use exclude::Excludes;
pub(crate) use exclude::Filter;
pub(crate) use open::{Extent, Moment, Opened};
pub(crate) use process::{process_started, this_process};
pub(crate) use walk::{OwnFolders, Step, Walker, resolve};

/// Returns this machine's name.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns the name of the user who runs this process.
pub(crate) fn user_name() -> String {
    let uid = rustix::process::geteuid();
    match nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid.as_raw())) {
        Ok(Some(user)) => user.name,
        _ => uid.as_raw().to_string(),
    }
}
