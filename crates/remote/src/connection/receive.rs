//! Reads answers, straight into the buffer of the call that each is for.

use std::io::{self, BufReader, Read};
use std::sync::Arc;

use ibid_storage::{ErrorKind, Name};

use super::answer::{ALIVE, BEGUN, BUSY, BYTES, DONE, FAILED, Failed, NAMES, OPENED, REFUSED, SIZED, Told};
use super::decode::Fields;
use super::dial::Ended;
use super::frame::{Header, Unread, Violation, violation};
use super::greeting::plain;
use super::link::Link;
use super::slot::{End, Slot, Wants};
use super::watched::Watched;

/// Memory that is taken for an object before its bytes come, at most.
const AHEAD: usize = 32 << 20;
/// Bytes of the names of one list.
const NAMES_MAX: usize = 2 << 30;

impl Link {
    /// Reads answers until the connection ends.
    pub(super) fn read_answers(&self, mut answers: BufReader<Watched<Box<dyn Read + Send>>>) {
        let mut fields = Vec::new();
        loop {
            let read = Header::read(&mut answers).and_then(|header| match header {
                Some(header) => self.take_in(header, &mut answers, &mut fields).map(|()| true),
                None => Ok(false),
            });
            match read {
                Ok(true) => {}
                Ok(false) | Err(Unread::Io(_)) => {
                    self.end(true);
                    return;
                }
                Err(Unread::Violation(Violation(found))) => {
                    let why = format!("the server has sent {found}");
                    self.end_with(Ended::hopeless(ErrorKind::Io, why), true);
                    return;
                }
            }
        }
    }

    fn slot(&self, number: u32) -> Result<Arc<Slot>, Violation> {
        let slot = self.slots().by_number.get(&number).cloned();
        slot.ok_or_else(|| violation("an answer to a request that was not made"))
    }

    /// Completes a call.
    fn complete(&self, number: u32, end: End) -> Result<(), Violation> {
        let slot = self.slot(number)?;
        let mut state = slot.state();
        let length = state.bytes.len() as u64;
        let is_due = match (&end, slot.wants) {
            (End::Failed(_), _) => true,
            (End::Opened(_), wants) => wants == Wants::Opened,
            (End::Size(_), wants) => wants == Wants::Size,
            (End::Done, Wants::Done | Wants::Names) => true,
            (End::Done, Wants::Whole { .. }) => state.begun == Some(length),
            (End::Done, Wants::Part { length: wanted }) => wanted == length,
            (End::Done, Wants::Opened | Wants::Size) => false,
        };
        if !is_due {
            return Err(violation("an answer of the wrong kind or length"));
        }
        state.end = Some(Ok(end));
        drop(state);
        self.slots().by_number.remove(&number);
        slot.wake();
        Ok(())
    }

    /// Takes in a message of the server.
    fn take_in(&self, header: Header, reader: &mut impl Read, fields: &mut Vec<u8>) -> Result<(), Unread> {
        let number = header.number;
        if matches!(header.kind, BYTES | NAMES) {
            return self.append(header, reader);
        }
        header.read_fields(reader, fields)?;
        let mut of = Fields::new(fields);
        match header.kind {
            OPENED => {
                let told = Told::decode(fields)?;
                self.going.limit(told.window);
                self.complete(number, End::Opened(told))?;
            }
            FAILED => self.complete(number, End::Failed(Failed::decode(fields)?))?,
            DONE => {
                of.end()?;
                self.complete(number, End::Done)?;
            }
            SIZED => {
                let size = of.u64()?;
                of.end()?;
                self.complete(number, End::Size(size))?;
            }
            BEGUN => {
                let size = of.u64()?;
                of.end()?;
                let slot = self.slot(number)?;
                let mut state = slot.state();
                match slot.wants {
                    Wants::Whole { limit } if size <= limit && state.begun.is_none() => {}
                    _ => return Err(violation("an object that was not asked for, or too long a one").into()),
                }
                state.begun = Some(size);
                state
                    .bytes
                    .reserve_exact(usize::try_from(size).unwrap_or(AHEAD).min(AHEAD));
            }
            ALIVE => of.end()?,
            REFUSED => {
                let found = of.text()?;
                let why = format!("the server refuses to go on: {}", plain(&found));
                self.end_with(Ended::hopeless(ErrorKind::Io, why), true);
                return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into());
            }
            BUSY => {
                let found = of.text()?;
                self.end_with(Ended::new(plain(&found)), false);
                return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into());
            }
            kind => return Err(violation(format!("an answer of the unknown kind {kind}")).into()),
        }
        Ok(())
    }

    /// Appends bytes to the answer of a call.
    fn append(&self, header: Header, reader: &mut impl Read) -> Result<(), Unread> {
        let slot = self.slot(header.number)?;
        let mut state = slot.state();
        let room = match (header.kind, slot.wants) {
            (BYTES, Wants::Whole { .. }) => state.begun.unwrap_or(0),
            (BYTES, Wants::Part { length }) => length,
            (NAMES, Wants::Names) => NAMES_MAX as u64,
            _ => 0,
        };
        if header.length as u64 > room.saturating_sub(state.bytes.len() as u64) {
            return Err(violation("more bytes than were asked for").into());
        }
        // Not under the lock: the bytes may come slowly, and the call has to learn of an end meanwhile.
        let mut bytes = std::mem::take(&mut state.bytes);
        drop(state);
        if let (0, Wants::Part { length }) = (bytes.capacity(), slot.wants) {
            bytes.reserve_exact((length as usize).min(AHEAD));
        }
        let read = header.append_fields(reader, &mut bytes);
        slot.state().bytes = bytes;
        Ok(read?)
    }
}

/// Calls `each` with the names of an answer.
pub(super) fn each_name(bytes: &[u8], each: &mut dyn FnMut(Name, u64)) -> Result<(), Violation> {
    let mut fields = Fields::new(bytes);
    while fields.left() > 0 {
        let (name, size) = (fields.name()?, fields.u64()?);
        each(name, size);
    }
    Ok(())
}
