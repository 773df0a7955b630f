//! Messages on a connection, each after its length.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{SILENCE_MAX, Stream, is_late, reason, tls};
use crate::error::Error;

/// The beginning of an alert of TLS: its type, a version, its length and its level. A client
/// without TLS takes it for the length of a message and the first bytes of that.
const ALERT: [u8; 6] = [21, 3, 0, 0, 2, 2];

/// A connection, and the address of the other end for messages.
pub(super) struct Peer {
    pub(super) stream: Box<dyn Stream>,
    pub(super) address: String,
}

impl Peer {
    /// Receives a message; [`None`] if the other end closed the connection before one began, or
    /// `stop` was set.
    pub(super) fn receive(&mut self, most: usize, stop: &AtomicBool) -> Result<Option<Vec<u8>>, Error> {
        let mut length = [0; 4];
        match self.fill(&mut length, stop)? {
            0 => return Ok(None),
            4 => {}
            _ => return Err(self.ended()),
        }
        let bytes = u32::from_le_bytes(length) as usize;
        if bytes > most {
            let (field, min, max, found) = ("length of a message", 0, most as u64, bytes as u64);
            return Err(Error::Message(ibid_format::Error::OutOfRange {
                field,
                min,
                max,
                found,
            }));
        }
        // Memory grows with the received bytes, not with the announced length.
        const STEP: usize = 1 << 20;
        let mut message = Vec::new();
        while message.len() < bytes {
            let from = message.len();
            message.resize(bytes.min(from + STEP), 0);
            let filled = from + self.fill(&mut message[from..], stop)?;
            if filled < message.len() {
                return Err(match is_alert(length, &message[..filled]) {
                    true => self.fault(tls::Fault::OnlyTls),
                    false => self.ended(),
                });
            }
        }
        Ok(Some(message))
    }

    /// Reads until `bytes` are full, the other end has closed the connection, or `stop` is set.
    /// Returns how many bytes were read.
    fn fill(&mut self, bytes: &mut [u8], stop: &AtomicBool) -> Result<usize, Error> {
        let (mut filled, mut heard) = (0, Instant::now());
        while filled < bytes.len() {
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(more) => (filled, heard) = (filled + more, Instant::now()),
                Err(error) if is_late(&error) && stop.load(Ordering::Relaxed) => break,
                Err(error) if is_late(&error) && heard.elapsed() < SILENCE_MAX => {}
                Err(error) => return Err(self.failed("receive from", &error)),
            }
        }
        Ok(filled)
    }

    /// Sends a message, unless the other end takes nothing for longer than it may be silent.
    pub(super) fn send(
        &mut self,
        message: &[u8],
        stop: &AtomicBool,
        silence_max: &dyn Fn() -> Duration,
    ) -> Result<(), Error> {
        let length = (message.len() as u32).to_le_bytes();
        let mut heard = Instant::now();
        for mut bytes in [&length[..], message] {
            while !bytes.is_empty() {
                match self.stream.write(bytes) {
                    Ok(0) => return Err(self.ended()),
                    Ok(more) => (bytes, heard) = (&bytes[more..], Instant::now()),
                    Err(error) => self.go_on(&error, heard + silence_max(), stop)?,
                }
            }
        }
        // TLS may have encrypted bytes that are not sent yet.
        while let Err(error) = self.stream.flush() {
            self.go_on(&error, heard + silence_max(), stop)?;
        }
        Ok(())
    }

    /// Returns whether to try again to send: not if the other end took nothing until a deadline, or
    /// `stop` is set.
    fn go_on(&mut self, error: &io::Error, deadline: Instant, stop: &AtomicBool) -> Result<(), Error> {
        if !is_late(error) || Instant::now() >= deadline {
            return Err(self.failed("send to", error));
        }
        if stop.load(Ordering::Relaxed) {
            return Err(network(&self.address, "send to", "it was told to stop".to_owned()));
        }
        Ok(())
    }

    fn failed(&mut self, operation: &'static str, error: &io::Error) -> Error {
        match self.stream.fault() {
            Some(fault) => self.fault(fault),
            None => network(&self.address, operation, reason(error)),
        }
    }

    pub(super) fn ended(&self) -> Error {
        let found = "the other end closed the connection".to_owned();
        network(&self.address, "receive from", found)
    }

    fn fault(&self, fault: tls::Fault) -> Error {
        let address = self.address.clone();
        Error::Tls { address, fault }
    }
}

pub(super) fn network(address: &str, operation: &'static str, found: String) -> Error {
    let address = address.to_owned();
    Error::Network {
        operation,
        address,
        found,
    }
}

/// Returns whether the bytes that came are an alert of TLS.
fn is_alert(length: [u8; 4], message: &[u8]) -> bool {
    let began = length.iter().chain(message).zip(ALERT).enumerate();
    // The third byte is the version.
    message.len() >= 2
        && began
            .into_iter()
            .all(|(at, (&found, wanted))| at == 2 || found == wanted)
}
