//! Finds chunks that a prune has moved since the index was loaded, and says which it has freed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ibid_format::ChunkId;
use ibid_storage::{ErrorKind, Operation};

use super::cache::FrameCache;
use super::reader::ChunkReader;
use super::verified::Verified;
use crate::index::{LoadedIndex, NumberSet, View};
use crate::layout::{folder, name_in};
use crate::prune::PruneState;
use crate::prune::rules::{self, Rule};
use crate::threads::lock;
use crate::{Error, Repository, Result, StorageError};

/// Part of the cache's memory that notes which bases were compared with their ids: one in so many.
const VERIFIED_SHARE: u64 = 64;
/// The least, bytes: bases of one frame.
const VERIFIED_MIN: u64 = 64 << 10;
/// Times that a chunk is looked for again while prunes run.
const LOOKS_MAX: usize = 5;
/// The least cache of decoded frames in a reader of what was moved, bytes.
const MOVED_CACHE_MIN: u64 = 8 << 20;

/// What prunes have done since an index was loaded.
#[derive(Default)]
pub(super) struct Since {
    /// Where everything is now. None as long as nothing was looked for in vain, or no prune has gone on.
    fresh: Option<Fresh>,
    /// Whether no prune had gone on when something was not found there. Then what it lacks was freed, and is not looked
    /// for again.
    is_settled: bool,
    /// Frames of which a chunk was found elsewhere: they are not asked for again.
    moved: NumberSet,
    /// Packs that are gone: they are not asked for again.
    gone: NumberSet,
    /// Frames of which a chunk could be read nowhere.
    lost: NumberSet,
}

impl Since {
    /// Returns whether a chunk was freed.
    fn is_freed(&self, id: &ChunkId) -> bool {
        let fresh = self.fresh.as_ref().filter(|_| self.is_settled);
        fresh.is_some_and(|fresh| !fresh.loaded.index.contains(id))
    }

    /// Returns whether nothing of a frame was found when it was looked for. Of one that was moved, parts may be freed.
    fn is_lost(&self, frame: u32) -> bool {
        self.lost.contains(frame) && !self.moved.contains(frame)
    }
}

/// Where everything is after a prune, and frames that were read from there.
#[derive(Clone)]
pub(super) struct Fresh {
    pub(super) loaded: Arc<LoadedIndex>,
    pub(super) cache: Arc<FrameCache>,
    pub(super) verified: Arc<Verified>,
}

impl Fresh {
    /// Makes room for about `budget` bytes of frames.
    pub(super) fn new(loaded: Arc<LoadedIndex>, budget: u64) -> Fresh {
        Fresh {
            loaded,
            cache: Arc::new(FrameCache::new(budget - budget / VERIFIED_SHARE)),
            verified: Arc::new(Verified::new((budget / VERIFIED_SHARE).max(VERIFIED_MIN))),
        }
    }

    fn is_same(&self, other: &Fresh) -> bool {
        Arc::ptr_eq(&self.loaded, &other.loaded)
    }
}

impl<'a> ChunkReader<'a> {
    /// Returns whether a chunk of the same frame was found elsewhere.
    pub(super) fn was_moved(&self, id: &ChunkId) -> bool {
        self.has_changed.load(Ordering::Relaxed)
            && self
                .loaded
                .index
                .get(id)
                .is_some_and(|place| lock(&self.since).moved.contains(place.frame))
    }

    /// Reads a chunk whose frame can't be read from where it is now. Returns whether a prune has moved it.
    ///
    /// # Errors
    /// [`Error::ChunkFreed`] if it is nowhere now.
    pub(crate) fn read_moved(&self, id: &ChunkId, length: u32, out: &mut Vec<u8>) -> Result<bool> {
        let Some(repository) = self.again.filter(|_| rules::holds(Rule::Reload)) else {
            return Ok(false);
        };
        if lock(&self.since).is_freed(id) {
            return Err(Error::ChunkFreed { id: *id });
        }
        let frame = self.loaded.index.get(id).map(|place| place.frame);
        let start = out.len();
        let mut tried: Option<Fresh> = None;
        for _ in 0..=LOOKS_MAX {
            let known = lock(&self.since).fresh.clone().filter(|_| tried.is_none());
            let fresh = match known {
                Some(fresh) => fresh,
                None if frame.is_some_and(|frame| lock(&self.since).is_lost(frame)) => break,
                None => match self.reload(repository)? {
                    Some(fresh) if tried.as_ref().is_none_or(|tried| !tried.is_same(&fresh)) => fresh,
                    // Nothing has changed since it was looked for.
                    fresh => {
                        lock(&self.since).is_settled |= fresh.is_some();
                        break;
                    }
                },
            };
            // Nothing is fetched ahead there. So this machine keeps what several frames may need.
            let mut reader = ChunkReader::of(self.files, fresh.clone());
            reader.keeps_fetched = self.keeps_fetched || self.fetches_ahead();
            match reader.read_here(id, length, out) {
                Err(error) if error.is_fault() => out.truncate(start),
                read => {
                    if let Some(frame) = frame {
                        lock(&self.since).moved.insert(frame);
                        self.has_changed.store(true, Ordering::Relaxed);
                    }
                    return read.map(|()| true);
                }
            }
            tried = Some(fresh);
        }
        if let Some(frame) = frame {
            lock(&self.since).lost.insert(frame);
        }
        match tried {
            Some(fresh) if !fresh.loaded.index.contains(id) => Err(Error::ChunkFreed { id: *id }),
            _ => Ok(false),
        }
    }

    /// Returns where everything is now; `None` if no prune has gone on since the index was loaded.
    fn reload(&self, repository: &Repository) -> Result<Option<Fresh>> {
        let number = PruneState::read(self.files)?.number;
        let mut since = lock(&self.since);
        let known = since.fresh.as_ref().map_or(&self.loaded, |fresh| &fresh.loaded);
        if known.state.number != number {
            // What the cache has is of use until the last frames before the prune are done with. The one before this
            // makes room first.
            let room = match since.fresh.take() {
                Some(_) => self.cache.budget(),
                None => self.cache.budget() / 2,
            };
            self.cache.limit(room);
            let loaded = Arc::new(LoadedIndex::load(repository, View::Reader)?);
            since.fresh = Some(Fresh::new(loaded, room.max(MOVED_CACHE_MIN)));
            since.is_settled = false;
        }
        Ok(since.fresh.clone())
    }

    /// Returns the error that asking for a pack would have, if it is known to be gone.
    pub(super) fn check_not_gone(&self, pack: u32) -> Result<()> {
        if self.has_changed.load(Ordering::Relaxed) && lock(&self.since).gone.contains(pack) {
            let name = name_in(folder::PACKS, self.loaded.index.pack(pack).id);
            let location = self.files.storage.location();
            return Err(StorageError::new(ErrorKind::NotFound, Operation::ReadAt, Some(&name), location).into());
        }
        Ok(())
    }

    /// Notes that a pack is gone, if this is why it could not be read.
    pub(super) fn note_gone(&self, pack: u32, error: &Error) {
        if let Error::Storage(error) = error
            && error.kind() == ErrorKind::NotFound
        {
            lock(&self.since).gone.insert(pack);
            self.has_changed.store(true, Ordering::Relaxed);
        }
    }
}
