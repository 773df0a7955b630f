//! A call that waits for its answer.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::answer::{Failed, Told};
use super::dial::Ended;
use super::request::Request;

/// What a call accepts as its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    Opened,
    Done,
    Size,
    Names,
    /// An object of at most so many bytes.
    Whole {
        limit: u64,
    },
    /// Just so many bytes.
    Part {
        length: u64,
    },
}

/// How the answer to a call ended.
#[derive(Clone, Debug)]
pub(super) enum End {
    Done,
    Size(u64),
    Opened(Told),
    Failed(Failed),
}

/// A complete answer: what came, and how it ended.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) bytes: Vec<u8>,
    pub(super) end: End,
}

/// A call that got no answer.
#[derive(Clone, Debug)]
pub(super) struct Lost {
    pub(super) ended: Ended,
    /// Whether the server may have the request.
    pub(super) is_in_doubt: bool,
    /// Whether the server does not keep to the protocol, so that asking again is of no use.
    pub(super) is_violation: bool,
}

/// A call that waits for its answer.
pub(super) struct Slot {
    pub(super) wants: Wants,
    state: Mutex<SlotState>,
    changed: Condvar,
}

#[derive(Default)]
pub(super) struct SlotState {
    pub(super) bytes: Vec<u8>,
    /// How long the object is, once the server has said it.
    pub(super) begun: Option<u64>,
    pub(super) end: Option<Result<End, Lost>>,
}

impl Slot {
    /// Returns a call that makes this request.
    pub(super) fn of(request: &Request) -> Slot {
        Slot {
            wants: wants(request),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the call, whose answer has ended.
    pub(super) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Waits until the answer has ended.
    pub(super) fn wait(&self) -> Result<Answer, Lost> {
        let mut state = self.state();
        loop {
            match state.end.take() {
                Some(Ok(end)) => {
                    let bytes = std::mem::take(&mut state.bytes);
                    return Ok(Answer { bytes, end });
                }
                Some(Err(lost)) => return Err(lost),
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Returns what a request accepts as its answer.
fn wants(request: &Request) -> Wants {
    match *request {
        Request::Open { .. } => Wants::Opened,
        Request::Put { .. } | Request::Settle { .. } | Request::Delete { .. } => Wants::Done,
        Request::Get { limit, .. } => Wants::Whole { limit },
        Request::Read { length, .. } => Wants::Part { length },
        Request::Size { .. } => Wants::Size,
        Request::List { .. } | Request::ListTaken { .. } => Wants::Names,
    }
}
