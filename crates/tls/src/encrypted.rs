//! A connection with TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use rustls::Connection;

use crate::{Ending, Fault, Reader, Writer, split};

/// A connection with TLS, on which both ends have agreed how to encrypt.
pub struct Encrypted {
    connection: Connection,
    socket: TcpStream,
    /// Whether this end has a certificate to show.
    shows: bool,
    /// The first fault of TLS that was found.
    fault: Option<Fault>,
}

/// Why two ends have not agreed on how to encrypt.
#[derive(Debug, thiserror::Error)]
pub enum NoTls {
    /// They can't.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The connection failed, or it was not to be waited for any longer.
    #[error(transparent)]
    Io(#[from] io::Error),
}

pub(crate) fn is_late(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Does a step of the agreement: sends what is to be sent, and reads once. Returns whether the ends have agreed.
fn step(connection: &mut Connection, socket: &mut TcpStream) -> io::Result<bool> {
    while connection.wants_write() {
        connection.write_tls(socket)?;
    }
    if !connection.is_handshaking() {
        return Ok(true);
    }
    if connection.read_tls(socket)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if let Err(error) = connection.process_new_packets() {
        // The other end learns why.
        let _ = connection.write_tls(socket);
        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
    }
    Ok(false)
}

impl Encrypted {
    /// Agrees with the other end on how to encrypt. A client that is refused because of its own certificate learns of
    /// that later.
    pub(crate) fn begin(
        mut connection: Connection,
        mut socket: TcpStream,
        shows: bool,
        mut waits: impl FnMut() -> bool,
    ) -> Result<Self, NoTls> {
        loop {
            match step(&mut connection, &mut socket) {
                Ok(true) => break,
                // An end that sends a byte at a time is never late.
                Ok(false) if waits() => {}
                Ok(false) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
                Err(error) if is_late(&error) && waits() => {}
                Err(error) => {
                    return Err(match Fault::of(&error, shows, true) {
                        Some(fault) => fault.into(),
                        None => error.into(),
                    });
                }
            }
        }
        Ok(Encrypted {
            connection,
            socket,
            shows,
            fault: None,
        })
    }

    /// Returns the certificate that the other end has shown, DER.
    #[must_use]
    pub fn certificate(&self) -> Option<&[u8]> {
        let shown = self.connection.peer_certificates()?;
        shown.first().map(AsRef::as_ref)
    }

    /// Returns why the other end ended the connection, if it said so in TLS before. A connection that can't be written
    /// to any more may still have that to read.
    pub fn fault(&mut self) -> Option<Fault> {
        while self.fault.is_none() && matches!(self.connection.read_tls(&mut self.socket), Ok(1..)) {
            if let Err(error) = self.connection.process_new_packets() {
                self.fault = Fault::of(&io::Error::other(error), self.shows, false);
                break;
            }
        }
        self.fault.clone()
    }

    /// Returns an end to read and one to write, which never wait for each other, and what ends both.
    ///
    /// # Errors
    /// If the system has no more handles.
    pub fn split(self) -> io::Result<(Reader, Writer, Ending)> {
        split::split(self.connection, self.socket, self.shows)
    }

    /// Remembers a fault of TLS.
    fn noted<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &done
            && self.fault.is_none()
        {
            self.fault = Fault::of(error, self.shows, false);
        }
        done
    }
}

impl Read for Encrypted {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = loop {
            match self.connection.reader().read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => break read,
            }
            match self.connection.complete_io(&mut self.socket) {
                Err(error) => break Err(error),
                // The other end has closed the connection.
                Ok((0, 0)) => break self.connection.reader().read(bytes),
                Ok(_) => {}
            }
        };
        self.noted(read)
    }
}

impl Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // What was encrypted before and was not sent yet; it may be as much as is kept.
        if self.connection.wants_write() {
            let sent = self.connection.write_tls(&mut self.socket).map(drop);
            self.noted(sent)?;
        }
        let written = self.connection.writer().write(bytes);
        if self.connection.wants_write() {
            // What can't be sent now is sent with the next bytes, or by `flush`.
            match self.connection.write_tls(&mut self.socket) {
                Err(error) if !is_late(&error) => return self.noted(Err(error)),
                _ => {}
            }
        }
        self.noted(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            let sent = self.connection.write_tls(&mut self.socket).map(drop);
            self.noted(sent)?;
        }
        self.socket.flush()
    }
}
