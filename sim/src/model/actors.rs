//! Those who use the storage.

use std::collections::BTreeSet;

use super::log::{self, Batch, State};
use super::view::{View, bits, can_go};
use super::world::{Chunks, Folder, Frame, Id, Name, Object, Put, Shared, delete, get, list, put, settle, turn};

const DEPTH_MAX: u8 = 3;

/// Backs something up.
pub(crate) async fn writer(world: Shared) {
    let wanted: Chunks = {
        let random = &mut world.borrow_mut().random;
        (random.below(255) as u8 + 1) & random.below(256) as u8 | 1 << random.below(8)
    };
    loop {
        let session = world.borrow_mut().new_id();
        let session_first = world.borrow().has("session-first");
        if session_first && !puts_session(&world, session).await {
            return;
        }
        let view = View::load_settled(&world, false).await;
        if !session_first && !puts_session(&world, session).await {
            return;
        }
        let Some(index) = stores(&world, view, wanted).await else {
            return;
        };
        match ends(&world, session, wanted, index).await {
            End::Acknowledged | End::Failed => return,
            End::Voided => {}
        }
        if !world.borrow().has("walk-again") {
            // A new session, and nothing else.
            let session = world.borrow_mut().new_id();
            if puts_session(&world, session).await {
                ends(&world, session, wanted, None).await;
            }
            return;
        }
    }
}

async fn puts_session(world: &Shared, session: Id) -> bool {
    matches!(
        put(world, (Folder::Sessions, session), Object::Session).await,
        Put::Stored
    )
}

/// The epoch of an index file that a backup is to write, and the packs that it lists.
type NewIndex = (Id, Vec<Id>);

/// Stores the chunks that are not there yet. Returns an index file to write of them, if there is one; `None` if an
/// answer is lost: the backup fails.
async fn stores(world: &Shared, view: View, wanted: Chunks) -> Option<Option<NewIndex>> {
    let epoch = view.state.number;
    // What no index file lists is listed, if all of it counts.
    let any = !world.borrow().has("whole");
    let whole: Vec<Id> = view
        .unlisted
        .iter()
        .copied()
        .filter(|pack| any || view.is_whole(*pack))
        .collect();
    if !whole.is_empty() && !puts_index(world, epoch, whole).await {
        return None;
    }
    let mut view = view;
    let mut new: Vec<Frame> = Vec::new();
    let mut packs = Vec::new();
    for chunk in bits(wanted) {
        if view.chunks() & (1 << chunk) != 0 {
            continue;
        }
        let near: Vec<(u8, u8)> = (0..8)
            .filter_map(|base| Some((base, view.frame(view.best(base, None)?).depth)))
            .filter(|(_, depth)| *depth < DEPTH_MAX)
            .collect();
        let (base, flushes) = {
            let random = &mut world.borrow_mut().random;
            let has_base = !near.is_empty() && random.below(5) > 0;
            let base = has_base.then(|| near[random.below(near.len() as u64) as usize]);
            (base, random.below(10) < 7)
        };
        new.push(Frame {
            chunks: 1 << chunk,
            bases: base.map_or(0, |(base, _)| 1 << base),
            depth: base.map_or(0, |(_, depth)| depth + 1),
        });
        if flushes {
            let id = world.borrow_mut().new_id();
            if !puts_pack(world, id, &new).await {
                return None;
            }
            for at in 0..new.len() {
                view.frames.insert((id, at));
            }
            view.packs.insert(id, std::mem::take(&mut new));
            packs.push(id);
        }
    }
    if !new.is_empty() {
        let id = world.borrow_mut().new_id();
        if !puts_pack(world, id, &new).await {
            return None;
        }
        packs.push(id);
    }
    let is_killed = world.borrow_mut().chance(5);
    let index = (!packs.is_empty()).then_some((epoch, packs));
    (index.is_none() || !is_killed).then_some(index)
}

