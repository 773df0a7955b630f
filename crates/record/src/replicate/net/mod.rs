//! Replication over TCP, with or without [TLS](tls).
//!
//! Each message follows its length, a u32. Without TLS, or with TLS that does not ask for
//! certificates, anyone who can connect can read the whole store.

pub mod tls;

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ibid_format::record::MESSAGE_BYTES_MAX;

use super::Sender;
use super::follow::{LOOK_EVERY, Oplog};
use crate::error::Error;
use crate::store::Store;

/// Longest request, bytes: it has a key and little else.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Most replicas at the same time.
const CONNECTIONS_MAX: usize = 64;
/// The longest silence of the other end.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The longest time to connect.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// A connection, encrypted or not.
pub(super) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// Answers all replicas that connect, each in a thread, until `stop` is set. With `tls` it answers
/// only those that use TLS and have the certificates that it asks for.
///
/// # Errors
/// [`Error::NoLog`]; [`Error::Network`] if it cannot listen. A connection that fails ends, and the
/// others go on.
pub fn serve(store: &Store, listener: &TcpListener, tls: Option<&tls::Server>, stop: &AtomicBool) -> Result<(), Error> {
    Sender::new(store)?;
    listener
        .set_nonblocking(true)
        .map_err(|error| network("wait for connections", &error))?;
    let connections = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) if connections.load(Ordering::Relaxed) < CONNECTIONS_MAX => {
                    connections.fetch_add(1, Ordering::Relaxed);
                    let connections = &connections;
                    scope.spawn(move || {
                        // A replica whose connection fails connects again.
                        let _ = answer_all(store, stream, tls, stop);
                        connections.fetch_sub(1, Ordering::Relaxed);
                    });
                }
                Ok(_) => {} // one too many: it is closed
                Err(error) if is_late(&error) => std::thread::sleep(LOOK_EVERY),
                // The other end gave up, or too many files are open, some of which will be closed.
                Err(_) => std::thread::sleep(LOOK_EVERY),
            }
        }
    });
    Ok(())
}

fn answer_all(store: &Store, stream: TcpStream, tls: Option<&tls::Server>, stop: &AtomicBool) -> Result<(), Error> {
    prepare(&stream)?;
    let mut stream: Box<dyn Stream> = match tls {
        Some(tls) => Box::new(tls.accept(stream)?),
        None => Box::new(stream),
    };
    let mut sender = Sender::new(store)?;
    while let Some(request) = receive(&mut stream, REQUEST_BYTES_MAX, stop)? {
        let answer = sender.answer(&request)?;
        send(&mut stream, &answer, stop)?;
    }
    Ok(())
}

/// A connection to a store that is served. It connects when it is asked something, and again after
/// an error.
pub struct Connection {
    address: String,
    tls: Option<tls::Client>,
    stream: Option<Box<dyn Stream>>,
}

impl Connection {
    /// Returns a connection to an address, `HOST:PORT`, without connecting. A name is looked up
    /// each time it connects.
    pub fn to(address: impl ToString) -> Self {
        Connection {
            address: address.to_string(),
            tls: None,
            stream: None,
        }
    }

    /// Uses TLS.
    #[must_use]
    pub fn with_tls(self, tls: tls::Client) -> Self {
        Connection { tls: Some(tls), ..self }
    }

    fn connect(&self) -> Result<Box<dyn Stream>, Error> {
        let failed = |error: io::Error| network("connect", &error);
        let mut stream = Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        for address in self.address.to_socket_addrs().map_err(failed)? {
            stream = TcpStream::connect_timeout(&address, CONNECT_MAX);
            if stream.is_ok() {
                break;
            }
        }
        let stream = stream.map_err(failed)?;
        prepare(&stream)?;
        Ok(match &self.tls {
            Some(tls) => Box::new(tls.connect(stream)?),
            None => Box::new(stream),
        })
    }
}

