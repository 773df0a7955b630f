//! The tables that redb keeps for itself: which pages are free, and which will be.
//!
//! redb reads them when it commits, and panics over some damage of their pages, twice at once: that ends the process,
//! whatever is outside redb. So they are verified before redb may write. Each page has its checksum in the page above
//! it, and that of the uppermost is in the header (redb's `docs/design.md`).

use std::io;
use std::path::Path;

use redb::StorageBackend;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::ENGINE;
use super::header::{HEADER_BYTES, Header, TreeRoot};
use crate::engine::EngineError;

/// What pages begin with.
const LEAF: u8 = 1;
const BRANCH: u8 = 2;
/// Bytes that are hashed at once.
const AT_ONCE: usize = 64 << 10;
/// Most bytes of a page that is read as a whole. What names the tables, of which there are seven, is shorter.
const WHOLE_BYTES_MAX: usize = 1 << 20;
/// Most pages above one another.
const DEPTH_MAX: usize = 32;
/// Length of the checksum and the number of a page below.
const CHECKSUM_BYTES: usize = 16;
const NUMBER_BYTES: usize = 8;

/// How long the keys and values of a table are, if all are of one length.
#[derive(Clone, Copy, Default)]
struct Widths {
    key: Option<usize>,
    value: Option<usize>,
}

/// What is wrong with a page.
pub(super) enum Fault {
    /// The page at this offset is not as it was written.
    Page(u64),
    Io(io::Error),
}

impl Fault {
    pub(super) fn into_error(self, path: &Path) -> EngineError {
        match self {
            Fault::Page(at) => EngineError::Damaged {
                engine: ENGINE,
                path: path.to_owned(),
                found: format!("of what redb notes for itself, the page at byte {at} is not as it was written"),
            },
            Fault::Io(source) => EngineError::io("read", path, source),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Io(error)
    }
}

/// Verifies the tables of a file that redb would take as it is. One that it would repair, it verifies itself.
pub(super) fn verify(file: &dyn StorageBackend) -> Result<(), Fault> {
    let length = file.len()?;
    if length < HEADER_BYTES as u64 {
        return Ok(());
    }
    let mut header = [0; HEADER_BYTES];
    file.read(0, &mut header)?;
    let header = Header::of(header);
    if header.needs_repair() || !header.is_whole() {
        return Ok(());
    }
    let Some(root) = header.own_root() else {
        return Ok(());
    };
    let mut tables = Vec::new();
    let tree = Tree { file, header, length };
    tree.verify(root, Widths::default(), 0, &mut |page| tables.extend(tables_of(page)))?;
    for (root, widths) in tables {
        tree.verify(root, widths, 0, &mut |_| {})?;
    }
    Ok(())
}

struct Tree<'f> {
    file: &'f dyn StorageBackend,
    header: Header,
    length: u64,
}

