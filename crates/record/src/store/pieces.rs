//! The namespace that has the pieces of long bodies, and drafts: what holds the pieces of a body that has no key yet.

use std::collections::HashSet;
use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ibid_format::record::{DRAFT_PREFIX, PIECE_ID_BYTES, PIECES_NAMESPACE, PIECES_SECRET_KEY, key_of};

use super::shared::Shared;
use crate::engine::{Direction, Engine, Table};
use crate::error::{Damage, Error};
use crate::log::state;
use crate::read::records::Generation;
use crate::read::{lookup, namespaces};
use crate::versions::Versions;
use crate::write::handle::WriterHandle;
use crate::write::oplog;
use crate::write::request::{Change, Changes, Command, Durability, Operation, Outcome, Target};

/// Abandoned drafts that are removed at once.
const REMOVED_AT_ONCE: usize = 16;
/// Length of the number of a draft in its keys, bytes.
const DRAFT_NUMBER_BYTES: usize = 8;

/// The namespace that has the pieces.
pub(super) struct Pieces {
    target: Target,
    /// What ids are made with.
    pub(super) secret: [u8; PIECE_ID_BYTES],
}

impl Pieces {
    pub(super) fn number(&self) -> u32 {
        self.target.number
    }

    pub(super) fn operation(&self, key: Vec<u8>, change: Change, in_pieces: bool) -> Operation {
        Operation {
            in_pieces,
            ..Operation::new(self.target.clone(), key, change)
        }
    }
}

/// Returns the batches that remove records of drafts, each a few.
fn removals<'k>(target: &'k Target, keys: &'k [Vec<u8>]) -> impl Iterator<Item = Changes> + use<'k> {
    let delete = |key: &Vec<u8>| Operation::new(target.clone(), key.clone(), Change::Delete);
    keys.chunks(REMOVED_AT_ONCE).map(move |keys| Changes {
        operations: keys.iter().map(delete).collect(),
        ..Changes::default()
    })
}

fn target(number: u32) -> Target {
    Target {
        name: PIECES_NAMESPACE.into(),
        number,
        versions_kept: false,
    }
}

/// What is known of the namespace, and the drafts that are being made.
#[derive(Default)]
pub(crate) struct Drafts {
    /// In the generation of the store's contents in which it was read.
    pieces: Mutex<Option<(Generation, Arc<Pieces>)>>,
    live: Mutex<HashSet<u64>>,
}