async fn puts_pack(world: &Shared, id: Id, frames: &[Frame]) -> bool {
    matches!(
        put(world, (Folder::Packs, id), Object::Pack(frames.to_vec())).await,
        Put::Stored
    )
}

async fn puts_index(world: &Shared, epoch: Id, packs: Vec<Id>) -> bool {
    let id = world.borrow_mut().new_id();
    matches!(
        put(world, (Folder::Index, id), Object::Index { epoch, packs }).await,
        Put::Stored
    )
}

enum End {
    Acknowledged,
    Voided,
    Failed,
}

/// Puts something again after a while: others do much until a laptop is opened again.
async fn puts_later(world: &Shared, name: Name, object: Object) -> Put {
    let pause = world.borrow_mut().random.below(300);
    for _ in 0..pause {
        turn().await;
    }
    put(world, name, object).await
}

/// When a backup's index file arrives: both are on their way at once.
#[derive(Clone, Copy, PartialEq)]
enum Arrives {
    BeforeSnapshot,
    AfterSnapshot,
    AfterSession,
}

/// Puts the snapshot and the index file, and ends the session.
async fn ends(world: &Shared, session: Id, wanted: Chunks, mut index: Option<NewIndex>) -> End {
    let arrives = match world.borrow_mut().random.below(3) {
        0 => Arrives::BeforeSnapshot,
        1 => Arrives::AfterSnapshot,
        _ => Arrives::AfterSession,
    };
    if arrives == Arrives::BeforeSnapshot
        && let Some((epoch, packs)) = index.take()
        && !puts_index(world, epoch, packs).await
    {
        return End::Failed;
    }
    let end = puts_snapshot(world, session, wanted).await;
    if let End::Failed = end {
        return end;
    }
    if arrives != Arrives::AfterSession {
        // Without an answer, the backup has succeeded all the same.
        if let Some((epoch, packs)) = index.take() {
            puts_index(world, epoch, packs).await;
        }
        if let End::Acknowledged = end {
            merges(world).await;
        }
    }
    delete(world, (Folder::Sessions, session)).await;
    if let Some((epoch, packs)) = index {
        puts_index(world, epoch, packs).await;
    }
    end
}

/// Returns whether a snapshot is there, and durable.
async fn is_stored(world: &Shared, name: Name, wanted: Chunks) -> bool {
    settle(world, name).await && get(world, name).await == Some(Object::Snapshot(wanted))
}

/// Puts the snapshot.
async fn puts_snapshot(world: &Shared, session: Id, wanted: Chunks) -> End {
    let name = (Folder::Snapshots, session);
    let (gives_up, sends_again) = {
        let world = &mut world.borrow_mut();
        (world.chance(50), world.chance(50))
    };
    let stored = match put(world, name, Object::Snapshot(wanted)).await {
        Put::Stored => true,
        // It may arrive any time: the session stays open.
        Put::Unknown if gives_up => return End::Failed,
        Put::Unknown if sends_again => match puts_later(world, name, Object::Snapshot(wanted)).await {
            Put::Stored => {
                let looks_back = world.borrow().has("look-back");
                if looks_back && get(world, (Folder::Sessions, session)).await.is_none() {
                    // The first one had arrived, and was forgotten.
                    delete(world, name).await;
                    return End::Voided;
                }
                true
            }
            Put::Unknown => return End::Failed,
            Put::Taken => is_stored(world, name, wanted).await,
        },
        Put::Unknown | Put::Taken => is_stored(world, name, wanted).await,
    };
    if !stored && world.borrow().has("fence") {
        return match get(world, name).await {
            None => End::Failed,
            Some(_) => End::Voided,
        };
    }
    world.borrow_mut().acknowledged.insert(session, wanted);
    End::Acknowledged
}

