//! The storage, and what was acknowledged.

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::log::State;
use super::view;
use crate::support::Random;

pub(crate) type Shared = Rc<RefCell<World>>;
pub(crate) type Id = u32;

/// Chunks, as bits.
pub(crate) type Chunks = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) chunks: Chunks,
    pub(crate) bases: Chunks,
    pub(crate) depth: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Folder {
    Packs,
    Index,
    Snapshots,
    Sessions,
    Log,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Object {
    Pack(Vec<Frame>),
    /// An index file, and the number of the last entry of the log when its writer began.
    Index {
        epoch: Id,
        packs: Vec<Id>,
    },
    Snapshot(Chunks),
    /// A snapshot that ends a session.
    Void,
    Session,
    Log(State),
}

pub(crate) type Name = (Folder, Id);

pub(crate) enum Put {
    Stored,
    Taken,
    /// No answer came. It may have been stored, or be stored later.
    Unknown,
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) without: Option<&'static str>,
    store: BTreeMap<Name, Object>,
    /// Puts on their way, whose senders have given up.
    late: Vec<(Name, Object)>,
    /// Objects that others see, and that a loss of power may take back.
    unsettled: BTreeSet<Name>,
    /// How often the power was lost.
    losses_of_power: u32,
    faults: bool,
    next: Id,
    pub(crate) acknowledged: BTreeMap<Id, Chunks>,
    pub(crate) forgotten: BTreeSet<Id>,
    /// Snapshots that were deleted before they were acknowledged.
    deleted: BTreeSet<Id>,
    pub(crate) failed_read: Option<String>,
    pub(crate) freed: u64,
    pub(crate) read: u64,
}

impl World {
    pub(crate) fn new(seed: u64, without: Option<&'static str>) -> World {
        World {
            random: Random(seed),
            without,
            store: BTreeMap::new(),
            late: Vec::new(),
            unsettled: BTreeSet::new(),
            losses_of_power: 0,
            faults: true,
            next: 0,
            acknowledged: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            deleted: BTreeSet::new(),
            failed_read: None,
            freed: 0,
            read: 0,
        }
    }

    pub(crate) fn has(&self, rule: &str) -> bool {
        debug_assert!(super::RULES.iter().any(|(name, _)| *name == rule));
        self.without != Some(rule)
    }