impl Oplog for Connection {
    fn answer(&mut self, request: &[u8], stop: &AtomicBool) -> Result<Option<Vec<u8>>, Error> {
        // A connection is not used again after an error: a late answer would be taken for the next.
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        send(&mut stream, request, stop)?;
        match receive(&mut stream, MESSAGE_BYTES_MAX, stop)? {
            Some(answer) => {
                self.stream = Some(stream);
                Ok(Some(answer))
            }
            None if stop.load(Ordering::Relaxed) => Ok(None),
            None => Err(ended("receive")),
        }
    }
}

pub(super) fn prepare(stream: &TcpStream) -> Result<(), Error> {
    let prepared = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_nodelay(true))
        .and_then(|()| stream.set_read_timeout(Some(LOOK_EVERY)))
        .and_then(|()| stream.set_write_timeout(Some(LOOK_EVERY)));
    prepared.map_err(|error| network("set up a connection", &error))
}

/// Receives a message; [`None`] if the other end closed the connection before one began, or `stop`
/// was set.
fn receive(stream: &mut impl Read, most: usize, stop: &AtomicBool) -> Result<Option<Vec<u8>>, Error> {
    let mut length = [0; 4];
    match fill(stream, &mut length, stop)? {
        0 => return Ok(None),
        4 => {}
        _ => return Err(ended("receive")),
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > most {
        let (field, min, max, found) = ("length of a message", 0, most as u64, length as u64);
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
    while message.len() < length {
        let from = message.len();
        message.resize(length.min(from + STEP), 0);
        if fill(stream, &mut message[from..], stop)? < message.len() - from {
            return Err(ended("receive"));
        }
    }
    Ok(Some(message))
}

/// Reads until `bytes` are full, the other end has closed the connection, or `stop` is set. Returns
/// how many bytes were read.
fn fill(stream: &mut impl Read, bytes: &mut [u8], stop: &AtomicBool) -> Result<usize, Error> {
    let (mut filled, mut heard) = (0, Instant::now());
    while filled < bytes.len() {
        match stream.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(more) => (filled, heard) = (filled + more, Instant::now()),
            Err(error) if is_late(&error) && stop.load(Ordering::Relaxed) => break,
            Err(error) if is_late(&error) && heard.elapsed() < SILENCE_MAX => {}
            Err(error) => return Err(network("receive", &error)),
        }
    }
    Ok(filled)
}

fn send(stream: &mut impl Write, message: &[u8], stop: &AtomicBool) -> Result<(), Error> {
    let length = (message.len() as u32).to_le_bytes();
    let mut heard = Instant::now();
    for mut bytes in [&length[..], message] {
        while !bytes.is_empty() {
            match stream.write(bytes) {
                Ok(0) => return Err(ended("send")),
                Ok(more) => (bytes, heard) = (&bytes[more..], Instant::now()),
                Err(error) => go_on("send", error, heard, stop)?,
            }
        }
    }
    // TLS may have encrypted bytes that are not sent yet.
    while let Err(error) = stream.flush() {
        go_on("send", error, heard, stop)?;
    }
    Ok(())
}

/// Returns whether to try again after a time limit: not if the other end was silent for too long,
/// or `stop` is set.
fn go_on(operation: &'static str, error: io::Error, heard: Instant, stop: &AtomicBool) -> Result<(), Error> {
    if !is_late(&error) || heard.elapsed() >= SILENCE_MAX {
        return Err(network(operation, &error));
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Network {
            operation,
            found: "it was told to stop".to_owned(),
        });
    }
    Ok(())
}

pub(super) fn is_late(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

fn network(operation: &'static str, error: &io::Error) -> Error {
    let found = error.to_string();
    if tls::is_refusal(error) {
        let what = "one end of the connection";
        return Error::Certificate { what, found };
    }
    Error::Network { operation, found }
}

fn ended(operation: &'static str) -> Error {
    let found = "the other end closed the connection".to_owned();
    Error::Network { operation, found }
}