/// Makes one index file of all that are trusted.
async fn merges(world: &Shared) {
    if !world.borrow_mut().chance(30) {
        return;
    }
    let state = log::settled(world).await;
    let (mut all, mut files) = (BTreeSet::new(), Vec::new());
    for file in list(world, Folder::Index).await {
        match get(world, (Folder::Index, file)).await {
            Some(Object::Index { epoch, packs }) if state.trusts(file, epoch) => {
                all.extend(packs);
                files.push(file);
            }
            Some(_) => {}
            None => return,
        }
    }
    if files.len() > 1 && puts_index(world, state.number, all.into_iter().collect()).await {
        for file in files {
            delete(world, (Folder::Index, file)).await;
        }
    }
}

/// Deletes snapshots now and then, also those whose backups do not know yet that they are stored.
pub(crate) async fn forgetter(world: Shared) {
    for _ in 0..3 {
        if world.borrow_mut().chance(30) {
            let listed: Vec<Id> = list(&world, Folder::Snapshots).await.into_iter().collect();
            let mut world = world.borrow_mut();
            if !listed.is_empty() {
                let at = world.random.below(listed.len() as u64) as usize;
                world.forget_listed(listed[at]);
            }
        }
        let live: Vec<Id> = {
            let world = world.borrow();
            let live = world.acknowledged.keys().filter(|id| !world.forgotten.contains(id));
            live.copied().collect()
        };
        if !live.is_empty() {
            let at = world.borrow_mut().random.below(live.len() as u64);
            let id = live[at as usize];
            world.borrow_mut().forgotten.insert(id);
            delete(&world, (Folder::Snapshots, id)).await;
        }
        let pause = world.borrow_mut().random.below(20);
        for _ in 0..pause {
            turn().await;
        }
    }
}

/// Reads a snapshot, frame by frame.
pub(crate) async fn reader(world: Shared) {
    let chosen = {
        let mut world = world.borrow_mut();
        let live: Vec<_> = world
            .acknowledged
            .iter()
            .filter(|(id, _)| !world.is_forgotten(**id))
            .map(|(id, chunks)| (*id, *chunks))
            .collect();
        match live.len() {
            0 => return,
            count => live[world.random.below(count as u64) as usize],
        }
    };
    let (id, wanted) = chosen;
    let mut view = View::load(&world, true).await;
    for chunk in bits(wanted) {
        let mut tries = 0;
        while !reads(&world, &view, chunk).await {
            tries += 1;
            if tries > 5 || !world.borrow().has("reload") {
                let mut world = world.borrow_mut();
                if !world.is_forgotten(id) {
                    world.failed_read = Some(format!("chunk {chunk} of snapshot {id} can't be read"));
                }
                return;
            }
            view = View::load(&world, true).await;
        }
    }
    world.borrow_mut().read += 1;
}

/// Reads a chunk with all that it is decoded from.
async fn reads(world: &Shared, view: &View, chunk: u8) -> bool {
    let mut todo = vec![(chunk, None)];
    while let Some((chunk, below)) = todo.pop() {
        let Some(at) = view.best(chunk, below) else {
            return false;
        };
        if get(world, (Folder::Packs, at.0)).await.is_none() {
            return false;
        }
        let frame = view.frame(at);
        todo.extend(bits(frame.bases).map(|base| (base, Some(frame.depth))));
    }
    true
}

/// Frees what no snapshot needs.
pub(crate) async fn pruner(world: Shared) {
    let rounds = 1 + world.borrow_mut().random.below(3);
    for _ in 0..rounds {
        let moved = repacks(&world).await;
        let mut none_open = None;
        if !condemns(&world, moved).await || !sees(&world, &mut none_open).await {
            return;
        }
        if !dooms(&world, none_open).await {
            return;
        }
        sweeps(&world).await;
    }
}