impl Drafts {
    fn live(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes drafts of writers that did not remove them themselves, because the process was stopped.
    pub(crate) fn remove_abandoned(&self, engine: &dyn Engine, writer: &WriterHandle) -> Result<(), Error> {
        let snapshot = engine.snapshot()?;
        if state::check_primary(state::read(&*snapshot)?.as_ref()).is_err() {
            return Ok(()); // its primary removes them
        }
        let Some(number) = namespaces::number(&*snapshot, PIECES_NAMESPACE, Versions::Latest)? else {
            return Ok(());
        };
        let (from, to) = (key_of(number, &[DRAFT_PREFIX]), key_of(number, &[DRAFT_PREFIX + 1]));
        let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let mut found = Vec::new();
        snapshot.keys(Table::Keys, range, Direction::Forward, &mut |stored| {
            found.push(stored[from.len() - 1..].to_vec());
            ControlFlow::Continue(())
        })?;
        drop(snapshot);
        // After the snapshot: a draft that was in it and is not being made now never will be.
        let live = self.live().clone();
        let is_live = |key: &[u8]| draft_number(key).is_some_and(|number| live.contains(&number));
        let target = target(number);
        let abandoned: Vec<_> = found.into_iter().filter(|key| !is_live(key)).collect();
        for changes in removals(&target, &abandoned) {
            match writer.ask(Command::Batch(changes), Durability::None) {
                // Someone else was faster.
                Ok(_) | Err(Error::NoSuchKey { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Refuses the name of the namespace of pieces, which no one may use otherwise.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    match name == PIECES_NAMESPACE {
        true => Err(Error::ReservedName),
        false => Ok(()),
    }
}

fn draft_number(key: &[u8]) -> Option<u64> {
    let number = key.get(1..1 + DRAFT_NUMBER_BYTES)?;
    number.try_into().ok().map(u64::from_be_bytes)
}

impl Shared {
    /// Returns the namespace of pieces, which is made if there is none.
    pub(super) fn pieces(&self) -> Result<Arc<Pieces>, Error> {
        let mut known = self.drafts.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let (snapshot, generation) = self.complete_snapshot()?;
        if let Some((of, pieces)) = &*known
            && *of == generation
        {
            return Ok(pieces.clone());
        }
        let number = match namespaces::number(&*snapshot, PIECES_NAMESPACE, Versions::Latest)? {
            Some(number) => number,
            None => match self.ask(
                Command::Namespace(PIECES_NAMESPACE.into(), Versions::Latest),
                Durability::None,
            )? {
                Outcome::Namespace(number) => number,
                Outcome::Written(_) | Outcome::Index(_) | Outcome::Fenced(_) | Outcome::Done => {
                    unreachable!("the outcome is of the kind that was asked for")
                }
            },
        };
        let target = target(number);
        let mut secret = [0; PIECE_ID_BYTES];
        for part in secret.chunks_exact_mut(size_of::<u64>()) {
            part.copy_from_slice(&oplog::random()?.to_le_bytes());
        }
        let put = Change::PutIfAbsent(secret.to_vec());
        let changes = Changes {
            operations: vec![Operation::new(target.clone(), PIECES_SECRET_KEY.to_vec(), put)],
            ..Changes::default()
        };
        self.commit_stored(changes, Durability::None)?;
        let pieces = Arc::new(Pieces {
            secret: self.secret(number)?,
            target,
        });
        *known = Some((generation, pieces.clone()));
        Ok(pieces)
    }

    /// Returns what the ids of pieces are made with.
    fn secret(&self, namespace: u32) -> Result<[u8; PIECE_ID_BYTES], Error> {
        let snapshot = self.engine.snapshot()?;
        let stored_key = key_of(namespace, PIECES_SECRET_KEY);
        let damaged = |damage| Error::damaged(Table::Keys, &stored_key, damage);
        let entry = lookup::key_entry(&*snapshot, &stored_key)?.ok_or_else(|| damaged(Damage::Missing))?;
        let owner = (namespace, PIECES_SECRET_KEY, entry.versions);
        let secret = self.records.body(&*snapshot, entry.latest, owner)?;
        let secret = secret.and_then(|secret| secret.try_into().ok());
        secret.ok_or_else(|| damaged(Damage::Misplaced))
    }
}

/// What holds the pieces of a body until a record names them: a record for each of its lists.
pub(super) struct Draft {
    store: Arc<Shared>,
    pieces: Arc<Pieces>,
    number: u64,
    keys: Vec<Vec<u8>>,
}

impl Draft {
    pub(super) fn begin(store: Arc<Shared>, pieces: Arc<Pieces>) -> Result<Self, Error> {
        let number = oplog::random()?;
        store.drafts.live().insert(number);
        Ok(Draft {
            store,
            pieces,
            number,
            keys: Vec::new(),
        })
    }

    /// Returns the key of its next record.
    pub(super) fn next_key(&mut self) -> Vec<u8> {
        let next = self.keys.len() as u32;
        let key = [&[DRAFT_PREFIX][..], &self.number.to_be_bytes(), &next.to_be_bytes()].concat();
        self.keys.push(key.clone());
        key
    }

    /// Refuses a draft of another store.
    pub(super) fn check_store(&self, store: &Arc<Shared>) -> Result<(), Error> {
        match Arc::ptr_eq(&self.store, store) {
            true => Ok(()),
            false => Err(Error::ForeignBody),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        for changes in removals(&self.pieces.target, &self.keys) {
            // What stays because of an error is removed some time after the store is opened again.
            if self.store.commit_stored(changes, Durability::None).is_err() {
                break;
            }
        }
        self.store.drafts.live().remove(&self.number);
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
