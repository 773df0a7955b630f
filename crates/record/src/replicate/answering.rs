//! What the senders of a store share, so that more replicas hardly take more memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ibid_delta::DeltaEncoder;

use super::follow::LOOK_EVERY;
use crate::lru::LruCache;
use crate::read::records::Generation;

/// About how many bytes it takes to know that a body is similar to another.
const SIMILAR_BYTES: usize = 64;
/// How many of these each sender may know, however many all know.
const SIMILAR_MIN: usize = 256;

/// What the senders of a store share.
pub(crate) struct Answering {
    /// Answers are made one at a time.
    turn: Mutex<Turn>,
    /// Bytes of answers on their way.
    sending: Mutex<usize>,
    sent: Condvar,
    sending_max: usize,
    /// Whether an answer waits for others to be sent.
    is_waiting: AtomicBool,
    /// How many bodies all senders know to be similar to later ones.
    similar: AtomicUsize,
    similar_max: usize,
}

/// The right to make an answer, and what that needs.
pub(super) struct Turn {
    /// Bodies that were sent, and may be the bases of others.
    pub(super) cache: LruCache<(Generation, u64), Arc<Vec<u8>>>,
    pub(super) encoder: DeltaEncoder,
}

impl Answering {
    /// Returns what is shared by senders that may take so many bytes: half of them for bodies that were sent, a quarter
    /// to know which are similar, and a quarter for answers on their way.
    pub(crate) fn new(bytes: usize) -> Self {
        let turn = Turn {
            cache: LruCache::new(bytes / 2),
            encoder: DeltaEncoder::new(),
        };
        Answering {
            turn: Mutex::new(turn),
            sending: Mutex::default(),
            sent: Condvar::new(),
            sending_max: bytes / 4,
            is_waiting: AtomicBool::new(false),
            similar: AtomicUsize::new(0),
            similar_max: bytes / 4 / SIMILAR_BYTES,
        }
    }

    /// Waits until no other answer is made.
    pub(super) fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many bytes of answers may be on their way. One of any length may.
    pub(super) fn sending_max(&self) -> usize {
        self.sending_max
    }

    /// Waits until there is room to send so many bytes, or nothing is sent. Returns false if `stop` is set before. Only
    /// one answer may wait: that of the sender that has the turn.
    pub(super) fn waits_for_room(&self, _turn: &MutexGuard<'_, Turn>, bytes: usize, stop: &AtomicBool) -> bool {
        let mut sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        while *sending > 0 && *sending + bytes > self.sending_max {
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            self.is_waiting.store(true, Ordering::Relaxed);
            let waited = self.sent.wait_timeout(sending, LOOK_EVERY);
            sending = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.is_waiting.store(false, Ordering::Relaxed);
        true
    }

    /// Takes the memory of an answer of so many bytes until it is sent, and ends the turn.
    pub(super) fn send(&self, turn: MutexGuard<'_, Turn>, bytes: usize) -> Sending<'_> {
        *self.sending.lock().unwrap_or_else(PoisonError::into_inner) += bytes;
        drop(turn);
        let answering = self;
        Sending { answering, bytes }
    }
}

/// The memory of an answer on its way.
pub(super) struct Sending<'a> {
    answering: &'a Answering,
    bytes: usize,
}

impl Sending<'_> {
    /// Whether another answer waits for the memory.
    pub(super) fn is_waited_for(&self) -> bool {
        self.answering.is_waiting.load(Ordering::Relaxed)
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        let mut sending = self.answering.sending.lock().unwrap_or_else(PoisonError::into_inner);
        *sending -= self.bytes;
        drop(sending);
        self.answering.sent.notify_all();
    }
}

/// Bodies that a sender knows to be similar to later ones, each with the later one.
pub(super) struct Similar {
    answering: Arc<Answering>,
    later: BTreeMap<u64, u64>,
    /// How many of them are counted with those of other senders.
    counted: usize,
}

impl Similar {
    pub(super) fn new(answering: Arc<Answering>) -> Self {
        Similar {
            answering,
            later: BTreeMap::new(),
            counted: 0,
        }
    }

    pub(super) fn later(&self, body: u64) -> Option<u64> {
        self.later.get(&body).copied()
    }

    pub(super) fn has_room(&self) -> bool {
        let all = self.answering.similar.load(Ordering::Relaxed);
        self.later.len() < SIMILAR_MIN || all < self.answering.similar_max
    }

    /// Changes what is known.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut BTreeMap<u64, u64>)) {
        change(&mut self.later);
        let all = &self.answering.similar;
        all.fetch_add(self.later.len(), Ordering::Relaxed);
        all.fetch_sub(self.counted, Ordering::Relaxed);
        self.counted = self.later.len();
    }
}

impl Drop for Similar {
    fn drop(&mut self) {
        self.change(BTreeMap::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 4000; // 1000 of them for answers on their way

    #[test]
    fn an_answer_waits_until_others_are_sent() {
        let (answering, stop) = (Answering::new(BYTES), AtomicBool::new(false));
        let turn = answering.turn();
        assert!(
            answering.waits_for_room(&turn, 5000, &stop),
            "one of any length may be sent"
        );
        let long = answering.send(turn, 5000);
        assert!(!long.is_waited_for());
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let turn = answering.turn();
                assert!(answering.waits_for_room(&turn, 600, &stop));
                drop(answering.send(turn, 600));
            });
            while !long.is_waited_for() {
                std::thread::yield_now();
            }
            assert!(!other.is_finished());
            drop(long);
            other.join().unwrap();
        });
        let short = answering.send(answering.turn(), 600);
        let turn = answering.turn();
        assert!(answering.waits_for_room(&turn, 400, &stop));
        stop.store(true, Ordering::Relaxed);
        assert!(!answering.waits_for_room(&turn, 401, &stop), "it is told to stop");
        drop(short);
        assert!(answering.waits_for_room(&turn, 401, &stop));
    }

    #[test]
    fn senders_know_as_much_together_as_there_is_memory_for() {
        let answering = Arc::new(Answering::new(4 * SIMILAR_BYTES * 2 * SIMILAR_MIN));
        let learn = |similar: &mut Similar| {
            let (mut learned, first) = (0, similar.later.len() as u64);
            while similar.has_room() {
                similar.change(|known| {
                    known.insert(first + learned, 0);
                });
                learned += 1;
            }
            learned as usize
        };
        let (mut first, mut second) = (Similar::new(answering.clone()), Similar::new(answering.clone()));
        assert_eq!(learn(&mut first), 2 * SIMILAR_MIN);
        assert_eq!(learn(&mut second), SIMILAR_MIN, "each may know some");
        assert_eq!(learn(&mut second), 0);
        drop(first);
        assert_eq!(learn(&mut second), SIMILAR_MIN);
        second.change(BTreeMap::clear);
        assert_eq!(answering.similar.load(Ordering::Relaxed), 0);
    }
}
