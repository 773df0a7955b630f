//! Copying snapshots to another repository.
//!
//! The two repositories have other keys, and nothing sealed in one opens in the other. Data is decoded there and
//! encoded here, with all that a backup does: what is stored is not stored again. A chunk has another id in each,
//! unless one was [made like](crate::InitOptions::like) the other: then chunks that are here are not read there, and
//! frames of which nothing is here are sealed again as they are.
//! A copy is told by the id of the [first](ibid_format::snapshot::Snapshot::original) of the snapshots it was made
//! from. What the last copied snapshot of the same machine and paths shares with the next is not read again.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use ibid_format::FileId;
use ibid_format::content::Item;
use ibid_format::pack::PackKind;
use ibid_format::snapshot::Snapshot;
use ibid_format::tree::{EntryKind, TreeEntry};
use ibid_storage::Operation;

use crate::derived::Due;
use crate::index::NumberSet;
use crate::ingest::{CopySource, Derived, MissingChunks, is_wanted, length_max};
use crate::options::setters;
use crate::read::ChunkReader;
use crate::rehearsal::Inexact;
use crate::similar::SketchesOfFrames;
use crate::snapshots::{first_id, next_sequence, order};
use crate::tree::{Items, Reach, changes};
use crate::{
    BackupOptions, BackupSummary, Compression, Error, Hints, PackBytes, ProgressCounters, Repository, Result,
    Similarity, SnapshotInfo, StorageError, Warning,
};

/// Files that a copy stores beside its packs of data.
const PUTS_OF_COPY: u64 = 5;

/// Options of a [copy](Repository::copy_to).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CopyOptions {
    /// Say what would be copied, and copy nothing.
    pub dry_run: bool,
    /// Name and version of the calling program, for the session.
    pub program: String,
    /// Compression of chunks that the destination does not have. Unless it is the default, none are moved as they are.
    pub compression: Compression,
    /// Whether to store those as deltas that resemble others. Unless it is the default, none are moved as they are.
    pub similarity: Similarity,
    /// Number of threads that read, fingerprint and compress; the number of cores if none.
    pub threads: Option<usize>,
}

setters!(CopyOptions {
    dry_run: bool,
    compression: Compression,
    similarity: Similarity,
    threads: Option<usize>,
} into {
    program: String,
});

/// What became of each snapshot in a [copy](Repository::copy_to), in the order of the source.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CopySummary {
    /// The snapshots that were asked for, oldest first.
    pub snapshots: Vec<CopiedSnapshot>,
    /// What the destination lacks, in a dry run between repositories that share chunk ids.
    pub missing: Option<MissingData>,
}

/// Data of files that the destination of a copy lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingData {
    /// Chunks.
    pub chunks: u64,
    /// Frames of the source that have some of them.
    pub frames: u64,
    /// Bytes of these in packs of the source.
    pub packed: u64,
    /// Those of these frames that are moved as they are. The chunks of the others are encoded anew.
    pub moved_frames: u64,
    /// Bytes of the frames that are moved, in packs of the source.
    pub moved: u64,
}

/// A snapshot that was to be copied.
#[derive(Debug)]
#[non_exhaustive]
pub struct CopiedSnapshot {
    /// It, in the source.
    pub source: SnapshotInfo,
    /// What became of it.
    pub outcome: CopyOutcome,
}

/// What became of a snapshot that was to be copied.
#[derive(Debug)]
pub enum CopyOutcome {
    /// It was copied.
    Copied(Box<BackupSummary>),
    /// It would be copied, but this is a dry run.
    WouldBeCopied,
    /// This snapshot of the destination is a copy of it already, or it is one of that.
    IsThere(FileId),
    /// It was not copied, because another process has forgotten it meanwhile.
    Forgotten,
    /// It was not copied, because a part of it can't be read, or must be [thawed](Repository::thaw) first.
    Failed(Error),
}

