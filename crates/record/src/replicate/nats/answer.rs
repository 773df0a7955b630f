//! The primary answers requests that the stream cannot answer, part by part.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ibid_format::record::{MessagePart, PartRequest, PartResponse, Role, split_message};

use super::Stopped;
use super::address::Address;
use super::stream::Link;
use crate::error::Error;
use crate::log::state;
use crate::replicate::Sender;
use crate::replicate::follow::{RETRY_AFTER, wait};
use crate::replicate::send::MESSAGE_BYTES;
use crate::replicate::transfers::Transfers;
use crate::store::Store;

/// Most replicas that are answered at the same time. With one more, the one that was silent for the
/// longest time is forgotten and begins anew.
const ASKERS_MAX: usize = 16;
/// How long the answer to a silent replica is kept.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The same, while another replica waits for the memory of that answer.
const SILENCE_WHILE_WAITED_FOR_MAX: Duration = Duration::from_secs(5);
/// How often silent replicas are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A replica that asks, and the answer that it is getting.
struct Asker {
    sender: Sender,
    number: u64,
    parts: Vec<MessagePart>,
    heard: Instant,
}

impl Asker {
    /// Returns how many bytes of an answer are kept for it.
    fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes.len()).sum()
    }
}

/// The replicas that ask, and what they copy.
#[derive(Default)]
struct Askers {
    by_id: HashMap<u64, Asker>,
    transfers: Arc<Transfers>,
}

impl Askers {
    /// Returns whether there is memory for one more answer, if as many bytes of them may be kept, or none is. Forgets
    /// replicas that have been silent if that is needed.
    fn has_room(&mut self, bytes_max: usize) -> bool {
        loop {
            let kept: usize = self.by_id.values().map(Asker::bytes).sum();
            if kept == 0 || kept + MESSAGE_BYTES <= bytes_max {
                return true;
            }
            let keeping = self.by_id.iter().filter(|(_, asker)| !asker.parts.is_empty());
            let silent = keeping.filter(|(_, asker)| asker.heard.elapsed() >= SILENCE_WHILE_WAITED_FOR_MAX);
            let Some(silent) = silent.min_by_key(|(_, asker)| asker.heard).map(|(&id, _)| id) else {
                return false;
            };
            self.by_id.remove(&silent);
        }
    }
}

/// Answers all replicas until `stop` is set. After a failure it connects again, and replicas
/// without an answer ask again.
pub(super) fn answer_all(store: &Store, address: &Address, stop: &AtomicBool) {
    let (mut askers, mut turn) = (Askers::default(), 0);
    while !stop.load(Ordering::Relaxed) {
        if answer_over_one(store, address, turn, &mut askers, stop).is_err() {
            turn += 1;
            wait(RETRY_AFTER, stop);
        }
    }
}

fn answer_over_one(
    store: &Store,
    address: &Address,
    turn: usize,
    askers: &mut Askers,
    stop: &AtomicBool,
) -> Result<(), Stopped> {
    let mut link = Link::connect(address, turn, stop)?;
    link.wire.subscribe(&address.ask_subject(), stop)?;
    while !stop.load(Ordering::Relaxed) {
        let request = link.wire.next(Instant::now() + LOOK_EVERY, stop)?;
        askers.by_id.retain(|_, asker| asker.heard.elapsed() < SILENCE_MAX);
        askers.transfers.forget_silent();
        let Some(request) = request else { continue };
        // A request that fails does not keep others from being answered.
        if let Ok(Some(part)) = answer(store, &request.payload, askers, link.part_bytes())
            && !request.reply.is_empty()
        {
            link.wire.publish(&request.reply, "", "", &part, stop)?;
        }
    }
    Ok(())
}

/// Returns the part that a request asks for; [`None`] if the request is for another store or epoch, or there is no
/// memory for its answer now.
fn answer(store: &Store, request: &[u8], askers: &mut Askers, part_bytes: usize) -> Result<Option<Vec<u8>>, Error> {
    let pull = PartRequest::decode(request)?;
    let state = state::read(&*store.shared.engine.snapshot()?)?.ok_or(Error::NoLog)?;
    if (pull.store, pull.epoch) != (state.store, state.epoch) || state.role != Role::Primary {
        return Ok(None);
    }
    let is_begun = |asker: &Asker| asker.number == pull.number && !asker.parts.is_empty();
    if !askers.by_id.get(&pull.asker).is_some_and(is_begun) {
        if let Some(asker) = askers.by_id.get_mut(&pull.asker) {
            asker.parts.clear();
        }
        if !askers.has_room(store.shared.answering().sending_max()) {
            return Ok(None); // it asks again
        }
    }
    let Askers {
        by_id: askers,
        transfers,
    } = askers;
    if askers.len() >= ASKERS_MAX
        && !askers.contains_key(&pull.asker)
        && let Some(silent) = askers.iter().min_by_key(|(_, asker)| asker.heard).map(|(&id, _)| id)
    {
        askers.remove(&silent);
    }
    let asker = match askers.entry(pull.asker) {
        std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
        std::collections::hash_map::Entry::Vacant(entry) => entry.insert(Asker {
            sender: Sender::with_transfers(store, transfers.clone())?,
            number: pull.number,
            parts: Vec::new(),
            heard: Instant::now(),
        }),
    };
    if !is_begun(asker) {
        let answer = asker.sender.answer(&pull.request)?;
        asker.parts = split_message(&answer, part_bytes).collect();
        asker.number = pull.number;
    }
    asker.heard = Instant::now();
    let Some(part) = asker.parts.get(pull.part as usize).cloned() else {
        return Ok(None);
    };
    if part.is_last() {
        // If it is asked for again, the answer is computed anew.
        asker.parts = Vec::new();
    }
    let (store, epoch) = (state.store, state.epoch);
    let (asker, number) = (pull.asker, pull.number);
    let pulled = PartResponse {
        store,
        epoch,
        asker,
        number,
        part,
    };
    Ok(Some(pulled.encode()))
}