impl Tree<'_> {
    /// Verifies a page and all below it. Shows each leaf to `each`; nothing of one that is too long.
    fn verify(&self, root: TreeRoot, widths: Widths, depth: usize, each: &mut dyn FnMut(&[u8])) -> Result<(), Fault> {
        let place = self.header.place(root.page);
        let wrong = || Fault::Page(place.start);
        if place.end > self.length || depth > DEPTH_MAX {
            return Err(wrong());
        }
        let page_bytes = place.end - place.start;
        let mut head = [0; 4];
        self.file.read(place.start, &mut head)?;
        let count = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let end = match head[0] {
            LEAF => self.leaf_end(place.start, count, widths)?,
            BRANCH => self.branch_end(place.start, count, widths)?,
            _ => None,
        };
        let end = end.filter(|end| *end as u64 <= page_bytes).ok_or_else(wrong)?;
        let mut page = Vec::new();
        let checksum = match end <= WHOLE_BYTES_MAX {
            true => {
                page.resize(end, 0);
                self.file.read(place.start, &mut page)?;
                xxh3_128(&page)
            }
            false => self.checksum(place.start, end)?,
        };
        if checksum != root.checksum {
            return Err(wrong());
        }
        if head[0] == LEAF {
            each(&page);
            return Ok(());
        }
        let mut below = vec![0; (count + 1) * (CHECKSUM_BYTES + NUMBER_BYTES)];
        self.file.read(place.start + 8, &mut below)?;
        let (checksums, pages) = below.split_at((count + 1) * CHECKSUM_BYTES);
        let checksums = checksums.as_chunks::<CHECKSUM_BYTES>().0;
        let pages = pages.as_chunks::<NUMBER_BYTES>().0;
        for (checksum, page) in checksums.iter().zip(pages) {
            let root = TreeRoot {
                page: u64::from_le_bytes(*page),
                checksum: u128::from_le_bytes(*checksum),
            };
            self.verify(root, widths, depth + 1, each)?;
        }
        Ok(())
    }

    /// Returns where what is in a leaf ends; [`None`] if it has no pairs.
    fn leaf_end(&self, page: u64, count: usize, widths: Widths) -> Result<Option<usize>, Fault> {
        let Some(last) = count.checked_sub(1) else {
            return Ok(None);
        };
        let (of_keys, of_values) = (
            if widths.key.is_none() { 4 * count } else { 0 },
            if widths.value.is_none() { 4 * count } else { 0 },
        );
        if widths.value.is_none() {
            return Ok(Some(self.number(page + 4 + (of_keys + 4 * last) as u64)?));
        }
        let keys_end = match widths.key {
            None => self.number(page + 4 + 4 * last as u64)?,
            Some(width) => 4 + of_values + width.saturating_mul(count),
        };
        let values = widths.value.unwrap_or_default().saturating_mul(count);
        Ok(Some(keys_end.saturating_add(values)))
    }

    /// Returns where what is in a branch ends; [`None`] if it has no keys.
    fn branch_end(&self, page: u64, count: usize, widths: Widths) -> Result<Option<usize>, Fault> {
        let Some(last) = count.checked_sub(1) else {
            return Ok(None);
        };
        let below = 8 + (CHECKSUM_BYTES + NUMBER_BYTES) * (count + 1);
        Ok(Some(match widths.key {
            None => self.number(page + (below + 4 * last) as u64)?,
            Some(width) => width.saturating_mul(count).saturating_add(below),
        }))
    }

    /// Reads a u32; the largest there is where the file has ended.
    fn number(&self, at: u64) -> Result<usize, Fault> {
        if at + 4 > self.length {
            return Ok(usize::MAX);
        }
        let mut bytes = [0; 4];
        self.file.read(at, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes) as usize)
    }

    fn checksum(&self, from: u64, length: usize) -> Result<u128, Fault> {
        let (mut hash, mut at) = (Xxh3::new(), 0);
        let mut bytes = vec![0; length.min(AT_ONCE)];
        while at < length {
            let part = (length - at).min(AT_ONCE);
            self.file.read(from + at as u64, &mut bytes[..part])?;
            hash.update(&bytes[..part]);
            at += part;
        }
        Ok(hash.digest128())
    }
}

/// Returns the tables that a leaf names, given one that has been verified.
fn tables_of(page: &[u8]) -> Vec<(TreeRoot, Widths)> {
    let count = page
        .get(2..4)
        .map_or(0, |count| usize::from(u16::from_le_bytes([count[0], count[1]])));
    let number = |at: usize| {
        let bytes = page.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes) as usize)
    };
    let value = |place: usize| {
        let start = match place {
            0 => number(4 + 4 * (count - 1))?, // after the last key
            _ => number(4 + 4 * (count + place - 1))?,
        };
        page.get(start..number(4 + 4 * (count + place))?)
    };
    (0..count).filter_map(|place| definition(value(place)?)).collect()
}

/// Reads what redb notes of a table; [`None`] if it is empty.
fn definition(bytes: &[u8]) -> Option<(TreeRoot, Widths)> {
    let width = |at: usize| {
        let width = bytes.get(at + 1..at + 5)?.try_into().ok()?;
        (bytes[at] != 0).then_some(u32::from_le_bytes(width) as usize)
    };
    if *bytes.get(9)? == 0 {
        return None;
    }
    let root = TreeRoot {
        page: u64::from_le_bytes(bytes.get(10..18)?.try_into().ok()?),
        checksum: u128::from_le_bytes(bytes.get(18..34)?.try_into().ok()?),
    };
    let widths = Widths {
        key: width(42),
        value: width(47),
    };
    Some((root, widths))
}
