//! A file being restored.

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

/// Location of a file until it is complete.
pub(crate) enum Placement {
    /// Under its own name, which was free.
    New,
    /// Under this temporary name. Once complete, it is renamed over the existing file.
    Aside(Vec<u8>),
    /// In the existing file, updated chunk by chunk after each chunk is verified.
    InPlace,
}

/// A file being restored. The thread that finishes its last part sets its attributes.
pub(crate) struct Restoring<'a> {
    pub(crate) file: OwnedFd,
    pub(crate) placement: Placement,
    pub(crate) entry: TreeEntry,
    pub(crate) path: PathBuf,
    pub(crate) owner: Option<Owner>,
    /// Length of the existing file, bytes; parts below it may be right already.
    pub(crate) existing: u64,
    /// Holes below that length. They are punched at the end, when all chunks are known to be
    /// written.
    pub(crate) holes: Mutex<Vec<(u64, u64)>>,
    /// Directory that contains the file.
    pub(crate) parent: Arc<OwnedFd>,
    pub(crate) folder: Arc<Folder<'a>>,
    /// Its other names, if it has several.
    pub(crate) links: Option<Arc<Links<'a>>>,
    /// Parts that are not done, plus one while the planner adds more.
    pub(crate) pending: AtomicUsize,
    /// Whether the restore of this file has failed.
    pub(crate) failed: AtomicBool,
    /// Lost pieces, if a damaged file is kept.
    pub(crate) lost: Mutex<Option<Lost>>,
    /// Whether anything was written to the file.
    pub(crate) changed: AtomicBool,
    pub(crate) _permit: Permit<'a>,
}

/// Missing pieces of a file.
pub(crate) struct Lost {
    /// Offset and length of each piece.
    pub(crate) pieces: Vec<(u64, u64)>,
    /// Reason why the first piece is missing.
    pub(crate) why: String,
}

/// One chunk and its destination.
#[derive(Clone)]
pub(crate) struct Part<'a> {
    pub(crate) frame: u32,
    /// Rank of the frame among those handed out together.
    pub(crate) rank: u32,
    pub(crate) slot: u16,
    pub(crate) length: u32,
    pub(crate) offset: u64,
    pub(crate) id: ChunkId,
    pub(crate) file: Arc<Restoring<'a>>,
}

impl Part<'_> {
    /// Returns whether the file can't have these bytes already.
    pub(crate) fn is_needed(&self) -> bool {
        self.offset + u64::from(self.length) > self.file.existing
    }
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
