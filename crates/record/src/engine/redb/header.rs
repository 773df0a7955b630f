//! The header of redb's file, as those see it who do not have it open for writing.
//!
//! redb changes no page of its last synced commit before another one is synced: after a crash, it goes on from that. So
//! what a process has read of that commit is right if the header still has the commit afterwards.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use xxhash_rust::xxh3::xxh3_128;

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
/// Where it says whether there is a root of the tables that redb keeps for itself, and which.
const HAS_OWN_ROOT_AT: usize = 2;
const OWN_ROOT: std::ops::Range<usize> = 40..64;
/// Where the number of its transaction is.
const TRANSACTION: std::ops::Range<usize> = 104..112;
/// Where the checksum of what is before it is.
const CHECKSUM_AT: usize = 112;
/// Where the length of a page is, and how many pages a region has before its data, and for that.
const PAGE_BYTES_AT: usize = 12;
const REGION_HEADER_PAGES_AT: usize = 16;
const REGION_PAGES_AT: usize = 20;

/// The page of the root of all tables, with its checksum, which covers everything below it.
pub(super) type Root = [u8; 33];

/// The uppermost page of a tree, and its checksum.
#[derive(Clone, Copy)]
pub(super) struct TreeRoot {
    /// The page's number, as redb writes it.
    pub(super) page: u64,
    pub(super) checksum: u128,
}

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

    /// Returns a header that was read.
    pub(super) fn of(bytes: [u8; HEADER_BYTES]) -> Self {
        Header(bytes)
    }

    /// The root of the tables that redb keeps for itself; [`None`] if there are none.
    pub(super) fn own_root(&self) -> Option<TreeRoot> {
        let last = self.last();
        let (page, checksum) = last[OWN_ROOT].split_first_chunk()?;
        (last[HAS_OWN_ROOT_AT] != 0).then_some(TreeRoot {
            page: u64::from_le_bytes(*page),
            checksum: u128::from_le_bytes(*checksum.first_chunk()?),
        })
    }

    /// Whether what it says of the last commit is as it was written.
    pub(super) fn is_whole(&self) -> bool {
        let (said, checksum) = self.last().split_at(CHECKSUM_AT);
        xxh3_128(said).to_le_bytes() == checksum
    }

    /// Whether no process has the file open for writing, and the last one has closed it.
    pub(super) fn is_closed(&self) -> bool {
        self.0[FLAGS_AT] & IS_OPEN == 0
    }

    /// Returns where a page is in the file, given its number: of 5 bits from 59 on, the power of two by which it is
    /// longer than others; of 20 bits from 20 on, its region; and its place there, counted in pages of its length.
    pub(super) fn place(&self, page: u64) -> std::ops::Range<u64> {
        let [length, header_pages, pages] = [PAGE_BYTES_AT, REGION_HEADER_PAGES_AT, REGION_PAGES_AT].map(|at| {
            let number = self.0[at..].first_chunk();
            u64::from(u32::from_le_bytes(*number.expect("the header has it")))
        });
        let (order, region) = (page >> 59, page >> 20 & 0xf_ffff);
        let index = page & (0xf_ffff >> order);
        // No product is near 2^64 in a file that is shorter.
        let own = length.saturating_mul(1 << order);
        let before = region
            .saturating_mul(header_pages.saturating_add(pages))
            .saturating_add(header_pages)
            .saturating_add(1);
        let start = before.saturating_mul(length).saturating_add(index.saturating_mul(own));
        start..start.saturating_add(own)
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
