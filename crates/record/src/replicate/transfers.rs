//! The copies of all contents that are under way, so that an interrupted one can continue.
//!
//! A copy is named after the state of the log at its moment. What is copied depends on nothing else:
//! stores with the same log have the same contents. So a copy continues after the primary was
//! closed and opened again, if nothing has changed meanwhile. If something has, it continues only
//! while the primary keeps the snapshot that it began with.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ibid_format::record::{LogState, Role, body_digest};

use crate::engine::Snapshot;

/// How long a snapshot is kept for a replica that is silent. Meanwhile the engine can't use the
/// space of what was replaced since.
const SILENCE_MAX: Duration = Duration::from_secs(600);
/// Most snapshots that are kept for silent replicas.
const KEPT_MAX: usize = 8;

/// All contents at one moment, on their way to a replica.
pub(super) struct Transfer {
    pub(super) id: u64,
    pub(super) snapshot: Box<dyn Snapshot>,
    pub(super) log: Vec<u8>,
}

/// The transfers of all replicas of a store.
#[derive(Default)]
pub(super) struct Transfers(Mutex<Vec<Kept>>);

struct Kept {
    transfer: Arc<Transfer>,
    used: Instant,
}

impl Transfers {
    /// Returns the transfer of this name if its snapshot is kept.
    pub(super) fn find(&self, id: u64) -> Option<Arc<Transfer>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter_mut().find(|kept| kept.transfer.id == id)?;
        found.used = Instant::now();
        Some(found.transfer.clone())
    }

    /// Returns the transfer of this snapshot, or one of the same contents that began before.
    pub(super) fn begin(&self, snapshot: Box<dyn Snapshot>, state: &LogState) -> Arc<Transfer> {
        let id = id_of(state);
        if let Some(found) = self.find(id) {
            return found;
        }
        let log = state.encode();
        let transfer = Arc::new(Transfer { id, snapshot, log });
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT_MAX
            && let Some(oldest) = (0..kept.len()).min_by_key(|&at| kept[at].used)
        {
            kept.swap_remove(oldest);
        }
        kept.push(Kept {
            transfer: transfer.clone(),
            used: Instant::now(),
        });
        transfer
    }

    /// Drops the snapshot of a transfer that is complete, unless another replica uses it.
    pub(super) fn end(&self, transfer: Arc<Transfer>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = transfer.id;
        drop(transfer);
        kept.retain(|kept| kept.transfer.id != id || Arc::strong_count(&kept.transfer) > 1);
    }

    /// Drops the snapshots for replicas that were silent for too long.
    pub(super) fn forget_silent(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.used.elapsed() < SILENCE_MAX);
    }
}

/// Returns the name of a transfer of the contents that belong to a state of the log; never 0.
pub(super) fn id_of(state: &LogState) -> u64 {
    // A primary and its replicas have the same contents at the same position.
    let role = Role::Replica;
    let state = LogState { role, ..state.clone() };
    u64::from_le_bytes(body_digest(&state.encode())).max(1)
}
