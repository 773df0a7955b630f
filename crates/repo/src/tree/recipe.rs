//! Recipes: the ordered list of chunks of a file or of a directory's listing.
//!
//! A list of more than [`ITEMS_INLINE`] items is itself stored as data: it is cut into metadata
//! chunks, and the list of these replaces it, until the list is short. A change in a large file
//! then costs only the few metadata chunks that it touches (see "Content, recipes, trees" in
//! `docs/format/README.md`).

use std::borrow::Cow;

use ibid_chunk::{Backend, Chunker, FastCdcSettings, Settings};
use ibid_format::content::{Content, DEPTH_MAX, ITEMS_INLINE, Item};
use ibid_format::run::ShortId;
use ibid_format::tree::{EntryKind, TreeEntry};
use ibid_format::{ChunkId, Keys};

use crate::read::ChunkReader;
use crate::{Error, Result};

/// Returns a key of a content: 16 bytes of a keyed hash of its encoding. Equal contents have equal
/// keys, and others have not, as far as anyone can tell.
pub(crate) fn content_key(keys: &Keys, content: &Content) -> ShortId {
    let mut bytes = Vec::new();
    content.encode(&mut bytes);
    ShortId::of(&keys.chunk_id(&bytes))
}

/// Destination of metadata chunks.
pub(crate) trait MetadataSink {
    /// Stores a metadata chunk if it is new; returns its id.
    fn store(&mut self, chunk: &[u8]) -> Result<ChunkId>;
}

/// The chunkers of metadata. Their settings are part of the format.
#[derive(Clone)]
pub(crate) struct MetadataChunkers {
    list: Chunker,
    listing: Chunker,
}

impl MetadataChunkers {
    pub(crate) fn new() -> MetadataChunkers {
        let cutter = |size_min, size_average, size_max| {
            let settings = FastCdcSettings {
                size_min,
                size_average,
                size_max,
                normalisation: 1,
            };
            // FastCDC has no vector form, so the choice of backend does not matter.
            Chunker::with_backend(&Settings::FastCdc(settings), Backend::scalar()).expect("valid settings")
        };
        MetadataChunkers {
            list: cutter(512, 2 << 10, 8 << 10),
            listing: cutter(4 << 10, 16 << 10, 64 << 10),
        }
    }
}

/// Cuts a stream of metadata into chunks as it grows.
#[derive(Clone)]
struct Cutter {
    pending: Vec<u8>,
}

impl Cutter {
    fn new() -> Cutter {
        Cutter { pending: Vec::new() }
    }

    /// Appends the output of `write`, stores the chunks that are complete, and reports them as
    /// items.
    fn push(
        &mut self,
        chunker: &Chunker,
        sink: &mut dyn MetadataSink,
        write: impl FnOnce(&mut Vec<u8>),
        mut item: impl FnMut(&mut dyn MetadataSink, Item) -> Result<()>,
    ) -> Result<()> {
        write(&mut self.pending);
        // Cutting in steps of several maxima keeps moving the remainder cheap.
        if self.pending.len() >= 4 * chunker.size_max() {
            self.drain(chunker, chunker.size_max(), sink, &mut item)?;
        }
        Ok(())
    }

    fn finish(
        &mut self,
        chunker: &Chunker,
        sink: &mut dyn MetadataSink,
        mut item: impl FnMut(&mut dyn MetadataSink, Item) -> Result<()>,
    ) -> Result<()> {
        self.drain(chunker, 1, sink, &mut item)
    }

    /// Stores chunks while at least `needed` bytes are pending.
    fn drain(
        &mut self,
        chunker: &Chunker,
        needed: usize,
        sink: &mut dyn MetadataSink,
        item: &mut dyn FnMut(&mut dyn MetadataSink, Item) -> Result<()>,
    ) -> Result<()> {
        let mut at = 0;
        while self.pending.len() - at >= needed {
            let length = chunker.cut(&self.pending[at..]);
            let id = sink.store(&self.pending[at..at + length])?;
            at += length;
            item(
                sink,
                Item::Chunk {
                    id,
                    length: length as u32,
                },
            )?;
        }
        self.pending.drain(..at);
        Ok(())
    }
}

