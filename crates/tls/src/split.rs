//! The two ends of a connection with TLS, for two threads.
//!
//! What encrypts and decrypts is under a lock, which is never held while bytes are waited for: where both sides write
//! until they are held up by what the other has not read, both go on reading.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::Connection;

use crate::Fault;

/// Bytes that are read from the socket at once.
const READ: usize = 64 << 10;
/// How long the last words may take to be sent.
const FAREWELL: Duration = Duration::from_secs(2);

struct Shared {
    connection: Mutex<Connection>,
    /// Whether this end has a certificate to show.
    shows: bool,
    /// The first fault of TLS that was found.
    fault: Mutex<Option<Fault>>,
}

impl Shared {
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self) -> MutexGuard<'_, Option<Fault>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What comes over a connection with TLS.
pub struct Reader {
    shared: Arc<Shared>,
    socket: TcpStream,
    /// What was read and is not decrypted yet.
    raw: Vec<u8>,
    from: usize,
}

/// What goes over a connection with TLS. When it is dropped, the other end sees the end of the stream.
pub struct Writer {
    shared: Arc<Shared>,
    socket: TcpStream,
    /// What is encrypted and not sent yet.
    out: Vec<u8>,
}

/// Ends a connection with TLS.
pub struct Ending {
    shared: Arc<Shared>,
    socket: TcpStream,
}

pub(crate) fn split(connection: Connection, socket: TcpStream, shows: bool) -> io::Result<(Reader, Writer, Ending)> {
    let shared = Arc::new(Shared {
        connection: Mutex::new(connection),
        shows,
        fault: Mutex::default(),
    });
    let reader = Reader {
        shared: shared.clone(),
        socket: socket.try_clone()?,
        raw: Vec::new(),
        from: 0,
    };
    let writer = Writer {
        shared: shared.clone(),
        socket: socket.try_clone()?,
        out: Vec::new(),
    };
    Ok((reader, writer, Ending { shared, socket }))
}

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        loop {
            let mut connection = self.shared.connection();
            // What was decrypted before comes first.
            match connection.reader().read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            if self.from == self.raw.len() {
                drop(connection);
                self.fill()?;
                connection = self.shared.connection();
            }
            let mut rest = &self.raw[self.from..];
            // Nothing left to read is the end of the stream, which is for the connection to judge.
            connection.read_tls(&mut rest)?;
            self.from = self.raw.len() - rest.len();
            let processed = connection.process_new_packets();
            drop(connection);
            if let Err(error) = processed {
                let error = io::Error::new(io::ErrorKind::InvalidData, error);
                let found = Fault::of(&error, self.shared.shows, false);
                let mut fault = self.shared.fault();
                *fault = fault.take().or(found);
                return Err(error);
            }
        }
    }
}

impl Reader {
    /// Reads what has come; nothing at the end of the stream.
    fn fill(&mut self) -> io::Result<()> {
        self.from = 0;
        self.raw.resize(READ, 0);
        let read = loop {
            match self.socket.read(&mut self.raw) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.raw.truncate(*read.as_ref().unwrap_or(&0));
        read.map(drop)
    }
}

impl Writer {
    /// Encrypts, and sends what was encrypted.
    fn send(&mut self, encrypt: impl FnOnce(&mut Connection) -> io::Result<usize>) -> io::Result<usize> {
        let mut connection = self.shared.connection();
        let written = encrypt(&mut connection);
        // Also what the reader had to answer, such as to a change of keys.
        while connection.wants_write() {
            connection.write_tls(&mut self.out)?;
        }
        drop(connection);
        let sent = self.socket.write_all(&self.out);
        self.out.clear();
        sent.and(written)
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(|connection| connection.writer().write(bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send(|connection| connection.writer().write_vectored(parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.socket.set_write_timeout(Some(FAREWELL));
        let _ = self.send(|connection| {
            connection.send_close_notify();
            Ok(0)
        });
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

impl Ending {
    /// Ends both streams, so that reads and writes return. Returns what keeps the two ends from using TLS together, if
    /// that ended them.
    #[must_use]
    pub fn end(&self) -> Option<Fault> {
        let _ = self.socket.shutdown(Shutdown::Both);
        self.shared.fault().clone()
    }

    /// Ends the stream that comes, as if the other end had closed it.
    pub fn end_reading(&self) {
        let _ = self.socket.shutdown(Shutdown::Read);
    }

    /// Returns the socket, to set how long it waits.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }
}
