//! Reading from another repository: a copy takes from a snapshot there what a backup takes from files. A snapshot
//! that is to lose files is copied from its own repository, and then everything that stays is there already.
//!
//! Chunks keep their boundaries and get ids of this repository. Everything after that is as in a backup: what is
//! stored already is not stored again, and the rest is compressed, or becomes deltas.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ibid_delta::Sketch;
use ibid_format::content::{Content, Item};
use ibid_format::tree::{EntryKind, TreeEntry};

use super::batches::Batches;
use super::fingerprint::Span;
use super::job::{Job, Source};
use super::large::{Large, LargeCutter, StopResult};
use super::limits::BATCH_BYTES;
use super::moves;
use super::read::{Disconnected, Outlets, ParentListing, has_all, is_stored};
use super::sampling::{FileClass, FileClasses};
use super::work::{Batch, BatchItem, Names, Part, TakenFrom, attribute_bytes};
use crate::read::ChunkReader;
use crate::similar::SketchesOfFrames;
use crate::tree::{Entries, Items, PlannedFrames, PlannedItems, TreeStep, TreeWalk};
use crate::{Error, ProgressCounters, Result, Warning};

/// A snapshot of another repository.
pub(crate) struct CopySource<'a> {
    /// Reads chunks there.
    pub(crate) reader: &'a ChunkReader<'a>,
    /// The content of its root there.
    pub(crate) root: Content,
    /// The roots of another snapshot there and of its copy here.
    pub(crate) earlier: Option<(Content, Content)>,
    /// Length of the longest chunk that its chunker makes, bytes. Single ones may be longer, if they were copied
    /// there.
    pub(crate) chunk_max: usize,
    /// Whether equal chunks have equal ids there and here.
    pub(crate) shares_ids: bool,
    /// Finds the sketches of frames, if frames are moved as they are.
    pub(crate) moves: Option<&'a Mutex<SketchesOfFrames>>,
    /// Bytes of files that the progress has counted before their turn.
    pub(crate) ahead: AtomicU64,
    /// Whether to leave out folders and files whose data is lost.
    pub(crate) leaves_out_lost: bool,
}

impl CopySource<'_> {
    /// Returns the sketches of the chunks of a frame there; none if there are none, or if one is missing.
    pub(super) fn sketches_of(&self, number: u32) -> Vec<Sketch> {
        let Some(sketches) = self.moves else { return Vec::new() };
        let index = &self.reader.loaded.index;
        let frame = index.frame(number);
        let mut sketches = sketches.lock().expect("no holder of this lock panics");
        sketches.get(index.pack(frame.pack).id, frame.offset, frame.blobs)
    }

    /// Counts bytes of files before their turn.
    pub(super) fn go_ahead(&self, counters: &ProgressCounters, bytes: u64) {
        ProgressCounters::add(&counters.bytes, bytes);
        self.ahead.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that need not be read, unless they were counted before.
    pub(super) fn skip(&self, counters: &ProgressCounters, bytes: u64) {
        let take = |ahead: u64| Some(ahead.saturating_sub(bytes));
        let ahead = self.ahead.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        counters.skip(bytes.saturating_sub(ahead.unwrap_or_default()));
    }
}

/// A file to copy.
pub(crate) struct CopiedFile {
    /// Its entry there.
    pub(crate) entry: TreeEntry,
    /// Its path, for messages.
    pub(crate) path: PathBuf,
    pub(crate) kind: FileClass,
}

/// The listings of a directory in another snapshot there and in its copy here.
struct Former<'r> {
    there: ParentListing<'r>,
    here: ParentListing<'r>,
}

struct Copying<'r, 'j> {
    job: &'j Job<'j>,
    source: &'r CopySource<'r>,
    /// Reads the copy here.
    here: &'r ChunkReader<'r>,
    outlets: &'j Outlets,
    batches: Batches<'j>,
    /// One per directory on the path to the current one; `None` where the earlier copy has no such directory.
    former: Vec<Option<Former<'r>>>,
    kinds: FileClasses,
}