/// Builds the content of one file from its items.
#[derive(Clone)]
pub(crate) struct ListWriter {
    /// Items of the list; empty once the list has spilled.
    items: Vec<Item>,
    /// The list as data, once it is too long, and the list of its chunks.
    spilled: Option<(Cutter, Box<ListWriter>)>,
    length: u64,
}

impl ListWriter {
    pub(crate) fn new() -> ListWriter {
        ListWriter {
            items: Vec::new(),
            spilled: None,
            length: 0,
        }
    }

    pub(crate) fn push(&mut self, chunkers: &MetadataChunkers, sink: &mut dyn MetadataSink, item: Item) -> Result<()> {
        self.length += item.length();
        if self.spilled.is_none() {
            if self.items.len() < ITEMS_INLINE {
                self.items.push(item);
                return Ok(());
            }
            self.spilled = Some((Cutter::new(), Box::new(ListWriter::new())));
            for item in std::mem::take(&mut self.items) {
                self.spill(chunkers, sink, item)?;
            }
        }
        self.spill(chunkers, sink, item)
    }

    fn spill(&mut self, chunkers: &MetadataChunkers, sink: &mut dyn MetadataSink, item: Item) -> Result<()> {
        let (cutter, above) = self.spilled.as_mut().expect("spilled");
        cutter.push(
            &chunkers.list,
            sink,
            |out| item.encode(out),
            |sink, item| above.push(chunkers, sink, item),
        )
    }

    pub(crate) fn finish(self, chunkers: &MetadataChunkers, sink: &mut dyn MetadataSink) -> Result<Content> {
        let Some((mut cutter, mut above)) = self.spilled else {
            return Ok(Content {
                depth: 0,
                length: self.length,
                items: self.items,
            });
        };
        cutter.finish(&chunkers.list, sink, |sink, item| above.push(chunkers, sink, item))?;
        let list = above.finish(chunkers, sink)?;
        if list.depth >= DEPTH_MAX {
            return Err(Error::TooMuch {
                what: "the number of chunks of one file",
                limit: 1 << 40,
            });
        }
        Ok(Content {
            depth: list.depth + 1,
            length: self.length,
            items: list.items,
        })
    }
}

/// Error for a directory whose entries are out of order or have equal names.
const UNORDERED: ibid_format::Error = ibid_format::Error::Unordered {
    field: "directory entry",
    position: 0,
};

/// Builds the content of a directory's listing from its entries, in order of their names. A copy takes no more
/// than a few hundred KiB: what is complete is stored already.
#[derive(Clone)]
pub(crate) struct ListingWriter {
    cutter: Cutter,
    list: ListWriter,
    /// Name of the last entry.
    last: Vec<u8>,
}

impl ListingWriter {
    pub(crate) fn new() -> ListingWriter {
        ListingWriter {
            cutter: Cutter::new(),
            list: ListWriter::new(),
            last: Vec::new(),
        }
    }

    /// Appends an entry. Refuses one that readers would refuse, with [`Error::Unstorable`], and
    /// leaves the listing unchanged.
    pub(crate) fn push(
        &mut self,
        chunkers: &MetadataChunkers,
        sink: &mut dyn MetadataSink,
        entry: &TreeEntry,
    ) -> Result<()> {
        if entry.name <= self.last {
            return Err(Error::Unstorable(UNORDERED));
        }
        let list = &mut self.list;
        let mut encoded = Ok(());
        self.cutter.push(
            &chunkers.listing,
            sink,
            |out| encoded = entry.encode(out),
            |sink, item| list.push(chunkers, sink, item),
        )?;
        encoded.map_err(Error::Unstorable)?;
        self.last.clone_from(&entry.name);
        Ok(())
    }

    /// Returns the name of the last entry; empty if there is none.
    pub(crate) fn last(&self) -> &[u8] {
        &self.last
    }

    pub(crate) fn finish(mut self, chunkers: &MetadataChunkers, sink: &mut dyn MetadataSink) -> Result<Content> {
        let list = &mut self.list;
        self.cutter
            .finish(&chunkers.listing, sink, |sink, item| list.push(chunkers, sink, item))?;
        self.list.finish(chunkers, sink)
    }
}

