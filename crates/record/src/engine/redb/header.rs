//! The header of redb's file, as those see it who do not have it open for writing.
//!
//! redb changes no page of its last synced commit before another one is synced: after a crash, it goes on from that. So
//! what a process has read of that commit is right if the header still has the commit afterwards.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Length of the header, bytes.
pub(super) const HEADER_BYTES: usize = 320;
/// Where the flags are.
const FLAGS_AT: usize = 9;
/// Set if the second of the two commits is the last one.
const SECOND_IS_LAST: u8 = 1;
/// Set while the file is open for writing, and after a crash.
const IS_OPEN: u8 = 2;
/// Set if the last commit was on disk before the header named it.
const IN_TWO_PHASES: u8 = 4;
/// Where the two commits are, and how long each is.
const COMMITS_AT: usize = 64;
const COMMIT_BYTES: usize = 128;
/// Where in a commit it says whether there is a root of the tables that users see, and which.
const HAS_ROOT_AT: usize = 1;
const ROOT: std::ops::Range<usize> = 8..40;
/// Where the number of its transaction is.
const TRANSACTION: std::ops::Range<usize> = 104..112;

/// The page of the root of all tables, with its checksum, which covers everything below it.
pub(super) type Root = [u8; 33];

/// The header at one moment.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Header([u8; HEADER_BYTES]);

impl Header {
    /// Reads the header of a file.
    pub(super) fn read(file: &File) -> io::Result<Self> {
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Header(bytes))
    }

    /// The number of the transaction that was synced last.
    pub(super) fn transaction(&self) -> u64 {
        let number = self.last()[TRANSACTION].first_chunk();
        u64::from_le_bytes(*number.expect("a commit has it"))
    }

    /// The root of all tables.
    pub(super) fn root(&self) -> Root {
        let mut root = [0; 33];
        root[0] = self.last()[HAS_ROOT_AT];
        root[1..].copy_from_slice(&self.last()[ROOT]);
        root
    }

    /// Whether only a writer can tell which commit is the last one.
    pub(super) fn needs_repair(&self) -> bool {
        self.0[FLAGS_AT] & (IS_OPEN | IN_TWO_PHASES) == IS_OPEN
    }

    /// Returns the header as it is when no process has the file open for writing.
    pub(super) fn of_closed_file(mut self) -> [u8; HEADER_BYTES] {
        self.0[FLAGS_AT] &= !IS_OPEN;
        self.0
    }

    fn last(&self) -> &[u8] {
        let is_second = self.0[FLAGS_AT] & SECOND_IS_LAST != 0;
        &self.0[COMMITS_AT + COMMIT_BYTES * usize::from(is_second)..][..COMMIT_BYTES]
    }
}