/// Walks the tree there, and passes on what is in it.
pub(super) fn walk(
    job: &Job<'_>,
    source: &CopySource<'_>,
    outlets: &Outlets,
) -> std::result::Result<Result<()>, Disconnected> {
    let here = ChunkReader::new(&job.repository.files, job.loaded.clone(), 16 << 20);
    let mut copying = Copying {
        job,
        source,
        here: &here,
        outlets,
        batches: Batches::new(job.limits.open_in_batch(), outlets),
        former: Vec::new(),
        kinds: FileClasses::default(),
    };
    let roots = source.earlier.as_ref();
    let root = roots.map(|(there, here)| copying.listings(there, here));
    copying.former.push(root);
    if source.moves.is_some()
        && let Err(error) = moves::send(job, source, outlets)?
    {
        return Ok(Err(error));
    }
    let mut walk = TreeWalk::new(source.reader, &source.root);
    while let Some(step) = walk.next() {
        if job.monitor.is_cancelled() {
            return Ok(Err(Error::Interrupted));
        }
        match step {
            Ok(TreeStep::Entry(entry)) => copying.entry(*entry, &mut walk)?,
            Ok(TreeStep::Leave) => {
                copying.former.pop();
                copying.batches.leave()?;
            }
            Err(error) => return Ok(Err(error)),
        }
    }
    copying.batches.flush()?;
    Ok(Ok(()))
}

impl<'r> Copying<'r, '_> {
    fn entry(&mut self, entry: TreeEntry, walk: &mut TreeWalk<'r>) -> std::result::Result<(), Disconnected> {
        let former = self.take_former(&entry.name);
        let is_directory = matches!(entry.kind, EntryKind::Directory(_));
        if self
            .job
            .filter
            .leaves_out(&Path::new("/").join(walk.path()), is_directory)
        {
            return Ok(());
        }
        if self.source.leaves_out_lost && self.is_lost(&entry) {
            let path = Path::new("/").join(walk.path());
            self.job.monitor.warn(Warning::LeftOut { path, is_directory });
            return Ok(());
        }
        match &entry.kind {
            EntryKind::Directory(listing) => {
                let below = match former.map(|(there, here)| (there.kind, here.kind)) {
                    Some((EntryKind::Directory(there), EntryKind::Directory(here))) => {
                        Some(self.listings(&there, &here))
                    }
                    _ => None,
                };
                self.former.push(below);
                walk.descend(listing);
                self.batches.enter(entry)
            }
            EntryKind::File(content) => {
                let content = content.clone();
                self.file(entry, &content, former, walk.path())
            }
            _ => self.ready(entry, false),
        }
    }

    /// Returns whether data of an entry is in no pack: of a folder, a part of its listing.
    fn is_lost(&self, entry: &TreeEntry) -> bool {
        match &entry.kind {
            EntryKind::Directory(content) | EntryKind::File(content) => !has_all(self.job, self.source.reader, content),
            _ => false,
        }
    }

    fn file(
        &mut self,
        mut entry: TreeEntry,
        content: &Content,
        former: Option<(TreeEntry, TreeEntry)>,
        path: &Path,
    ) -> std::result::Result<(), Disconnected> {
        let kind = self.kinds.of(&entry.name, former.as_ref().map(|(_, here)| here));
        // What is the same there is the same here, if all of it is still stored.
        if let Some((there, here)) = former
            && let (EntryKind::File(there), EntryKind::File(here)) = (there.kind, here.kind)
            && there == *content
            && is_stored(self.job, self.here, &here)
        {
            self.job.monitor.counters.skip(content.length);
            entry.kind = EntryKind::File(here);
            return self.ready(entry, true);
        }
        if self.source.shares_ids && content.depth == 0 && content.items.iter().all(|item| is_here(self.job, item)) {
            self.source.skip(&self.job.monitor.counters, content.length);
            return self.ready(entry, false);
        }
        let path = Path::new("/").join(path);
        if content.length <= BATCH_BYTES as u64 {
            let bytes = content.length + attribute_bytes(&entry) as u64;
            let file = CopiedFile { entry, path, kind };
            return self.batches.add(BatchItem::Copied(Box::new(file)), bytes);
        }
        self.batches.flush()?;
        let pieces = content.length / self.job.limits.piece as u64 + 1;
        let parts = self.outlets.announce(self.job, path.clone(), pieces, Names::Each)?;
        let file = Box::new(CopiedFile { entry, path, kind });
        Ok(self.outlets.large.send(Large::Copied { file, parts })?)
    }

    /// Passes on an entry that is complete.
    fn ready(&mut self, entry: TreeEntry, unchanged: bool) -> std::result::Result<(), Disconnected> {
        let bytes = attribute_bytes(&entry) as u64;
        let entry = Box::new(entry);
        let taken_from = unchanged.then_some(TakenFrom::Parent);
        self.batches.add(BatchItem::Ready { entry, taken_from }, bytes)
    }

    fn listings(&self, there: &Content, here: &Content) -> Former<'r> {
        Former {
            there: ParentListing::new(Entries::new(self.source.reader, there)),
            here: ParentListing::new(Entries::new(self.here, here)),
        }
    }

    /// Returns the entries of this name there and here, in the snapshot that was copied before.
    fn take_former(&mut self, name: &[u8]) -> Option<(TreeEntry, TreeEntry)> {
        let former = self.former.last_mut()?.as_mut()?;
        let there = former.there.take(name, self.job.monitor);
        let here = former.here.take(name, self.job.monitor);
        there.zip(here)
    }
}