impl Repository {
    /// Copies snapshots of this repository to another one, oldest first. Those that are there are skipped, even if
    /// their tags differ. Copies have new ids, and name the [original](Snapshot::original). Among the snapshots of
    /// the destination they have the place of their time, and keep their order.
    ///
    /// If the destination was [made like](crate::InitOptions::like) this repository, or this like the destination,
    /// chunks that are there are told by their ids, and not read here. Frames of which the destination has nothing, and
    /// the snapshot needs all, are verified and moved as they are, if the options name no compression and no
    /// similarity. Other chunks are decoded and encoded again.
    ///
    /// Chunks keep their boundaries. So the copies share chunks with backups into the destination if both
    /// repositories have the same chunker; if not, only deltas save something between them.
    ///
    /// Each repository uses its own budget of memory, and the monitor of the destination shows the progress.
    ///
    /// # Errors
    /// [`Error::Archived`] before anything is stored, if something of all these snapshots must be
    /// [thawed](Repository::thaw) first. If it is only some of them, these are the outcome that failed.
    /// [`Error::Interrupted`]: snapshots copied so far stay, and the next copy uses what was stored of the one at
    /// hand. Errors of the storage. If a part of a snapshot can't be read, the [outcome](CopyOutcome::Failed) says
    /// so, and the next one is copied.
    pub fn copy_to(
        &self,
        destination: &Repository,
        snapshots: &[SnapshotInfo],
        options: &CopyOptions,
    ) -> Result<CopySummary> {
        destination.refuse_writers("storing copies")?;
        let mut asked = snapshots.to_vec();
        asked.sort_by_key(order);
        // Those that can't be read are none that were copied, or to copy.
        let there = self.snapshots_with(|_, _| {})?;
        let here = destination.snapshots_with(|_, error| destination.monitor.warn(Warning::Repository { error }))?;
        self.loaded()?;
        // Only now, so that what a copy reads comes in the same order whether the storage can have archives or not.
        let mut archived = match options.dry_run {
            true => BTreeMap::new(),
            false => self.archived_of(destination, &asked, (&there, &here), options)?,
        };
        let mut copying = Copying::new(self, destination, (there, here), options)?;
        copying.expect(asked.iter().filter(|info| !archived.contains_key(&info.id)));
        let mut summary = CopySummary::default();
        if options.dry_run {
            summary.missing = copying.missing(&asked)?;
            copying.rehearse(&asked)?;
        }
        for source in asked {
            let outcome = match archived.remove(&source.id) {
                Some(error) => CopyOutcome::Failed(error),
                None => copying.one(&source)?,
            };
            summary.snapshots.push(CopiedSnapshot { source, outcome });
        }
        Ok(summary)
    }

    /// Returns which of these snapshots can't be copied because something must be thawed first, each with the error
    /// that says so. `there` and `here` are the snapshots of both repositories.
    ///
    /// # Errors
    /// [`Error::Archived`] if it is all of them.
    fn archived_of(
        &self,
        destination: &Repository,
        asked: &[SnapshotInfo],
        (there, here): (&[SnapshotInfo], &[SnapshotInfo]),
        options: &CopyOptions,
    ) -> Result<BTreeMap<FileId, Error>> {
        let options = options.clone().dry_run(true);
        let packs = self.archived_for(|from| {
            let to = destination.rehearsing_quietly()?;
            from.copy_to(&to, asked, &options).map(drop)
        })?;
        let mut archived = BTreeMap::new();
        if packs.waiting().packs == 0 {
            return Ok(archived);
        }
        // Each by itself: those before it may not be copied.
        let (from, to) = (self.rehearsing_quietly()?, destination.rehearsing_quietly()?);
        for info in asked {
            let copying = Copying::new(&from, &to, (there.to_vec(), here.to_vec()), &options)?;
            copying.rehearse(std::slice::from_ref(info))?;
            let PackBytes { packs, bytes } = packs.waiting_among(&from.take_packs_needed());
            if packs > 0 {
                archived.insert(info.id, Error::Archived { packs, bytes });
            }
        }
        match packs.waiting() {
            PackBytes { packs, bytes } if archived.len() == asked.len() => Err(Error::Archived { packs, bytes }),
            _ => Ok(archived),
        }
    }
}

struct Copying<'a> {
    source: &'a Repository,
    /// Reads there. What one snapshot needs as a base, the next one may need, too.
    reader: ChunkReader<'a>,
    destination: &'a Repository,
    /// Snapshots of the source, oldest first.
    there: Vec<SnapshotInfo>,
    /// Snapshots of the destination, oldest first.
    here: Vec<SnapshotInfo>,
    options: &'a CopyOptions,
    /// Sketches of the source.
    sketches: Mutex<SketchesOfFrames>,
}

impl<'a> Copying<'a> {
    /// `there` and `here` are the snapshots of both repositories, oldest first.
    fn new(
        source: &'a Repository,
        destination: &'a Repository,
        (there, here): (Vec<SnapshotInfo>, Vec<SnapshotInfo>),
        options: &'a CopyOptions,
    ) -> Result<Self> {
        Ok(Copying {
            source,
            reader: source.bulk_reader_ahead(&source.loaded()?),
            destination,
            there,
            here,
            options,
            sketches: Mutex::new(SketchesOfFrames::new(source)),
        })
    }

