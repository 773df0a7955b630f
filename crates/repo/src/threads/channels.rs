//! Channels whose ends, in a simulation, give way to other threads instead of waiting.

use crossbeam_channel::{RecvError, SendError, TryRecvError, TrySendError};

use crate::simulation::{give_way, is_on};

pub(crate) struct Sender<T>(crossbeam_channel::Sender<T>);

pub(crate) struct Receiver<T>(crossbeam_channel::Receiver<T>);

/// Returns a channel in which so many values wait. In a simulation there is room for one at least.
pub(crate) fn bounded<T>(most: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = crossbeam_channel::bounded(most.max(usize::from(is_on())));
    (Sender(sender), Receiver(receiver))
}

/// Returns a channel in which any number of values wait.
pub(crate) fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = crossbeam_channel::unbounded();
    (Sender(sender), Receiver(receiver))
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender(self.0.clone())
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        Receiver(self.0.clone())
    }
}

impl<T> Sender<T> {
    pub(crate) fn send(&self, value: T) -> Result<(), SendError<T>> {
        if !is_on() {
            return self.0.send(value);
        }
        let mut value = value;
        loop {
            value = match self.0.try_send(value) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Disconnected(value)) => return Err(SendError(value)),
                Err(TrySendError::Full(value)) => value,
            };
            give_way();
        }
    }

    pub(crate) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.0.try_send(value)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.is_full()
    }
}

impl<T> Receiver<T> {
    pub(crate) fn recv(&self) -> Result<T, RecvError> {
        if !is_on() {
            return self.0.recv();
        }
        loop {
            match self.0.try_recv() {
                Ok(value) => return Ok(value),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
                Err(TryRecvError::Empty) => give_way(),
            }
        }
    }

    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        self.0.try_recv()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = Values<T>;

    fn into_iter(self) -> Values<T> {
        Values(self)
    }
}

impl<T> IntoIterator for &Receiver<T> {
    type Item = T;
    type IntoIter = Values<T>;

    fn into_iter(self) -> Values<T> {
        Values(self.clone())
    }
}

/// What is received, until all senders are gone.
pub(crate) struct Values<T>(Receiver<T>);

impl<T> Iterator for Values<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}
