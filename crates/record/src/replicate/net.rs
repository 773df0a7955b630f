//! The network between the one that asks and the one that answers: TCP, and nothing that the messages need.
//!
//! Each message comes after its length (u32). Whoever can connect gets all that is in the store: let only those connect who may have it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ibid_format::record::MESSAGE_BYTES_MAX;

use super::{Progress, Receiver, Sender};
use crate::store::{Error, Store};

/// Longest request, bytes: a key, and little else.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Replicas at the same time.
const CONNECTIONS_MAX: usize = 64;
/// How long the other end may say nothing.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long a connection may take to come about.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How often is looked whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often a replica that has everything asks again.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// How long it waits after the connection failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Answers all who connect, each in a thread, until `stop` is set.
///
/// # Errors
/// [`Error::NoLog`], [`Error::Network`] if there can be no connections at all. One that fails ends, and the others go on.
pub fn serve(store: &Store, listener: &TcpListener, stop: &AtomicBool) -> Result<(), Error> {
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
                        // Whatever is wrong with one connection, its replica connects again.
                        let _ = answer_all(store, stream, stop);
                        connections.fetch_sub(1, Ordering::Relaxed);
                    });
                }
                Ok(_) => {} // one too many, which is closed
                Err(error) if is_late(&error) => std::thread::sleep(LOOK_EVERY),
                // One that was given up before it was accepted; or there are too many files, some of which will be closed.
                Err(_) => std::thread::sleep(LOOK_EVERY),
            }
        }
    });
    Ok(())
}

fn answer_all(store: &Store, mut stream: TcpStream, stop: &AtomicBool) -> Result<(), Error> {
    prepare(&stream)?;
    let mut sender = Sender::new(store)?;
    while let Some(request) = receive(&mut stream, REQUEST_BYTES_MAX, stop)? {
        let answer = sender.answer(&request)?;
        send(&mut stream, &answer, stop)?;
    }
    Ok(())
}

/// Has a replica follow the store at an address, until `stop` is set. `progress` is told what each answer brought. A connection that fails is made again.
///
/// # Errors
/// What asking again will not help: [`Error::Refused`], [`Error::StalePrimary`], [`Error::Diverged`]; [`Error::Damaged`], [`Error::Engine`], [`Error::WriterEnded`],
/// [`Error::NoLog`] of the replica itself.
pub fn follow(
    store: &Store,
    address: SocketAddr,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let mut receiver = Receiver::new(store)?;
    while !stop.load(Ordering::Relaxed) {
        match ask_all(&mut receiver, address, stop, progress) {
            // A message that was damaged, or of another program, which may be replaced.
            Err(Error::Network { .. } | Error::Message(_)) => wait(RETRY_AFTER, stop),
            ended => return ended,
        }
    }
    Ok(())
}

fn ask_all(
    receiver: &mut Receiver,
    address: SocketAddr,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_MAX);
    let mut stream = stream.map_err(|error| network("connect", &error))?;
    prepare(&stream)?;
    while !stop.load(Ordering::Relaxed) {
        send(&mut stream, &receiver.ask()?, stop)?;
        let Some(answer) = receive(&mut stream, MESSAGE_BYTES_MAX, stop)? else {
            return Err(ended("receive"));
        };
        let done = receiver.take(&answer)?;
        progress(done);
        if done.is_current() {
            wait(ASK_EVERY, stop);
        }
    }
    Ok(())
}

fn prepare(stream: &TcpStream) -> Result<(), Error> {
    let prepared = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_nodelay(true))
        .and_then(|()| stream.set_read_timeout(Some(LOOK_EVERY)))
        .and_then(|()| stream.set_write_timeout(Some(LOOK_EVERY)));
    prepared.map_err(|error| network("set up a connection", &error))
}

/// A message; [`None`] if the other end closed the connection before one began, or there is nothing to wait for any more.
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
    // Memory for what came, not for what was announced.
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

/// Reads until `bytes` are full, the other end has closed, or the work is to stop; gives how many came.
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
    for mut bytes in [&length[..], message] {
        let mut heard = Instant::now();
        while !bytes.is_empty() {
            match stream.write(bytes) {
                Ok(0) => return Err(ended("send")),
                Ok(more) => (bytes, heard) = (&bytes[more..], Instant::now()),
                Err(error) if is_late(&error) && stop.load(Ordering::Relaxed) => return Err(ended("send")),
                Err(error) if is_late(&error) && heard.elapsed() < SILENCE_MAX => {}
                Err(error) => return Err(network("send", &error)),
            }
        }
    }
    Ok(())
}

fn wait(time: Duration, stop: &AtomicBool) {
    let begun = Instant::now();
    while begun.elapsed() < time && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY.min(time));
    }
}

fn is_late(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

fn network(operation: &'static str, error: &io::Error) -> Error {
    let found = error.to_string();
    Error::Network { operation, found }
}

fn ended(operation: &'static str) -> Error {
    let found = "the other end closed the connection".to_owned();
    Error::Network { operation, found }
}