    pub(crate) fn new_id(&mut self) -> Id {
        self.next += 1;
        self.next
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    /// Stores an object that can be seen at once, and is not durable yet.
    fn store(&mut self, name: Name, object: Object) {
        if let Entry::Vacant(place) = self.store.entry(name) {
            place.insert(object);
            self.unsettled.insert(name);
        }
    }

    /// The storage loses some of what is not durable; the rest is durable now.
    pub(crate) fn lose_power(&mut self) {
        self.losses_of_power += 1;
        for name in std::mem::take(&mut self.unsettled) {
            if self.random.below(2) == 0 {
                self.store.remove(&name);
            }
        }
    }

    /// Ends all faults; what was late arrives.
    pub(crate) fn calm(&mut self) {
        while !self.late.is_empty() {
            self.land_one();
        }
        self.faults = false;
    }

    /// A put arrives whose sender has given up.
    pub(crate) fn land_one(&mut self) {
        if !self.late.is_empty() {
            let at = self.random.below(self.late.len() as u64) as usize;
            let (name, object) = self.late.swap_remove(at);
            self.store(name, object);
        }
    }

    /// Deletes a snapshot that was listed. If it is acknowledged afterwards, it may be gone, or must be whole.
    pub(crate) fn forget_listed(&mut self, id: Id) {
        let name = (Folder::Snapshots, id);
        if !matches!(self.store.get(&name), Some(Object::Snapshot(_))) {
            return;
        }
        self.store.remove(&name);
        match self.acknowledged.contains_key(&id) {
            true => self.forgotten.insert(id),
            false => {
                // What is still on its way was sent before the one that was listed.
                self.late.retain(|(late, _)| *late != name);
                self.deleted.insert(id)
            }
        };
    }

    /// Returns whether a snapshot is gone or may go, since that was wanted.
    pub(crate) fn is_forgotten(&self, id: Id) -> bool {
        // A pruner may have ended its session since.
        let is_gone = || !matches!(self.store.get(&(Folder::Snapshots, id)), Some(Object::Snapshot(_)));
        self.forgotten.contains(&id) || self.deleted.contains(&id) && is_gone()
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        self.store.values()
    }

    pub(crate) fn folder(&self, folder: Folder) -> impl Iterator<Item = (Id, &Object)> {
        self.store
            .range((folder, 0)..=(folder, Id::MAX))
            .map(|((_, id), object)| (*id, object))
    }

    /// Returns which promise is broken, if any.
    pub(crate) fn loss(&self) -> Option<String> {
        if let Some(problem) = &self.failed_read {
            return Some(problem.clone());
        }
        let stored = view::readable(self);
        for (id, wanted) in &self.acknowledged {
            if self.is_forgotten(*id) {
                continue;
            }
            if self.store.get(&(Folder::Snapshots, *id)) != Some(&Object::Snapshot(*wanted)) {
                return Some(format!("snapshot {id} is gone"));
            }
            let lost = wanted & !stored;
            if lost != 0 {
                return Some(format!("snapshot {id} lost the chunks {lost:08b}"));
            }
        }
        None
    }
}

/// Gives the turn to another actor.
struct Turn(bool);

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match std::mem::replace(&mut self.0, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// The calls of the storage, each of which others may come before.
pub(crate) async fn turn() {
    Turn(false).await;
}

pub(crate) async fn put(world: &Shared, name: Name, object: Object) -> Put {
    turn().await;
    let (put, losses_of_power) = {
        let mut world = world.borrow_mut();
        if world.faults && world.chance(3) {
            // The answer is lost, or the call is late.
            match world.chance(50) {
                true => world.store(name, object),
                false => world.late.push((name, object)),
            }
            return Put::Unknown;
        }
        let put = match world.store.contains_key(&name) {
            true => Put::Taken,
            false => Put::Stored,
        };
        world.store(name, object);
        (put, world.losses_of_power)
    };
    // What is there is durable one turn later, also if another has stored it.
    turn().await;
    let mut world = world.borrow_mut();
    if world.losses_of_power != losses_of_power {
        return Put::Unknown;
    }
    world.unsettled.remove(&name);
    put
}

/// Makes an object durable that another has stored. Returns whether it is there.
pub(crate) async fn settle(world: &Shared, name: Name) -> bool {
    turn().await;
    let mut world = world.borrow_mut();
    let rule = match name.0 {
        Folder::Packs => "durable-packs",
        Folder::Log => "durable-log",
        _ => "durable-ends",
    };
    if !world.has(rule) {
        return true;
    }
    world.unsettled.remove(&name);
    world.store.contains_key(&name)
}

pub(crate) async fn get(world: &Shared, name: Name) -> Option<Object> {
    turn().await;
    world.borrow().store.get(&name).cloned()
}

pub(crate) async fn delete(world: &Shared, name: Name) -> bool {
    turn().await;
    world.borrow_mut().store.remove(&name).is_some()
}

/// Lists a folder. What is stored or deleted meanwhile is listed or not.
pub(crate) async fn list(world: &Shared, folder: Folder) -> BTreeSet<Id> {
    turn().await;
    let before: BTreeSet<Id> = world.borrow().folder(folder).map(|(id, _)| id).collect();
    turn().await;
    let after: BTreeSet<Id> = world.borrow().folder(folder).map(|(id, _)| id).collect();
    let random = &mut world.borrow_mut().random;
    let mut listed: BTreeSet<Id> = before.intersection(&after).copied().collect();
    listed.extend(before.symmetric_difference(&after).filter(|_| random.below(2) == 0));
    listed
}
