//! The stream to the other side, on which many threads take turns.

use std::io::{self, IoSlice, Write};
use std::sync::{Condvar, Mutex, PoisonError};

use super::frame::HEADER;

/// A stream of messages. Threads that wait to send get their turn in the order in which they came: a lock alone would
/// let a thread with many pieces go first again and again.
pub(super) struct Line<W> {
    turns: Mutex<Turns>,
    next: Condvar,
    writer: Mutex<Option<W>>,
}

#[derive(Default)]
struct Turns {
    taken: u64,
    serving: u64,
}

impl<W: Write> Line<W> {
    pub(super) fn new(writer: W) -> Line<W> {
        Line {
            turns: Mutex::default(),
            next: Condvar::new(),
            writer: Mutex::new(Some(writer)),
        }
    }

    /// Sends a message whose fields are these parts in order.
    pub(super) fn send(&self, number: u32, kind: u8, fields: &[&[u8]]) -> io::Result<()> {
        let length: usize = fields.iter().map(|part| part.len()).sum();
        let mut header = [0; 4 + HEADER];
        header[..4].copy_from_slice(&((HEADER + length) as u32).to_le_bytes());
        header[4..8].copy_from_slice(&number.to_le_bytes());
        header[8] = kind;
        let mut parts = vec![IoSlice::new(&header)];
        parts.extend(fields.iter().map(|part| IoSlice::new(part)));
        self.write(&mut parts)
    }

    /// Writes bytes as they are.
    pub(super) fn send_raw(&self, bytes: &[u8]) -> io::Result<()> {
        self.write(&mut [IoSlice::new(bytes)])
    }

    fn write(&self, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        let _turn = self.turn();
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let open = writer.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        let written = (|| {
            while !parts.is_empty() {
                match open.write_vectored(parts) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => IoSlice::advance_slices(&mut parts, written),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            open.flush()
        })();
        if written.is_err() {
            // A part of a message may have gone out, after which nothing can follow.
            *writer = None;
        }
        written
    }

    /// Closes the stream, once the message that is being sent has gone out.
    pub(super) fn close(&self) {
        let _turn = self.turn();
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn turn(&self) -> Turn<'_, W> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = turns.taken;
        turns.taken += 1;
        while turns.serving != mine {
            turns = self.next.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
        Turn(self)
    }
}

/// The turn of a thread, which ends when this is dropped.
struct Turn<'l, W>(&'l Line<W>);

impl<W> Drop for Turn<'_, W> {
    fn drop(&mut self) {
        self.0.turns.lock().unwrap_or_else(PoisonError::into_inner).serving += 1;
        self.0.next.notify_all();
    }
}
