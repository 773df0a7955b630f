//! The log of pruners: each entry has the whole state.

use std::collections::BTreeSet;

use super::world::{Folder, Id, Object, Put, Shared, delete, get, list, put, settle, turn};

/// Entries that stay, the last ones.
const ENTRIES_KEPT: Id = 2;

/// Packs that were condemned together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Batch {
    pub(crate) packs: BTreeSet<Id>,
    /// Sessions that were open afterwards.
    pub(crate) seen: Option<BTreeSet<Id>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    /// Number of this entry.
    pub(crate) number: Id,
    pub(crate) batches: Vec<Batch>,
    pub(crate) doomed: BTreeSet<Id>,
    /// Index files whose writers began before this entry are trusted only if they are `verified`.
    pub(crate) fence: Id,
    pub(crate) verified: BTreeSet<Id>,
}

impl State {
    pub(crate) fn condemned(&self) -> BTreeSet<Id> {
        self.batches.iter().flat_map(|batch| &batch.packs).copied().collect()
    }

    pub(crate) fn trusts(&self, file: Id, epoch: Id) -> bool {
        epoch >= self.fence || self.verified.contains(&file)
    }
}

/// Reads the last entry, and makes it durable: what is stored afterwards has its number.
pub(crate) async fn settled(world: &Shared) -> State {
    loop {
        let state = head(world).await;
        if is_settled(world, &state).await {
            return state;
        }
    }
}

/// Makes an entry durable that was read. Returns whether it was: a loss of power may have taken it back, and another
/// have come in its place.
pub(crate) async fn is_settled(world: &Shared, state: &State) -> bool {
    let name = (Folder::Log, state.number);
    state.number == 0
        || !world.borrow().has("durable-log")
        || settle(world, name).await && get(world, name).await == Some(Object::Log(state.clone()))
}

/// Reads the last entry.
pub(crate) async fn head(world: &Shared) -> State {
    loop {
        let Some(last) = list(world, Folder::Log).await.last().copied() else {
            return State::default();
        };
        let mut found = None;
        // Others may have added entries meanwhile.
        for number in last.. {
            match get(world, (Folder::Log, number)).await {
                Some(Object::Log(state)) => found = Some(state),
                _ => break,
            }
        }
        if let Some(state) = found {
            return state;
        }
    }
}

/// Adds the entry after `before`. Returns whether it was added.
pub(crate) async fn append(world: &Shared, before: &State, mut state: State) -> bool {
    let mut number = before.number + 1;
    let is_in_order = world.borrow().has("order");
    loop {
        state.number = number;
        if state.fence > before.number {
            state.fence = number;
        }
        match put(world, (Folder::Log, number), Object::Log(state.clone())).await {
            Put::Stored => {
                // A slow pruner may add its entry where an old one was. Then others do not see it, and it
                // goes on from theirs, because each step begins with the last entry.
                for old in list(world, Folder::Log).await {
                    if old + ENTRIES_KEPT <= number {
                        delete(world, (Folder::Log, old)).await;
                    }
                }
                return true;
            }
            // The next one reads what there is.
            Put::Unknown => return false,
            Put::Taken if is_in_order => return false,
            Put::Taken => {
                // Not computed again, only put further on, over what the others have written.
                turn().await;
                number += 1;
            }
        }
    }
}
