//! A server for many clients, over TLS.
//!
//! A client without a certificate of the right authorities gets no further than to agree on how to encrypt: for at
//! most a few seconds, and with the oldest giving way where there are many. Each other client is answered by threads of
//! its own, and all of them together keep to one limit of memory.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use ibid_tls::{CertificateError, Ending, Identity, NoTls, Reader, Writer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::answer::BUSY;
use super::budget::Budget;
use super::frame::put_text;
use super::greeting::greeting;
use super::keep_alive::{keep_alive, reason};
use super::line::Line;
use super::server::{Neighbours, serve_beside};
use super::serving::{ListenOptions, OpenStorage, ServeError};

/// Connections that have yet to agree on how to encrypt.
const HANDSHAKES_MAX: usize = 32;
/// How long they may take for it, and then for their greeting.
const BEGIN_MAX: Duration = Duration::from_secs(10);
/// Connections with one certificate.
const SAME_MAX: usize = 16;
/// Bytes of a greeting, at least.
const GREETING_MIN: usize = 9;
/// How long a client may take no byte of an answer.
const UNREAD_MAX: Duration = Duration::from_secs(300);
/// How long it is waited for clients to end when the server is stopped, and for one to read why it is refused.
const STOP_MAX: Duration = Duration::from_secs(10);
const DRAIN_MAX: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Bytes of a window, at least and at most.
const WINDOWS: std::ops::RangeInclusive<u64> = 1 << 16..=128 << 20;

/// What a server shows, and the authorities of its clients: there is no server without either.
#[derive(Clone, Debug)]
pub struct MutualTls(ibid_tls::Server);

impl MutualTls {
    /// Returns settings with which a server shows `identity` and answers clients with a certificate of one of
    /// `clients`, PEM.
    ///
    /// # Errors
    /// If any of them can't be used.
    pub fn new(identity: Identity<'_>, clients: &[u8]) -> Result<MutualTls, CertificateError> {
        ibid_tls::Server::new(identity, Some(clients)).map(MutualTls)
    }
}

/// Answers all clients that connect, until `stop` is set. `told` learns which ones were not answered, and why.
///
/// When it is stopped, what clients have sent whole is stored.
///
/// # Errors
/// If it can't be listened. That a client fails ends its connection alone.
pub fn listen(
    listener: &TcpListener,
    tls: &MutualTls,
    open: &OpenStorage<'_>,
    options: &ListenOptions,
    stop: &AtomicBool,
    told: &(dyn Fn(SocketAddr, String) + Sync),
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    // Windows count twice: for what comes, and for what is read.
    let part = options.memory / 4;
    let server = Listening {
        tls,
        open,
        options,
        stop,
        told,
        connections: Mutex::default(),
        left: Condvar::new(),
        windows: part,
        coming: Arc::new(Budget::new(part, usize::MAX)),
        reading: Arc::new(Budget::new(part, usize::MAX)),
    };
    std::thread::scope(|scope| {
        for number in 0.. {
            let Some((stream, peer)) = next(listener, stop) else {
                break;
            };
            let server = &server;
            server.add_handshake(number, &stream);
            let spawned = Builder::new().spawn_scoped(scope, move || {
                server.receive(number, stream, peer);
                server.forget(number);
            });
            if spawned.is_err() {
                server.forget(number);
            }
        }
        server.close();
    });
    Ok(())
}

/// Returns the next client, unless it is to be stopped.
fn next(listener: &TcpListener, stop: &AtomicBool) -> Option<(TcpStream, SocketAddr)> {
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: LOOK_EVERY.subsec_nanos().into(),
    };
    while !stop.load(Relaxed) {
        match listener.accept() {
            Ok(client) => return Some(client),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout));
            }
            // The client is gone already, or too many files are open, some of which will be closed.
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
    None
}

struct Listening<'s> {
    tls: &'s MutualTls,
    open: &'s OpenStorage<'s>,
    options: &'s ListenOptions,
    stop: &'s AtomicBool,
    told: &'s (dyn Fn(SocketAddr, String) + Sync),
    connections: Mutex<Connections>,
    left: Condvar,
    /// Bytes of all windows together.
    windows: u64,
    coming: Arc<Budget>,
    reading: Arc<Budget>,
}

#[derive(Default)]
struct Connections {
    /// Those that have yet to agree on how to encrypt, the oldest first.
    handshakes: VecDeque<(u64, TcpStream)>,
    clients: HashMap<u64, Client>,
    /// Bytes of the windows that are given.
    windows: u64,
}

struct Client {
    certificate: Vec<u8>,
    window: u64,
    ending: Arc<Ending>,
}