    /// Sets the totals that progress is measured by.
    fn expect<'s>(&self, asked: impl Iterator<Item = &'s SnapshotInfo>) {
        let counters = &self.destination.monitor.counters;
        for info in asked.filter(|info| self.copy_of(info).is_none()) {
            ProgressCounters::add(&counters.files_total, info.snapshot.counters.files);
            ProgressCounters::add(&counters.bytes_total, info.snapshot.counters.bytes);
        }
        counters.totals_final.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// Returns whether equal chunks have equal ids in both repositories.
    fn shares_ids(&self) -> bool {
        self.source.files.keys.names_alike(&self.destination.files.keys)
    }

    /// Returns whether frames are moved as they are.
    fn moves(&self) -> bool {
        self.shares_ids() && is_wanted(self.options.compression, self.options.similarity)
    }

    /// Returns what the destination lacks of these snapshots; `None` if ids do not tell.
    fn missing(&self, asked: &[SnapshotInfo]) -> Result<Option<MissingData>> {
        if !self.shares_ids() {
            return Ok(None);
        }
        let (there, here) = (self.source.loaded()?, self.destination.loaded()?);
        let (reader, scratch) = (self.source.tree_reader()?, self.source.scratch());
        let mut reach = Reach::new(self.source, &reader);
        let mut missing = MissingChunks::new(&scratch, &there, &here)?;
        for info in asked.iter().filter(|info| self.copy_of(info).is_none()) {
            let visited = reach.visit(&info.snapshot.root, &mut |id, length, kind| {
                // Lists of folders and chunks are written anew.
                match kind {
                    PackKind::Metadata => Ok(()),
                    PackKind::Data => missing.add(id, length),
                }
            });
            match visited {
                // The copy itself will name it.
                Err(error) if is_of_reading(&error) => {}
                visited => visited?,
            }
        }
        let mut data = MissingData {
            chunks: missing.chunks,
            ..MissingData::default()
        };
        let sealed = |number| u64::from(there.index.frame(number).sealed);
        for number in missing.frames.iter() {
            data.frames += 1;
            data.packed += sealed(number);
        }
        if self.moves() {
            let length_max = length_max(self.destination, self.source.chunker.size_max());
            for number in missing
                .plan(&self.source.files, length_max, &self.destination.monitor)?
                .frames()
            {
                data.moved_frames += 1;
                data.moved += sealed(number);
            }
        }
        Ok(Some(data))
    }

    /// In a rehearsal, counts about what would be read, and stored.
    fn rehearse(&self, asked: &[SnapshotInfo]) -> Result<()> {
        let (Some(from), Some(to)) = (&self.source.files.rehearsal, &self.destination.files.rehearsal) else {
            return Ok(());
        };
        let (there, here) = (self.reader.loaded.clone(), self.destination.loaded()?);
        let tree_reader = self.source.tree_reader()?;
        let (mut frames, mut copied) = (NumberSet::default(), HashSet::new());
        for info in asked.iter().filter(|info| self.copy_of(info).is_none()) {
            let mut need = |item: Item| match item {
                Item::Chunk { id, .. } if self.shares_ids() && here.index.contains(&id) => {}
                Item::Chunk { id, .. } => {
                    if let Some(place) = there.index.get_stored(&id) {
                        frames.insert(place.frame);
                    }
                }
                Item::Hole { .. } => {}
            };
            // What an earlier snapshot has, too, is not read again.
            let earlier = self
                .like(info)
                .find(|there| copied.contains(&there.id) || self.copy_of(there).is_some());
            let earlier = earlier.map(|there| &there.snapshot.root);
            let (reader, monitor) = (&tree_reader, &self.source.monitor);
            let visited = changes(
                reader,
                monitor,
                earlier,
                &info.snapshot.root,
                &mut |change| match change.new {
                    Some(TreeEntry {
                        kind: kind @ EntryKind::File(content),
                        ..
                    }) if change.old.is_none_or(|old| old.kind != *kind) => {
                        ProgressCounters::add(&monitor.counters.files, 1);
                        Items::new(reader, content).try_for_each(|item| item.map(&mut need))
                    }
                    _ => Ok(()),
                },
            );
            let visited = visited.and_then(|()| self.visit_lost(info, &mut need));
            copied.insert(info.id);
            match visited {
                Err(error) if is_of_reading(&error) => from.doubt(Inexact::Damage),
                visited => visited?,
            }
            // The session, the packs of trees and sketches, the index file and the snapshot.
            (0..PUTS_OF_COPY).for_each(|_| to.spare_put(0));
            to.spare_deletes(1);
        }
        if copied.is_empty() {
            return Ok(());
        }
        [from, to].into_iter().for_each(|side| side.doubt(Inexact::Stores));
        let frames: Vec<u32> = frames.iter().collect();
        self.reader.plan(&frames);
        self.reader.rehearse_bases(&self.destination.monitor)?;
        let mut left: u64 = frames
            .iter()
            .map(|&frame| u64::from(there.index.frame(frame).sealed))
            .sum();
        let full = u64::from(self.destination.config.pack_size);
        while left > 0 {
            to.spare_put(left.min(full));
            left -= left.min(full);
        }
        Ok(())
    }

    /// Visits what files of a snapshot are made of whose copies here have lost something: these are read again, though
    /// an earlier snapshot has them, too.
    fn visit_lost(&self, info: &SnapshotInfo, need: &mut dyn FnMut(Item)) -> Result<()> {
        let here = self.destination.loaded()?;
        let Some((_, copy)) = self.earlier(info).filter(|_| here.lacks_packs()) else {
            return Ok(());
        };
        let (reader, monitor) = (self.destination.tree_reader()?, &self.destination.monitor);
        let mut lost = HashSet::new();
        let has = |item: &Item| match item {
            Item::Chunk { id, .. } => here.index.contains(id),
            Item::Hole { .. } => true,
        };
        changes(&reader, monitor, None, &copy.snapshot.root, &mut |change| {
            if let Some(EntryKind::File(content)) = change.new.map(|entry| &entry.kind)
                && !Items::new(&reader, content).all(|item| item.is_ok_and(|item| has(&item)))
            {
                lost.insert(change.path.to_owned());
            }
            Ok(())
        })?;
        if lost.is_empty() {
            return Ok(());
        }
        let reader = self.source.tree_reader()?;
        changes(
            &reader,
            monitor,
            None,
            &info.snapshot.root,
            &mut |change| match change.new {
                Some(TreeEntry {
                    kind: EntryKind::File(content),
                    ..
                }) if lost.contains(change.path) => {
                    Items::new(&reader, content).try_for_each(|item| item.map(&mut *need))
                }
                _ => Ok(()),
            },
        )
    }

    fn copy_of(&self, source: &SnapshotInfo) -> Option<&SnapshotInfo> {
        self.here.iter().find(|here| is_copy(source, here))
    }

    fn one(&mut self, source: &SnapshotInfo) -> Result<CopyOutcome> {
        if let Some(copy) = self.copy_of(source) {
            return Ok(CopyOutcome::IsThere(copy.id));
        }
        if self.options.dry_run {
            return Ok(CopyOutcome::WouldBeCopied);
        }
        let mut stored = self.store(source);
        if stored.as_ref().is_err_and(is_of_reading) {
            if !self.source.has_snapshot(source.id)? {
                return Ok(CopyOutcome::Forgotten);
            }
            // A prune of the source may have moved what was to be read.
            self.source.refresh();
            self.reader = self.source.bulk_reader_ahead(&self.source.loaded()?);
            stored = self.store(source);
        }
        match stored {
            Ok(summary) => match summary.id.filter(|_| summary.skipped) {
                // Another process was faster.
                Some(id) => Ok(CopyOutcome::IsThere(id)),
                None => Ok(CopyOutcome::Copied(Box::new(summary))),
            },
            Err(error) if !is_of_reading(&error) => Err(error),
            Err(error) => match self.source.has_snapshot(source.id)? {
                true => Ok(CopyOutcome::Failed(error)),
                false => Ok(CopyOutcome::Forgotten),
            },
        }
    }

    /// Stores a copy, again if a pruner ends the session.
    fn store(&mut self, source: &SnapshotInfo) -> Result<BackupSummary> {
        loop {
            let earlier = self.earlier(source);
            let copy = CopySource {
                reader: &self.reader,
                root: source.snapshot.root.clone(),
                earlier: earlier.map(|(there, here)| (there.snapshot.root.clone(), here.snapshot.root.clone())),
                chunk_max: self.source.chunker.size_max(),
                shares_ids: self.shares_ids(),
                moves: self.moves().then_some(&self.sketches),
                ahead: AtomicU64::new(0),
                leaves_out_lost: false,
            };
            let earlier = earlier.map(|(_, here)| here.id);
            let snapshot = self.snapshot_of(source);
            let threads = self
                .options
                .threads
                .or_else(|| Some(crate::threads::cores()))
                .map(|threads| threads.min(self.source.readers_max(&self.reader.loaded)));
            let options = BackupOptions::default()
                .program(self.options.program.as_str())
                .compression(self.options.compression)
                .similarity(self.options.similarity)
                .hints(Hints::Off)
                .threads(threads);
            // Copies that come meanwhile stay in it: the next one is compared with them, and comes after them.
            let mut here = std::mem::take(&mut self.here);
            let derived = Derived {
                source: copy,
                earlier,
                snapshot: &snapshot,
                loses_files: false,
                action: "copy",
                seen: &mut here,
                is_due: &|here, _| match here.iter().find(|here| is_copy(source, here)) {
                    Some(copy) => Ok(Due::IsThere(copy.id)),
                    None => Ok(Due::Yes),
                },
            };
            let stored = self.destination.store_derived(derived, &options);
            self.here = here;
            match stored? {
                Some(summary) => return Ok(summary),
                None => self.destination.monitor.warn(Warning::BackupBeginsAgain),
            }
        }
    }

    /// Returns a snapshot of the source and its copy, that are of the same machine and paths: the last before this
    /// one, or the first after it.
    fn earlier(&self, source: &SnapshotInfo) -> Option<(&SnapshotInfo, &SnapshotInfo)> {
        self.like(source).find_map(|there| Some((there, self.copy_of(there)?)))
    }

    /// Returns the other snapshots of the source that are of the same machine and paths: those before this one, the
    /// last of them first, and those after it.
    fn like(&self, source: &SnapshotInfo) -> impl Iterator<Item = &SnapshotInfo> {
        let alike = |there: &&SnapshotInfo| {
            (&there.snapshot.host, &there.snapshot.paths) == (&source.snapshot.host, &source.snapshot.paths)
        };
        let is_before = |there: &&SnapshotInfo| order(there) < order(source);
        let before = self.there.iter().rev().filter(is_before);
        let after = self.there.iter().filter(|there| order(there) > order(source));
        before.chain(after).filter(alike)
    }

    /// Returns what the copy is to be, apart from its root.
    fn snapshot_of(&self, source: &SnapshotInfo) -> Snapshot {
        let parent = source.snapshot.parent.and_then(|parent| {
            let first = self
                .there
                .iter()
                .find(|info| info.id == parent)
                .map_or(parent, first_id);
            self.here.iter().find(|here| first_id(here) == first)
        });
        Snapshot {
            sequence: self.sequence(source),
            parent: parent.map(|here| here.id),
            original: Some(first_id(source)),
            ..source.snapshot.clone()
        }
    }

    /// Returns the place of a copy: that of its time, but after the copies of all that come before it in the source.
    fn sequence(&self, source: &SnapshotInfo) -> u64 {
        let time = source.snapshot.time;
        let before: HashSet<FileId> = self
            .there
            .iter()
            .take_while(|there| order(there) < order(source))
            .map(first_id)
            .collect();
        let copies = self.here.iter().filter(|here| before.contains(&first_id(here)));
        let last = copies.map(|here| (here.snapshot.sequence, here.snapshot.time)).max();
        let wanted = next_sequence(&self.here, Some(time));
        match last {
            Some((sequence, last)) if (wanted, time) <= (sequence, last) => {
                sequence.saturating_add(u64::from(time <= last))
            }
            _ => wanted,
        }
    }
}

/// Returns whether something that was to be copied can't be read. If the destination can't be written to, no other
/// snapshot can be copied, either.
fn is_of_reading(error: &Error) -> bool {
    let is_of_writing = |error: &StorageError| !matches!(error.operation(), Operation::Get | Operation::ReadAt);
    error.is_fault() && !matches!(error, Error::Storage(error) if is_of_writing(error))
}

/// Returns whether two snapshots of two repositories have the same files.
fn is_copy(there: &SnapshotInfo, here: &SnapshotInfo) -> bool {
    // Of one original there may be several, if files were left out of one.
    let files = |info: &SnapshotInfo| {
        let counters = info.snapshot.counters;
        [counters.files, counters.directories, counters.others, counters.bytes]
    };
    let (a, b) = (&there.snapshot, &here.snapshot);
    first_id(there) == first_id(here)
        && (a.time, &a.host, &a.paths) == (b.time, &b.host, &b.paths)
        && files(there) == files(here)
}
