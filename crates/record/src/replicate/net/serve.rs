//! The end of a connection that answers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::message::{Peer, network};
use super::{SILENCE_MAX, Stream, is_late, prepare, reason, tls};
use crate::error::Error;
use crate::replicate::Sender;
use crate::replicate::follow::LOOK_EVERY;
use crate::replicate::transfers::Transfers;
use crate::store::Store;

/// Longest request, bytes: it has a key and little else.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Most replicas at the same time.
const CONNECTIONS_MAX: usize = 64;
/// The longest silence of a replica while others wait for the memory of its answer.
const SILENCE_WHILE_WAITED_FOR_MAX: Duration = Duration::from_secs(5);
/// How long to wait for the other end to close a connection that has failed.
const FAREWELL_MAX: Duration = Duration::from_secs(2);
/// The answer to it, where there is no TLS: no message of TLS.
const NO_TLS: &[u8] = b"this store is served without TLS\n";

/// Answers all replicas that connect, each in a thread, until `stop` is set. With `tls` it answers
/// only those that use TLS and have the certificates that it asks for.
///
/// A replica that copies the whole store and connects again within ten minutes continues its copy,
/// whatever has changed since.
///
/// # Errors
/// [`Error::NoLog`]; [`Error::Incomplete`], because such a store can answer nothing;
/// [`Error::Network`] if it cannot listen. A connection that fails ends, and the others go on.
pub fn serve(store: &Store, listener: &TcpListener, tls: Option<&tls::Server>, stop: &AtomicBool) -> Result<(), Error> {
    Sender::new(store)?.check_complete()?;
    listener.set_nonblocking(true).map_err(|error| {
        let at = listener.local_addr().map(|at| at.to_string());
        network(&at.unwrap_or_default(), "listen at", reason(&error))
    })?;
    let connections = AtomicUsize::new(0);
    let transfers = Arc::new(Transfers::default());
    std::thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            transfers.forget_silent();
            match listener.accept() {
                Ok((stream, _)) if connections.load(Ordering::Relaxed) < CONNECTIONS_MAX => {
                    connections.fetch_add(1, Ordering::Relaxed);
                    let (connections, transfers) = (&connections, transfers.clone());
                    scope.spawn(move || {
                        // A replica whose connection fails connects again.
                        let _ = answer(store, stream, tls, transfers, stop);
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

/// Answers one replica until the connection ends.
fn answer(
    store: &Store,
    stream: TcpStream,
    tls: Option<&tls::Server>,
    transfers: Arc<Transfers>,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let address = stream
        .peer_addr()
        .map(|address| address.to_string())
        .unwrap_or_default();
    let failed = |error: io::Error| network(&address, "answer", reason(&error));
    prepare(&stream).map_err(failed)?;
    let end = stream.try_clone().map_err(failed)?;
    let answered = answer_all(store, stream, &address, tls, transfers, stop);
    if answered.is_err() {
        // If unread bytes were left, the other end might not get to read why.
        let _ = say_farewell(end, stop);
    }
    answered
}

fn answer_all(
    store: &Store,
    stream: TcpStream,
    address: &str,
    tls: Option<&tls::Server>,
    transfers: Arc<Transfers>,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let stream: Box<dyn Stream> = match tls {
        Some(tls) => Box::new(tls.accept(stream, address, stop)?),
        None if wants_tls(&stream, stop) => {
            let _ = (&stream).write_all(NO_TLS);
            let found = "it uses TLS, and the store is served without".to_owned();
            return Err(network(address, "answer", found));
        }
        None => Box::new(stream),
    };
    let address = address.to_owned();
    let mut peer = Peer { stream, address };
    let mut sender = Sender::with_transfers(store, transfers)?;
    let answering = sender.answering();
    while let Some(request) = peer.receive(REQUEST_BYTES_MAX, stop)? {
        let mut turn = answering.turn();
        if !answering.waits_for_room(&turn, sender.message_bytes(), stop) {
            break;
        }
        let answer = sender.answer_in(&mut turn, &request)?;
        // It may have become longer.
        if !answering.waits_for_room(&turn, answer.len(), stop) {
            break;
        }
        let sending = answering.send(turn, answer.len());
        peer.send(&answer, stop, &|| match sending.is_waited_for() {
            true => SILENCE_WHILE_WAITED_FOR_MAX,
            false => SILENCE_MAX,
        })?;
    }
    Ok(())
}

/// Returns whether a client begins with TLS: with the type of a message, and a version from 3.1 on. No request
/// without TLS is so long.
fn wants_tls(stream: &TcpStream, stop: &AtomicBool) -> bool {
    let (begun, mut first) = (Instant::now(), [0; 3]);
    while !stop.load(Ordering::Relaxed) && begun.elapsed() < SILENCE_MAX {
        match stream.peek(&mut first) {
            Ok(3) => return first[..2] == [22, 3] && first[2] > 0,
            Ok(0) => return false,
            Ok(_) => std::thread::sleep(LOOK_EVERY),
            Err(error) if is_late(&error) => {}
            Err(_) => return false,
        }
    }
    false
}

/// Reads what the other end still sends, until it closes the connection.
fn say_farewell(mut stream: TcpStream, stop: &AtomicBool) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let (begun, mut bytes) = (Instant::now(), [0; 4096]);
    while begun.elapsed() < FAREWELL_MAX && !stop.load(Ordering::Relaxed) {
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if is_late(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