/// Reads a small file into the batch. Returns its parts.
pub(super) fn read_small(job: &Job<'_>, batch: &mut Batch, file: &CopiedFile) -> Result<std::ops::Range<usize>> {
    let (source, first) = (job.copy_source(), batch.parts.len());
    for item in Items::new(source.reader, content_of(&file.entry)) {
        match item? {
            Item::Hole { length } => {
                job.monitor.counters.skip(length);
                batch.parts.push(Part::Hole(length));
            }
            Item::Chunk { id, length } => {
                let start = batch.data.len();
                source.reader.read(&id, length, &mut batch.data)?;
                ProgressCounters::add(&job.monitor.counters.bytes, length.into());
                batch.bytes_read += u64::from(length);
                batch
                    .parts
                    .push(Part::Chunk(Span::new(start, length as usize, file.kind)));
            }
        }
    }
    Ok(first..batch.parts.len())
}

impl LargeCutter<'_> {
    /// Takes over the chunks of a file of another repository.
    pub(super) fn copied(&mut self, file: CopiedFile) -> StopResult<Box<TreeEntry>> {
        let source = self.job.copy_source();
        let mut chunk = Vec::new();
        let is_read = |item: &Item| !(source.shares_ids && is_here(self.job, item));
        let items = PlannedItems::new(source.reader, source.reader, content_of(&file.entry), 0..u64::MAX);
        for item in items.planning(&is_read) {
            self.job.monitor.check_cancelled()?;
            match item?.1 {
                hole @ Item::Hole { .. } => self.without_data(hole)?,
                known if source.shares_ids && is_here(self.job, &known) => self.without_data(known)?,
                Item::Chunk { id, length } => {
                    chunk.clear();
                    source.reader.read(&id, length, &mut chunk)?;
                    self.whole_chunk(&chunk)?;
                }
            }
        }
        Ok(Box::new(file.entry))
    }
}

/// Plans the frames of small files that are read one after another.
pub(super) fn plan<'j>(job: &'j Job<'_>, items: &[BatchItem]) -> Option<PlannedFrames<'j>> {
    let source = match &job.source {
        Some(Source::Copy(source)) if source.reader.fetches_ahead() => source,
        _ => return None,
    };
    let contents = items.iter().filter_map(|item| match item {
        BatchItem::Copied(file) => Some(content_of(&file.entry)).filter(|content| content.depth == 0),
        _ => None,
    });
    Some(PlannedFrames::new(
        source.reader,
        contents.flat_map(|content| &content.items),
    ))
}

/// Returns whether nothing of an item has to be read, if ids are the same there and here.
fn is_here(job: &Job<'_>, item: &Item) -> bool {
    match item {
        Item::Hole { .. } => true,
        Item::Chunk { id, .. } => job.loaded.index.contains(id),
    }
}

/// Returns the content of a file there.
fn content_of(entry: &TreeEntry) -> &Content {
    static EMPTY: Content = Content {
        depth: 0,
        length: 0,
        items: Vec::new(),
    };
    match &entry.kind {
        EntryKind::File(content) => content,
        _ => &EMPTY,
    }
}
