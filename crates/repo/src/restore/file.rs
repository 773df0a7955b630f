//! A file that is being restored.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};

use ibid_format::ChunkId;
use ibid_format::tree::TreeEntry;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::attributes::Owner;
use super::folder::Folder;
use super::links::Links;
use super::open_files::Permit;

/// Where a file stands while it is not complete.
pub(crate) enum Placement {
    /// Under its own name, where nothing was before.
    New,
    /// Under this other name. It takes its own, and the place of what stands there, once it is
    /// complete.
    Aside(Vec<u8>),
    /// It was there and is brought up to date: chunk by chunk, each verified before.
    InPlace,
}

/// A file being restored. Whoever finishes its last part gives it its attributes.
pub(crate) struct Restoring<'a> {
    pub(crate) file: OwnedFd,
    pub(crate) placement: Placement,
    pub(crate) entry: TreeEntry,
    pub(crate) path: PathBuf,
    pub(crate) owner: Option<Owner>,
    /// Bytes it had before; parts below that may be right already.
    pub(crate) existing: u64,
    /// Holes among these; made at the end, when all else is known to be there.
    pub(crate) holes: Mutex<Vec<(u64, u64)>>,
    /// Where it is.
    pub(crate) parent: Arc<OwnedFd>,
    pub(crate) folder: Arc<Folder<'a>>,
    /// If it has several names.
    pub(crate) links: Option<Arc<Links<'a>>>,
    /// Parts that are not done, and one for the planner while it adds more.
    pub(crate) pending: AtomicUsize,
    /// It won't be completed.
    pub(crate) failed: AtomicBool,
    /// What is lost of it, if it is to be kept nevertheless.
    pub(crate) lost: Mutex<Option<Lost>>,
    /// Whether anything was written to it.
    pub(crate) changed: AtomicBool,
    pub(crate) _permit: Permit<'a>,
}

/// What is missing of a file.
pub(crate) struct Lost {
    /// Offset and length of each piece.
    pub(crate) pieces: Vec<(u64, u64)>,
    /// Why the first one is.
    pub(crate) why: String,
}

/// One chunk and where it goes.
#[derive(Clone)]
pub(crate) struct Part<'a> {
    pub(crate) frame: u32,
    /// The frame's number among those that are handed out together.
    pub(crate) rank: u32,
    pub(crate) slot: u16,
    pub(crate) length: u32,
    pub(crate) offset: u64,
    pub(crate) id: ChunkId,
    pub(crate) file: Arc<Restoring<'a>>,
}

pub(crate) fn write_all_at(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> std::result::Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
