//! What was committed and waits to be encoded, on its way from the writer to the encoder.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::apply::Prior;
use crate::error::Error;

/// Bodies that wait, bytes. More are read from the store when it is their turn.
const BYTES_MAX: usize = 32 << 20;
/// Records that wait. Those before others come are looked for in the store.
const RECORDS_MAX: usize = 1 << 16;

/// A record that was committed.
#[derive(Debug)]
pub(crate) struct New {
    pub(crate) number: u64,
    pub(crate) namespace: u32,
    /// Whether the namespace keeps versions.
    pub(crate) versions_kept: bool,
    /// An older record that it is like, as far as is known: the key's latest until then.
    pub(crate) prior: Option<Prior>,
    pub(crate) body: Option<Vec<u8>>,
}

/// What the encoder has to do next.
pub(crate) enum Next {
    Record(New),
    /// Nothing came for as long as asked for.
    Idle,
    /// Someone waits until all is written that was committed before.
    Finish(SyncSender<Result<(), Error>>),
    End,
}

#[derive(Default)]
pub(crate) struct Feed {
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Default)]
struct State {
    records: VecDeque<New>,
    bytes: usize,
    finish: VecDeque<SyncSender<Result<(), Error>>>,
    ended: bool,
    /// Requests at the writer, and when it committed last.
    at_writer: usize,
    committed: Option<Instant>,
}

impl Feed {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that could panic is done while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over what was committed, ascending. Waits for nothing. The encoder sees it when it
    /// looks next, or is [woken](Self::wake).
    pub(crate) fn push(&self, new: impl IntoIterator<Item = New>) {
        let mut state = self.state();
        for mut record in new {
            if state.records.len() == RECORDS_MAX {
                // The encoder notices the gap.
                let oldest = state.records.pop_front();
                state.bytes -= oldest.and_then(|oldest| oldest.body).map_or(0, |body| body.len());
            }
            let length = record.body.as_ref().map_or(0, Vec::len);
            if state.bytes + length > BYTES_MAX {
                record.body = None;
            } else {
                state.bytes += length;
            }
            state.records.push_back(record);
        }
    }

    /// Wakes the encoder if it has nothing to do.
    pub(crate) fn wake(&self) {
        self.came.notify_one();
    }

    /// Asks to be told when all is written that was committed before.
    pub(crate) fn finish(&self, told: SyncSender<Result<(), Error>>) {
        let mut state = self.state();
        if !state.ended {
            state.finish.push_back(told);
        }
        self.came.notify_one();
    }

    /// Ends the encoder after what it is doing now; who waits for it to finish is not told any
    /// more.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        state.finish.clear();
        self.came.notify_one();
    }

    /// Waits for something to do, `patience` long at most.
    pub(crate) fn next(&self, patience: Option<Duration>) -> Next {
        let mut state = self.state();
        let begun = Instant::now();
        loop {
            if state.ended {
                return Next::End;
            }
            if let Some(record) = state.records.pop_front() {
                state.bytes -= record.body.as_ref().map_or(0, Vec::len);
                return Next::Record(record);
            }
            if let Some(told) = state.finish.pop_front() {
                return Next::Finish(told);
            }
            state = match patience.map(|patience| patience.saturating_sub(begun.elapsed())) {
                None => self.came.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return Next::Idle,
                Some(left) => {
                    self.came
                        .wait_timeout(state, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    /// The writer says that it has `requests` more, or that it is done with them.
    pub(crate) fn writer_has(&self, requests: isize) {
        let mut state = self.state();
        state.at_writer = state.at_writer.saturating_add_signed(requests);
        if requests < 0 {
            state.committed = Some(Instant::now());
        }
    }

    /// Whether the writer has at most so many requests and committed nothing for so long.
    pub(crate) fn writer_is_idle(&self, requests_max: usize, since: Duration) -> bool {
        let state = self.state();
        state.at_writer <= requests_max && state.committed.is_none_or(|at| at.elapsed() >= since)
    }
}