impl Listening<'_> {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a connection that begins; the oldest one gives way if there are too many.
    fn add_handshake(&self, number: u64, stream: &TcpStream) {
        let Ok(stream) = stream.try_clone() else { return };
        let mut connections = self.connections();
        connections.handshakes.push_back((number, stream));
        if connections.handshakes.len() > HANDSHAKES_MAX
            && let Some((_, oldest)) = connections.handshakes.pop_front()
        {
            let _ = oldest.shutdown(Shutdown::Both);
        }
    }

    /// Forgets a connection that has ended.
    fn forget(&self, number: u64) {
        let mut connections = self.connections();
        connections.handshakes.retain(|(of, _)| *of != number);
        if let Some(client) = connections.clients.remove(&number) {
            connections.windows -= client.window;
        }
        drop(connections);
        self.left.notify_all();
    }

    /// Answers a client, from its first byte to its last.
    fn receive(&self, number: u64, stream: TcpStream, peer: SocketAddr) {
        let Ok(raw) = stream.try_clone() else { return };
        if let Err(why) = self.answer(number, stream) {
            (self.told)(peer, why);
            // If unread bytes were left, the client might not get to read why.
            drain(raw, self.stop);
        }
    }

    fn answer(&self, number: u64, stream: TcpStream) -> Result<(), String> {
        let system = |error: io::Error| reason(&error);
        stream.set_nonblocking(false).map_err(system)?;
        stream.set_nodelay(true).map_err(system)?;
        stream.set_read_timeout(Some(LOOK_EVERY)).map_err(system)?;
        stream.set_write_timeout(Some(LOOK_EVERY)).map_err(system)?;
        keep_alive(&stream).map_err(system)?;
        let until = Instant::now() + BEGIN_MAX;
        let waits = || Instant::now() < until && !self.stop.load(Relaxed);
        let encrypted = self.tls.0.accept(stream, waits).map_err(|why| match why {
            NoTls::Fault(fault) => fault.to_string(),
            NoTls::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                "it has closed the connection before it was encrypted".to_owned()
            }
            NoTls::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
                "it took too long to agree on how to encrypt".to_owned()
            }
            NoTls::Io(error) => reason(&error),
        })?;
        let certificate = encrypted.certificate().unwrap_or_default().to_owned();
        let (reader, writer, ending) = encrypted.split().map_err(system)?;
        let ending = Arc::new(ending);
        match self.admit(number, certificate, &ending) {
            Ok(window) => self.serve(window, &ending, reader, writer),
            Err(why) => {
                say_busy(writer, &why);
                Err(why)
            }
        }
    }

    /// Takes in a client that has shown its certificate; returns its window.
    fn admit(&self, number: u64, certificate: Vec<u8>, ending: &Arc<Ending>) -> Result<u64, String> {
        let mut connections = self.connections();
        if self.stop.load(Relaxed) {
            return Err("the server is being stopped".to_owned());
        }
        let most = self.options.clients_max;
        if connections.clients.len() >= most {
            return Err(format!("the server has {most} clients, as many as it takes at once"));
        }
        let of_same = connections
            .clients
            .values()
            .filter(|client| client.certificate == certificate);
        if of_same.count() >= SAME_MAX {
            return Err(format!(
                "there are {SAME_MAX} connections with this certificate, as many as may be at once"
            ));
        }
        // Room for the least window of all that may still come, and half of what is left for this one.
        let least = (self.windows / 2 / most.max(1) as u64).max(*WINDOWS.start());
        let reserved = least * (most - connections.clients.len()) as u64;
        let free = self.windows.saturating_sub(connections.windows + reserved);
        let window = (least + free / 2).min(*WINDOWS.end());
        connections.handshakes.retain(|(of, _)| *of != number);
        connections.windows += window;
        let ending = ending.clone();
        connections.clients.insert(
            number,
            Client {
                certificate,
                window,
                ending,
            },
        );
        Ok(window)
    }

    fn serve(&self, window: u64, ending: &Arc<Ending>, reader: Reader, writer: Writer) -> Result<(), String> {
        let timeout = ending.socket().set_write_timeout(Some(UNREAD_MAX));
        timeout.map_err(|error| reason(&error))?;
        let requests = Requests {
            reader,
            ending: ending.clone(),
            until: Instant::now() + BEGIN_MAX,
            missing: GREETING_MIN,
        };
        let neighbours = Neighbours {
            window,
            coming: Some(self.coming.clone()),
            reading: Some(self.reading.clone()),
            give_up: &|| drop(ending.end()),
        };
        let served = serve_beside(self.open, requests, writer, &self.options.serve, &neighbours);
        served.map_err(|error| match error {
            ServeError::Io(error) => format!("requests can't be read: {}", reason(&error)),
            error => error.to_string(),
        })
    }

    /// Ends all connections: first what comes, so that what has come is stored, and then all.
    fn close(&self) {
        let until = Instant::now() + STOP_MAX;
        let mut connections = self.connections();
        connections
            .clients
            .values()
            .for_each(|client| client.ending.end_reading());
        while !connections.clients.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                connections
                    .clients
                    .values()
                    .for_each(|client| drop(client.ending.end()));
                return;
            }
            let waited = self.left.wait_timeout(connections, left);
            connections = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The stream of requests of a client, which has to begin soon.
struct Requests {
    reader: Reader,
    ending: Arc<Ending>,
    until: Instant,
    /// Bytes of the greeting that have yet to come.
    missing: usize,
}

impl Read for Requests {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.reader.read(bytes) {
                Ok(read) if self.missing > 0 => {
                    self.missing = self.missing.saturating_sub(read);
                    if self.missing == 0 {
                        // From here on it may be silent for as long as it likes.
                        self.ending.socket().set_read_timeout(None)?;
                    } else if Instant::now() > self.until {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() > self.until {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                read => return read,
            }
        }
    }
}

/// Tells a client that there is no room for it now.
fn say_busy(writer: Writer, why: &str) {
    let mut fields = Vec::new();
    put_text(&mut fields, why);
    let line = Line::new(writer);
    let _ = line.send_raw(&greeting()).and_then(|()| line.send(0, BUSY, &[&fields]));
}

/// Reads what a client still sends, until it closes the connection.
fn drain(mut stream: TcpStream, stop: &AtomicBool) {
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(LOOK_EVERY));
    let (begun, mut bytes) = (Instant::now(), [0; 4096]);
    while begun.elapsed() < DRAIN_MAX && !stop.load(Relaxed) {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => return,
        }
    }
}