/// Copies some frames, some against other bases. Returns the packs that may go because of it.
async fn repacks(world: &Shared) -> BTreeSet<Id> {
    if !world.borrow_mut().chance(60) {
        return BTreeSet::new();
    }
    let view = View::load_settled(world, false).await;
    let mut moved = Vec::new();
    let mut from = BTreeSet::new();
    for &at in &view.frames {
        let frame = view.frame(at);
        let mut world = world.borrow_mut();
        let is_best = bits(frame.chunks).any(|chunk| view.best(chunk, None) == Some(at));
        if !is_best || !world.chance(50) {
            continue;
        }
        let near = bits(view.chunks() & !frame.chunks);
        let near: Vec<(u8, u8)> = near
            .filter_map(|base| Some((base, view.frame(view.best(base, Some(frame.depth))?).depth)))
            .collect();
        moved.push(match near.len() {
            // As it is, or against something that is not deeper than the base was.
            count if count > 0 && frame.depth > 0 && world.chance(50) => {
                let (base, depth) = near[world.random.below(count as u64) as usize];
                Frame {
                    bases: 1 << base,
                    depth: depth + 1,
                    ..frame
                }
            }
            _ => frame,
        });
        from.insert(at.0);
    }
    if moved.is_empty() {
        return BTreeSet::new();
    }
    let id = world.borrow_mut().new_id();
    if !puts_pack(world, id, &moved).await || !puts_index(world, view.state.number, vec![id]).await {
        return BTreeSet::new();
    }
    from
}

async fn needed(world: &Shared) -> Chunks {
    let mut needed = 0;
    for id in list(world, Folder::Snapshots).await {
        if let Some(Object::Snapshot(chunks)) = get(world, (Folder::Snapshots, id)).await {
            needed |= chunks;
        }
    }
    needed
}

/// Returns what is there, and what snapshots need of it: listed in any order.
async fn looks(world: &Shared, is_reader: bool) -> (View, Chunks) {
    if world.borrow_mut().chance(50) {
        let needed = needed(world).await;
        return (View::load_settled(world, is_reader).await, needed);
    }
    let view = View::load_settled(world, is_reader).await;
    (view, needed(world).await)
}

/// Condemns what nobody needs, and what may go after its frames were copied. Returns false if the pruner
/// gives up.
async fn condemns(world: &Shared, moved: BTreeSet<Id>) -> bool {
    for _ in 0..5 {
        let early = list(world, Folder::Sessions).await;
        let (view, needed) = looks(world, false).await;
        let condemned = view.state.condemned();
        let all: BTreeSet<Id> = view
            .packs
            .keys()
            .filter(|pack| !condemned.contains(pack))
            .copied()
            .collect();
        // First those that were copied from: otherwise the copies would go.
        let mut what = can_go(
            &world.borrow(),
            &view,
            needed,
            moved.intersection(&all).copied().collect(),
        );
        for pack in all {
            let mut more = what.clone();
            if more.insert(pack) && can_go(&world.borrow(), &view, needed, more.clone()).len() == more.len() {
                what = more;
            }
        }
        let verified = view
            .files
            .iter()
            .filter(|(_, (_, counts))| *counts)
            .map(|(file, _)| *file)
            .collect();
        let listed: BTreeSet<Id> = view.files.values().flat_map(|(packs, _)| packs).copied().collect();
        let stored = list(world, Folder::Packs).await;
        let mut state = State {
            fence: view.state.number + 1,
            verified,
            ..view.state.clone()
        };
        // What is deleted, and in no index file any more.
        state
            .doomed
            .retain(|pack| listed.contains(pack) || stored.contains(pack));
        if what.is_empty() {
            return true;
        }
        let seen = (!world.borrow().has("seen-later")).then_some(early);
        state.batches.push(Batch { packs: what, seen });
        if log::append(world, &view.state, state).await {
            return true;
        }
    }
    false
}