/// Iterator over the items of a content at depth 0, in order, reading lists as needed.
pub(crate) struct Items<'r> {
    reader: &'r ChunkReader<'r>,
    /// One level per depth; the innermost yields the items of depth 0.
    levels: Vec<Level>,
    expected: u64,
    found: u64,
    failed: bool,
    /// Metadata chunks that were read, if they are noted.
    lists: Option<Vec<Item>>,
}

struct Level {
    /// Items not returned yet: bytes of a list (depth > 0), or items inline in the content.
    inline: std::vec::IntoIter<Item>,
    bytes: Vec<u8>,
    at: usize,
}

impl<'r> Items<'r> {
    pub(crate) fn new(reader: &'r ChunkReader<'r>, content: &Content) -> Items<'r> {
        let mut levels = vec![Level {
            inline: content.items.clone().into_iter(),
            bytes: Vec::new(),
            at: 0,
        }];
        for _ in 0..content.depth {
            levels.push(Level {
                inline: Vec::new().into_iter(),
                bytes: Vec::new(),
                at: 0,
            });
        }
        Items {
            reader,
            levels,
            expected: content.length,
            found: 0,
            failed: false,
            lists: None,
        }
    }

    /// Returns an iterator that also notes every metadata chunk it reads.
    pub(crate) fn noting(reader: &'r ChunkReader<'r>, content: &Content) -> Items<'r> {
        Items {
            lists: Some(Vec::new()),
            ..Items::new(reader, content)
        }
    }

    /// Returns the metadata chunks noted since the last call.
    pub(crate) fn noted(&mut self) -> impl Iterator<Item = Item> + use<'_, 'r> {
        self.lists.iter_mut().flat_map(|lists| lists.drain(..))
    }

    /// Returns the next item of level `n`, if there is one.
    fn next_of(&mut self, n: usize) -> Result<Option<Item>> {
        loop {
            let level = &mut self.levels[n];
            if let Some(item) = level.inline.next() {
                return Ok(Some(item));
            }
            let decoded = Item::decode_prefix(&level.bytes[level.at..]).map_err(Error::damaged("a list of chunks"))?;
            if let Some((item, used)) = decoded {
                level.at += used;
                return Ok(Some(item));
            }
            let (left_over, at) = (level.bytes.len() - level.at, level.at);
            let above = if n == 0 { None } else { self.next_of(n - 1)? };
            match above {
                None if left_over == 0 => return Ok(None),
                None => {
                    return Err(Error::BadRecipe {
                        expected: 0,
                        found: left_over as u64,
                    });
                }
                Some(Item::Hole { length }) => {
                    return Err(Error::BadRecipe {
                        expected: 0,
                        found: length,
                    });
                }
                Some(Item::Chunk { id, length }) => {
                    let level = &mut self.levels[n];
                    level.bytes.drain(..at);
                    level.at = 0;
                    self.reader.read(&id, length, &mut level.bytes)?;
                    if let Some(lists) = &mut self.lists {
                        lists.push(Item::Chunk { id, length });
                    }
                }
            }
        }
    }
}

impl Iterator for Items<'_> {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Result<Item>> {
        if self.failed {
            return None;
        }
        let result = self.next_of(self.levels.len() - 1);
        self.failed = !matches!(result, Ok(Some(_)));
        match result {
            Ok(Some(item)) => {
                self.found = self.found.saturating_add(item.length());
                if self.found > self.expected {
                    self.failed = true;
                    return Some(Err(Error::BadRecipe {
                        expected: self.expected,
                        found: self.found,
                    }));
                }
                Some(Ok(item))
            }
            Ok(None) if self.found != self.expected => Some(Err(Error::BadRecipe {
                expected: self.expected,
                found: self.found,
            })),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// Iterator over the entries of a directory's listing, in order, reading chunks as needed.
pub(crate) struct Entries<'r> {
    items: Items<'r>,
    bytes: Vec<u8>,
    at: usize,
    last: Vec<u8>,
    failed: bool,
}

