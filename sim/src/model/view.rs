//! What a writer, a pruner or a reader knows of the packs.

use std::collections::{BTreeMap, BTreeSet};

use super::log::{self, State};
use super::world::{Chunks, Folder, Frame, Id, Object, Shared, World, get, list, settle};

/// Frames that can be decoded, as far as is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) state: State,
    pub(crate) packs: BTreeMap<Id, Vec<Frame>>,
    /// Frames that count, by pack and position.
    pub(crate) frames: BTreeSet<(Id, usize)>,
    /// Index files, and whether all that they list counts.
    pub(crate) files: BTreeMap<Id, (Vec<Id>, bool)>,
    /// Packs that no trusted index file lists.
    pub(crate) unlisted: BTreeSet<Id>,
}

pub(crate) fn bits(chunks: Chunks) -> impl Iterator<Item = u8> {
    (0..8).filter(move |bit| chunks & (1 << bit) != 0)
}

impl View {
    /// Reads the log, the index and the packs. Writers and pruners leave out condemned packs.
    pub(crate) async fn load(world: &Shared, is_reader: bool) -> View {
        'again: loop {
            let mut view = View {
                state: log::head(world).await,
                ..View::default()
            };
            let mut listed = BTreeSet::new();
            let trusts_all = !world.borrow().has("trust");
            for file in list(world, Folder::Index).await {
                let Some(Object::Index { epoch, packs }) = get(world, (Folder::Index, file)).await else {
                    continue 'again;
                };
                let is_trusted = trusts_all || view.state.trusts(file, epoch);
                if is_trusted {
                    listed.extend(packs.iter().copied());
                }
                view.files.insert(file, (packs, is_trusted));
            }
            let is_missing = !is_reader && world.borrow().has("condemned-is-missing");
            let bad: BTreeSet<Id> = match is_missing {
                true => view.state.condemned().union(&view.state.doomed).copied().collect(),
                false => view.state.doomed.clone(),
            };
            let mut suspects = Vec::new();
            for pack in list(world, Folder::Packs).await {
                if bad.contains(&pack) {
                    continue;
                }
                // In the program, what a trusted index file lists is not read.
                let Some(Object::Pack(frames)) = get(world, (Folder::Packs, pack)).await else {
                    continue;
                };
                for (at, frame) in frames.iter().enumerate() {
                    if listed.contains(&pack) {
                        view.frames.insert((pack, at));
                    } else {
                        suspects.push((frame.depth, pack, at));
                    }
                }
                if !listed.contains(&pack) {
                    view.unlisted.insert(pack);
                }
                view.packs.insert(pack, frames);
            }
            let closure = world.borrow().has("closure");
            suspects.sort_unstable();
            for (depth, pack, at) in suspects {
                let bases = view.packs[&pack][at].bases;
                if !closure || bits(bases).all(|base| view.best(base, Some(depth)).is_some()) {
                    view.frames.insert((pack, at));
                }
            }
            // An index file that was not trusted can be once all that it lists counts.
            let known = std::mem::take(&mut view.files)
                .into_iter()
                .map(|(file, (packs, is_trusted))| {
                    let counts = packs.iter().all(|pack| view.is_whole(*pack));
                    (file, (packs, is_trusted || counts))
                });
            view.files = known.collect();
            return view;
        }
    }

    /// Loads a view that a writer or a pruner can rely on: what others have stored of it is durable.
    pub(crate) async fn load_settled(world: &Shared, is_reader: bool) -> View {
        'again: loop {
            let view = View::load(world, is_reader).await;
            if !log::is_settled(world, &view.state).await {
                continue;
            }
            for pack in &view.unlisted {
                if !settle(world, (Folder::Packs, *pack)).await {
                    continue 'again;
                }
            }
            return view;
        }
    }

    /// Returns whether all frames of a pack count.
    pub(crate) fn is_whole(&self, pack: Id) -> bool {
        let count = self.packs.get(&pack).map_or(0, Vec::len);
        (0..count).all(|at| self.frames.contains(&(pack, at))) && count > 0
    }

    pub(crate) fn frame(&self, (pack, at): (Id, usize)) -> Frame {
        self.packs[&pack][at]
    }

    /// Returns the least deep frame that has a chunk; below a depth, if one is given.
    pub(crate) fn best(&self, chunk: u8, below: Option<u8>) -> Option<(Id, usize)> {
        let has = |at: &&(Id, usize)| self.frame(**at).chunks & (1 << chunk) != 0;
        let best = self
            .frames
            .iter()
            .filter(has)
            .min_by_key(|at| (self.frame(**at).depth, **at));
        best.copied()
            .filter(|at| below.is_none_or(|below| self.frame(*at).depth < below))
    }

    pub(crate) fn chunks(&self) -> Chunks {
        self.frames.iter().fold(0, |all, at| all | self.frame(*at).chunks)
    }

    /// Returns the view without these packs.
    pub(crate) fn without(&self, packs: &BTreeSet<Id>) -> View {
        let mut view = self.clone();
        view.frames.retain(|(pack, _)| !packs.contains(pack));
        view
    }
}

