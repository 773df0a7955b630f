//! Checks every tree of every snapshot: whether all chunks that its files need are stored.

use std::path::PathBuf;

use ibid_format::ChunkId;
use ibid_format::content::{Content, Item};
use ibid_format::run::ShortId;
use ibid_format::tree::EntryKind;

use super::checking::{Checking, Damage};
use super::report::{AFFECTED_MAX, Affected, CheckReport};
use crate::index::{IdMap, NumberSet};
use crate::read::ChunkReader;
use crate::scratch::Scratch;
use crate::tree::{Items, TreeStep, TreeWalk, content_key};
use crate::{Result, SnapshotInfo};

/// A set of ids.
pub(super) struct Ids(IdMap);

impl Ids {
    fn new(scratch: &Scratch) -> Ids {
        Ids(IdMap::new(scratch))
    }

    fn insert(&mut self, id: ShortId) -> Result<()> {
        match self.contains(id)? {
            true => Ok(()),
            false => self.0.insert(id, 0),
        }
    }

    pub(super) fn contains(&self, id: ShortId) -> Result<bool> {
        Ok(self.0.get(id)?.is_some())
    }
}

/// Chunks that snapshots need and the index does not know.
pub(super) struct Lost {
    pub(super) chunks: Ids,
    /// Whether there are any.
    pub(super) is_any: bool,
    /// Frames with chunks that snapshots need, and that can't be decoded because of a base.
    pub(super) frames: NumberSet,
    /// Whether something could not be read that may need other chunks too.
    pub(super) perhaps_more: bool,
}

impl Checking<'_> {
    /// Checks every tree of every snapshot; equal subtrees are read once if they are clean. Returns
    /// the chunks that are needed and lost.
    pub(super) fn trees(&self, snapshots: &[SnapshotInfo], report: &mut CheckReport) -> Result<Lost> {
        let reader = self.repository.tree_reader()?;
        let damage = std::mem::take(&mut *self.damage());
        let mut walk = TreeCheck {
            checking: self,
            reader: &reader,
            damage,
            clean: Ids::new(&self.scratch),
            lost: Lost {
                chunks: Ids::new(&self.scratch),
                is_any: false,
                frames: NumberSet::default(),
                perhaps_more: false,
            },
            report,
        };
        for info in snapshots {
            walk.snapshot(info)?;
        }
        Ok(walk.lost)
    }
}

struct TreeCheck<'a, 'r> {
    checking: &'a Checking<'a>,
    reader: &'r ChunkReader<'r>,
    damage: Damage,
    /// Keys of contents without faults: all their chunks, and for directories everything below, are
    /// present and intact.
    clean: Ids,
    lost: Lost,
    report: &'a mut CheckReport,
}

impl TreeCheck<'_, '_> {
    fn snapshot(&mut self, info: &SnapshotInfo) -> Result<()> {
        let root = &info.snapshot.root;
        let mut levels = vec![(self.key(root), true)];
        if self.clean.contains(levels[0].0)? {
            return Ok(());
        }
        let mut walk = TreeWalk::new(self.reader, root);
        while let Some(step) = walk.next() {
            self.checking.monitor.check_cancelled()?;
            match step {
                // The rest of this listing can't be read; entries read before are checked.
                Err(error) if error.is_fault() => {
                    levels.last_mut().expect("the root").1 = false;
                    self.lost.perhaps_more = true;
                    let problem = format!("the directory can't be read any further: {}", error.problem());
                    self.affected(info, walk.path().to_owned(), problem);
                }
                Err(error) => return Err(error),
                Ok(TreeStep::Leave) => self.leave(&mut levels)?,
                Ok(TreeStep::Entry(entry)) => match &entry.kind {
                    EntryKind::Directory(listing) => {
                        let key = self.key(listing);
                        if !self.clean.contains(key)? {
                            levels.push((key, true));
                            walk.descend(listing);
                        }
                    }
                    EntryKind::File(content) => {
                        if let Some(problem) = self.content(content)? {
                            levels.last_mut().expect("the root").1 = false;
                            self.affected(info, walk.path().to_owned(), problem);
                        }
                    }
                    _ => {}
                },
            }
        }
        self.leave(&mut levels)
    }

    fn leave(&mut self, levels: &mut Vec<(ShortId, bool)>) -> Result<()> {
        let (key, clean) = levels.pop().expect("descended before");
        if clean {
            self.clean.insert(key)?;
        } else if let Some((_, above)) = levels.last_mut() {
            *above = false;
        }
        Ok(())
    }

    /// Returns the key of a content: equal contents have equal keys.
    fn key(&self, content: &Content) -> ShortId {
        content_key(&self.checking.repository.files.keys, content)
    }

    /// Returns the fault of a content, if any.
    fn content(&mut self, content: &Content) -> Result<Option<String>> {
        let long = (content.depth > 0).then(|| self.key(content));
        if let Some(key) = long
            && self.clean.contains(key)?
        {
            return Ok(None);
        }
        let mut lost = 0u64;
        let mut first = None;
        for item in Items::new(self.reader, content) {
            match item {
                Ok(Item::Chunk { id, length }) => {
                    if let Some(problem) = self.chunk(&id)? {
                        lost += u64::from(length);
                        first.get_or_insert(problem);
                    }
                }
                Ok(Item::Hole { .. }) => {}
                Err(error) if error.is_fault() => {
                    self.lost.perhaps_more = true;
                    return Ok(Some(format!("its list of chunks can't be read: {}", error.problem())));
                }
                Err(error) => return Err(error),
            }
        }
        let Some(first) = first else {
            if let Some(key) = long {
                self.clean.insert(key)?;
            }
            return Ok(None);
        };
        Ok(Some(format!("{lost} of {} bytes are lost: {first}", content.length)))
    }

    /// Returns the fault of a chunk, if any.
    fn chunk(&mut self, id: &ChunkId) -> Result<Option<String>> {
        let index = &self.checking.loaded.index;
        let Some(place) = index.get_stored(id) else {
            self.lost.is_any = true;
            self.lost.chunks.insert(ShortId::of(id))?;
            return Ok(Some(format!("chunk {id} is missing")));
        };
        let problem = if self.damage.frames.contains(place.frame) || self.damage.is_wrong(index, place)? {
            "is damaged"
        } else if self.damage.dependents.contains(place.frame) {
            self.lost.frames.insert(place.frame);
            "is a delta against a chunk that is lost or damaged"
        } else {
            return Ok(None);
        };
        let pack = index.pack(index.frame(place.frame).pack).id;
        Ok(Some(format!("chunk {id} in pack {pack} {problem}")))
    }

    fn affected(&mut self, info: &SnapshotInfo, path: PathBuf, problem: String) {
        self.report.affected_total += 1;
        if self.report.affected.len() < AFFECTED_MAX {
            self.report.affected.push(Affected {
                snapshot: info.id,
                path,
                problem,
            });
        }
    }
}