impl<'r> Entries<'r> {
    pub(crate) fn new(reader: &'r ChunkReader<'r>, listing: &Content) -> Entries<'r> {
        Entries {
            items: Items::new(reader, listing),
            bytes: Vec::new(),
            at: 0,
            last: Vec::new(),
            failed: false,
        }
    }

    /// Fetches what the listing of this directory is in, if it must be fetched, and with it what those of the
    /// directories after it are in, as far as their entries are here: a walk would wait for each.
    pub(crate) fn fetch_ahead(&self, listing: &Content) {
        let mut rest = &self.bytes[self.at..];
        let next = std::iter::from_fn(|| {
            let (entry, used) = TreeEntry::decode_prefix(rest).ok()??;
            rest = &rest[used..];
            Some(entry)
        });
        let listings = next.filter_map(|entry| match entry.kind {
            EntryKind::Directory(listing) => Some(Cow::Owned(listing)),
            _ => None,
        });
        self.items.reader.fetch_listings(listing, listings);
    }

    fn try_next(&mut self) -> Result<Option<TreeEntry>> {
        loop {
            let decoded =
                TreeEntry::decode_prefix(&self.bytes[self.at..]).map_err(Error::damaged("a directory's listing"))?;
            if let Some((entry, used)) = decoded {
                self.at += used;
                if entry.name <= self.last {
                    return Err(Error::damaged("a directory's listing")(UNORDERED));
                }
                self.last.clone_from(&entry.name);
                return Ok(Some(entry));
            }
            self.bytes.drain(..self.at);
            self.at = 0;
            match self.items.next().transpose()? {
                Some(Item::Chunk { id, length }) => self.items.reader.read(&id, length, &mut self.bytes)?,
                Some(Item::Hole { length }) => {
                    return Err(Error::BadRecipe {
                        expected: 0,
                        found: length,
                    });
                }
                None if self.bytes.is_empty() => return Ok(None),
                None => {
                    return Err(Error::BadRecipe {
                        expected: 0,
                        found: self.bytes.len() as u64,
                    });
                }
            }
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<TreeEntry>;

    fn next(&mut self) -> Option<Result<TreeEntry>> {
        if self.failed {
            return None;
        }
        let next = self.try_next().transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

#[cfg(test)]
mod tests {
    use ibid_format::tree::{EntryKind, Time};

    use super::*;

    struct Stored(Vec<u8>);

    impl MetadataSink for Stored {
        fn store(&mut self, chunk: &[u8]) -> Result<ChunkId> {
            self.0.extend_from_slice(chunk);
            Ok(ChunkId([0; 32]))
        }
    }

    fn entry(name: &str) -> TreeEntry {
        let time = Time { seconds: 0, nanos: 0 };
        TreeEntry {
            name: name.into(),
            kind: EntryKind::Fifo,
            mode: 0o600,
            uid: 0,
            gid: 0,
            mtime: time,
            ctime: time,
            inode: 1,
            changed_while_read: false,
            hard_link_device: None,
            inode_flags: Default::default(),
            xattrs: Vec::new(),
        }
    }

    /// A duplicate name, names out of order, and an invalid name: entries that readers would refuse
    /// never get into a listing.
    #[test]
    fn an_entry_that_a_reader_would_refuse_is_refused_and_the_others_are_kept() {
        let (chunkers, mut sink) = (MetadataChunkers::new(), Stored(Vec::new()));
        let mut listing = ListingWriter::new();
        for (name, good) in [("b", true), ("b", false), ("a", false), ("c/d", false), ("c", true)] {
            let pushed = listing.push(&chunkers, &mut sink, &entry(name));
            assert_eq!(pushed.is_ok(), good, "{name}");
            assert!(
                good || matches!(pushed, Err(Error::Unstorable(_))),
                "{name}: {pushed:?}"
            );
        }
        listing.finish(&chunkers, &mut sink).unwrap();
        let (first, length) = TreeEntry::decode_prefix(&sink.0).unwrap().unwrap();
        let (second, _) = TreeEntry::decode_prefix(&sink.0[length..]).unwrap().unwrap();
        assert_eq!((first, second), (entry("b"), entry("c")));
    }
}