/// Returns those of `packs` that can go: what stays has all chunks that are needed, and the bases of all
/// its frames.
pub(crate) fn can_go(world: &World, view: &View, needed: Chunks, mut packs: BTreeSet<Id>) -> BTreeSet<Id> {
    let (less_deep, bases_stay) = (world.has("less-deep"), world.has("bases-stay"));
    loop {
        let stays = view.without(&packs);
        // Frames that chunks which are needed are decoded from.
        let mut read = BTreeSet::new();
        let mut keep = BTreeSet::new();
        let mut todo: Vec<(u8, Option<u8>)> = bits(needed).map(|chunk| (chunk, None)).collect();
        if bases_stay {
            for at in &stays.frames {
                let frame = stays.frame(*at);
                todo.extend(bits(frame.bases).map(|base| (base, less_deep.then_some(frame.depth))));
            }
        }
        while let Some((chunk, below)) = todo.pop() {
            let found = stays.best(chunk, below).or_else(|| {
                let found = view.best(chunk, below)?;
                keep.insert(found.0);
                Some(found)
            });
            if let Some(at) = found
                && read.insert(at)
            {
                let frame = view.frame(at);
                todo.extend(bits(frame.bases).map(|base| (base, less_deep.then_some(frame.depth))));
            }
        }
        let before = packs.len();
        packs.retain(|pack| !keep.contains(pack));
        if packs.len() == before {
            return packs;
        }
    }
}

/// Returns the chunks that can be read from what is stored, by somebody who tries all frames.
pub(crate) fn readable(world: &World) -> Chunks {
    let mut frames: Vec<Frame> = Vec::new();
    for (_, object) in world.folder(Folder::Packs) {
        if let Object::Pack(pack) = object {
            frames.extend(pack);
        }
    }
    frames.sort_by_key(|frame| frame.depth);
    let (mut readable, mut less_deep, mut depth) = (0, 0, 0);
    for frame in frames {
        if frame.depth > depth {
            (less_deep, depth) = (readable, frame.depth);
        }
        if frame.bases & !less_deep == 0 {
            readable |= frame.chunks;
        }
    }
    readable
}

/// Returns the number of packs that could go.
pub(crate) fn garbage(world: &World) -> u64 {
    let mut view = View::default();
    let mut needed = 0;
    for (id, object) in world.folder(Folder::Packs) {
        if let Object::Pack(frames) = object {
            view.frames.extend((0..frames.len()).map(|at| (id, at)));
            view.packs.insert(id, frames.clone());
        }
    }
    for (_, object) in world.folder(Folder::Snapshots) {
        if let Object::Snapshot(chunks) = object {
            needed |= chunks;
        }
    }
    let all: BTreeSet<Id> = view.packs.keys().copied().collect();
    let one_by_one = all
        .into_iter()
        .filter(|pack| !can_go(world, &view, needed, BTreeSet::from([*pack])).is_empty());
    one_by_one.count() as u64
}