/// Notes which sessions are open. If none is, `none_open` is the last entry, and nothing is noted.
async fn sees(world: &Shared, none_open: &mut Option<State>) -> bool {
    for _ in 0..5 {
        let before = log::settled(world).await;
        if before.batches.iter().all(|batch| batch.seen.is_some()) {
            return true;
        }
        let open = list(world, Folder::Sessions).await;
        if open.is_empty() {
            *none_open = Some(before);
            return true;
        }
        let mut state = before.clone();
        for batch in &mut state.batches {
            batch.seen.get_or_insert_with(|| open.clone());
        }
        if log::append(world, &before, state).await {
            return true;
        }
    }
    false
}

/// Dooms condemned packs once all sessions that were seen have ended; those that are needed after all are
/// released. After the entry `none_open`, no session was open.
async fn dooms(world: &Shared, none_open: Option<State>) -> bool {
    for _ in 0..10 {
        let mut before = log::settled(world).await;
        if none_open.as_ref() == Some(&before) {
            for batch in &mut before.batches {
                batch.seen.get_or_insert_default();
            }
        }
        let mut open = BTreeSet::new();
        let seen: BTreeSet<Id> = before
            .batches
            .iter()
            .flat_map(|batch| batch.seen.iter().flatten())
            .copied()
            .collect();
        for session in seen {
            if get(world, (Folder::Sessions, session)).await.is_none() {
                continue;
            }
            let name = (Folder::Snapshots, session);
            if get(world, name).await.is_some() && settle(world, name).await {
                delete(world, (Folder::Sessions, session)).await;
                continue;
            }
            let waits = world.borrow_mut().chance(50);
            if waits {
                open.insert(session);
            } else if world.borrow().has("fence")
                && let Put::Unknown = put(world, (Folder::Snapshots, session), Object::Void).await
            {
                return false;
            }
        }
        let is_due = |batch: &&Batch| batch.seen.as_ref().is_some_and(|seen| seen.is_disjoint(&open));
        let due: BTreeSet<Id> = before
            .batches
            .iter()
            .filter(is_due)
            .flat_map(|batch| &batch.packs)
            .copied()
            .collect();
        if due.is_empty() {
            return true;
        }
        // All that is there, condemned packs too; but only those due may be released now.
        let (view, needed) = looks(world, true).await;
        if view.state.number != before.number {
            continue;
        }
        // No condemned pack has a copy that counts.
        let condemned = before.condemned();
        let go = match world.borrow().has("mark-again") {
            true => can_go(&world.borrow(), &view, needed, condemned.clone()),
            false => condemned.clone(),
        };
        let released: BTreeSet<Id> = condemned.difference(&go).copied().collect();
        let verified = view
            .files
            .iter()
            .filter(|(_, (_, counts))| *counts)
            .map(|(file, _)| *file)
            .collect();
        let mut state = State {
            verified,
            ..before.clone()
        };
        for batch in &mut state.batches {
            batch.packs.retain(|pack| !released.contains(pack));
            if batch.seen.as_ref().is_some_and(|seen| seen.is_disjoint(&open)) {
                state.doomed.append(&mut batch.packs);
            }
        }
        state.batches.retain(|batch| !batch.packs.is_empty());
        if log::append(world, &before, state).await {
            return true;
        }
    }
    false
}

/// Deletes what is doomed: from index files first.
async fn sweeps(world: &Shared) {
    let state = log::settled(world).await;
    for file in list(world, Folder::Index).await {
        let Some(Object::Index { epoch, mut packs }) = get(world, (Folder::Index, file)).await else {
            continue;
        };
        let is_trusted = state.trusts(file, epoch);
        let before = packs.len();
        packs.retain(|pack| !state.doomed.contains(pack));
        if is_trusted && packs.len() == before {
            continue;
        }
        if is_trusted && !packs.is_empty() && !puts_index(world, state.number, packs).await {
            return;
        }
        delete(world, (Folder::Index, file)).await;
    }
    for pack in state.doomed {
        if delete(world, (Folder::Packs, pack)).await {
            world.borrow_mut().freed += 1;
        }
    }
}
