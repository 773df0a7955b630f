//! The protocol of NATS: lines of text, some followed by bytes.
//!
//! ```text
//! server: INFO {…}                                         first, and when something has changed
//! client: CONNECT {…}
//! client: SUB SUBJECT NUMBER                               subscribe to the subject
//! client: PUB SUBJECT [REPLY] BYTES                        with the payload on the next line
//! client: HPUB SUBJECT [REPLY] HEADER_BYTES ALL_BYTES      with headers and payload
//! server: MSG SUBJECT NUMBER [REPLY] BYTES                 with the payload
//! server: HMSG SUBJECT NUMBER [REPLY] HEADER_BYTES ALL_BYTES
//! both:   PING, PONG
//! server: +OK, -ERR 'text'
//! ```
//!
//! Replication needs six calls, and each waits for its answer. So this is a socket and a buffer
//! instead of a library with a runtime.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::address::Server;
use crate::error::Error;
use crate::replicate::net::{Stream, is_late, prepare, reason, tls};
use crate::write::oplog;

/// Longest line, bytes. The line with INFO names all servers of a cluster.
const LINE_BYTES_MAX: usize = 1 << 18;
/// Longest payload with headers that is accepted, bytes: the most that a server can be configured
/// to pass.
const PAYLOAD_BYTES_MAX: usize = 64 << 20;
/// Longest text that a server draws to be signed, bytes.
const NONCE_BYTES_MAX: usize = 256;
/// How long a server may be silent before it gets a PING.
const SILENCE: Duration = Duration::from_secs(5);
/// How long a server may be silent before the connection counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// How long a server may take to connect and greet.
const GREETING_MAX: Duration = Duration::from_secs(5);
/// The number of the subscription to answers.
const INBOX: u64 = 1;
/// The number of the subscription to requests.
const SUBSCRIPTION: u64 = 2;

/// A line that a server sends.
#[derive(Debug, PartialEq, Eq)]
enum ServerLine {
    Info(Vec<u8>),
    Message(Message),
    Ping,
    Pong,
    Ok,
    Error(String),
}

/// A message to a subject.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    subscription: u64,
    subject: String,
    /// The subject of the answer; empty if no answer is expected.
    pub(super) reply: String,
    /// The status in the first line of the headers; 0 without one.
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) payload: Vec<u8>,
}

impl Message {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(found, _)| found == name).map(|(_, value)| &value[..])
    }
}

/// A connection to a server.
pub(super) struct Wire {
    stream: Box<dyn Stream>,
    /// The host and port of the server.
    address: String,
    /// Bytes that were received and not parsed yet.
    received: Vec<u8>,
    heard: Instant,
    pinged: Instant,
    /// What may be wrong if the server lets this client not in.
    doubtful: &'static str,
    inbox: String,
    requests: u64,
    /// Longest payload with headers that the server passes, bytes.
    pub(super) payload_bytes_max: usize,
    /// Whether the server is one of a cluster.
    pub(super) is_clustered: bool,
}

impl Wire {
    /// Connects and logs in.
    pub(super) fn connect(server: &Server, stop: &AtomicBool) -> Result<Self, Error> {
        let mut why = None;
        let address = format!("{}:{}", server.host, server.port);
        let places = address.to_socket_addrs();
        let mut places = places.map_err(|error| refused("find the NATS server", &format!("{address}: {error}")))?;
        let failed =
            |error: io::Error| refused("connect to the NATS server", &format!("{address}: {}", reason(&error)));
        let found = places.find_map(|address| {
            let connected = TcpStream::connect_timeout(&address, GREETING_MAX);
            connected.map_err(|error| why = Some(error)).ok()
        });
        let no_address = || io::Error::new(io::ErrorKind::NotFound, "it has no address");
        let stream = found.ok_or_else(|| failed(why.unwrap_or_else(no_address)))?;
        prepare(&stream).map_err(failed)?;
        let same = stream.try_clone().map_err(failed)?;
        let now = Instant::now();
        let mut wire = Wire {
            stream: Box::new(stream),
            address: address.clone(),
            received: Vec::new(),
            heard: now,
            pinged: now,
            doubtful: match server.credentials {
                Some(_) => "the credentials may have ended, or are of another account",
                None => "wrong user, password or token",
            },
            inbox: format!("_INBOX.{:016x}{:016x}", oplog::random()?, oplog::random()?),
            requests: 0,
            payload_bytes_max: 0,
            is_clustered: false,
        };
        let until = now + GREETING_MAX;
        let silent = || refused("connect to the NATS server", &format!("{address} sends no greeting"));
        let Some(ServerLine::Info(info)) = wire.receive(until, stop)? else {
            return Err(silent());
        };
        let info = read_info(&info)?;
        wire.learn(&info);
        if let Some(fault) = server.fault(&info) {
            return Err(Error::Tls { address, fault });
        }
        if let Some(tls) = &server.tls {
            // Bytes before TLS are from an unknown sender.
            if !wire.received.is_empty() {
                return Err(refused(
                    "connect to the NATS server",
                    "it sends more than its greeting before TLS",
                ));
            }
            wire.stream = Box::new(tls.connect(same, &address, stop)?);
        }
        let said = server.connect(&info)?;
        let inbox = format!("SUB {}.* {INBOX}\r\n", wire.inbox);
        wire.send(
            &[b"CONNECT ", said.as_bytes(), b"\r\n", inbox.as_bytes(), b"PING\r\n"],
            stop,
        )?;
        loop {
            match wire.receive(until, stop)?.ok_or_else(silent)? {
                ServerLine::Pong => return Ok(wire),
                said => wire.handle(said, stop).map(drop)?,
            }
        }
    }

    fn learn(&mut self, info: &Value) {
        let most = info["max_payload"].as_u64().unwrap_or_default();
        self.payload_bytes_max = usize::try_from(most)
            .unwrap_or(PAYLOAD_BYTES_MAX)
            .min(PAYLOAD_BYTES_MAX);
        self.is_clustered = info["cluster"].as_str().is_some_and(|name| !name.is_empty());
    }

    /// Subscribes to a subject.
    pub(super) fn subscribe(&mut self, subject: &str, stop: &AtomicBool) -> Result<(), Error> {
        self.send(&[format!("SUB {subject} {SUBSCRIPTION}\r\n").as_bytes()], stop)
    }

    /// Returns the next message to the subscribed subject; [`None`] if there was none until
    /// `until`.
    pub(super) fn next(&mut self, until: Instant, stop: &AtomicBool) -> Result<Option<Message>, Error> {
        while let Some(said) = self.receive(until, stop)? {
            match self.handle(said, stop)? {
                Some(message) if message.subscription == SUBSCRIPTION => return Ok(Some(message)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Publishes a message, and waits for the answer; [`None`] if `stop` was set before it came.
    pub(super) fn request(
        &mut self,
        subject: &str,
        headers: &str,
        payload: &[u8],
        within: Duration,
        stop: &AtomicBool,
    ) -> Result<Option<Message>, Error> {
        self.requests += 1;
        let reply = format!("{}.{}", self.inbox, self.requests);
        self.publish(subject, &reply, headers, payload, stop)?;
        let until = Instant::now() + within;
        while let Some(said) = self.receive(until, stop)? {
            match self.handle(said, stop)? {
                // Others are late answers to earlier requests.
                Some(message) if message.subscription == INBOX && message.subject == reply => {
                    return Ok(Some(message));
                }
                _ => {}
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        Err(refused(
            "get an answer through NATS",
            &format!("there was none to {subject} in {} s", within.as_secs()),
        ))
    }

    /// Publishes a message. `headers` are lines with their ends; without headers it is empty.
    pub(super) fn publish(
        &mut self,
        subject: &str,
        reply: &str,
        headers: &str,
        payload: &[u8],
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        if headers.is_empty() {
            let line = format!("PUB {subject} {reply} {}\r\n", payload.len());
            return self.send(&[line.as_bytes(), payload, b"\r\n"], stop);
        }
        let headers = format!("NATS/1.0\r\n{headers}\r\n");
        let all = headers.len() + payload.len();
        let line = format!("HPUB {subject} {reply} {} {all}\r\n", headers.len());
        self.send(&[line.as_bytes(), headers.as_bytes(), payload, b"\r\n"], stop)
    }

    /// Returns a message, and handles other lines.
    fn handle(&mut self, said: ServerLine, stop: &AtomicBool) -> Result<Option<Message>, Error> {
        match said {
            ServerLine::Message(message) => return Ok(Some(message)),
            ServerLine::Info(info) => self.learn(&read_info(&info)?),
            ServerLine::Ping => self.send(&[b"PONG\r\n"], stop)?,
            ServerLine::Pong | ServerLine::Ok => {}
            ServerLine::Error(why) if why.starts_with("Authorization") => {
                let found = format!("{}: {why}: {}", self.address, self.doubtful);
                return Err(refused("log in to the NATS server", &found));
            }
            ServerLine::Error(why) => return Err(refused("use the NATS server", &format!("{}: {why}", self.address))),
        }
        Ok(None)
    }

    /// Returns what the server sends next; [`None`] if that is nothing until `until`, or `stop` was
    /// set.
    fn receive(&mut self, until: Instant, stop: &AtomicBool) -> Result<Option<ServerLine>, Error> {
        loop {
            if let Some((said, taken)) = parse(&self.received)? {
                self.received.drain(..taken);
                return Ok(Some(said));
            }
            let now = Instant::now();
            if now >= until || stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            // Without a PING a long wait would not notice that the server is gone.
            if now.duration_since(self.heard.max(self.pinged)) > SILENCE {
                self.pinged = now;
                self.send(&[b"PING\r\n"], stop)?;
            }
            if now.duration_since(self.heard) > SILENCE_MAX {
                let found = format!("{}: it is silent", self.address);
                return Err(refused("receive from the NATS server", &found));
            }
            let from = self.received.len();
            self.received.resize(from + (1 << 16), 0);
            let read = self.stream.read(&mut self.received[from..]);
            self.received
                .truncate(from + read.as_ref().copied().unwrap_or_default());
            match read {
                Ok(0) => return Err(self.closed("receive from the NATS server")),
                Ok(_) => self.heard = Instant::now(),
                Err(error) if is_late(&error) => {}
                Err(error) => return Err(self.failed("receive from the NATS server", &error)),
            }
        }
    }

    fn send(&mut self, parts: &[&[u8]], stop: &AtomicBool) -> Result<(), Error> {
        let all = parts.concat();
        let (mut left, begun) = (&all[..], Instant::now());
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(0) => return Err(self.closed("send to the NATS server")),
                Ok(more) => left = &left[more..],
                Err(error) => self.go_on(&error, begun, stop)?,
            }
        }
        // TLS may have encrypted bytes that are not sent yet.
        while let Err(error) = self.stream.flush() {
            self.go_on(&error, begun, stop)?;
        }
        Ok(())
    }

    /// Returns whether to try again to send: not if the server has taken nothing for too long, or
    /// `stop` is set.
    fn go_on(&mut self, error: &io::Error, begun: Instant, stop: &AtomicBool) -> Result<(), Error> {
        if is_late(error) && !stop.load(Ordering::Relaxed) && begun.elapsed() < SILENCE_MAX {
            return Ok(());
        }
        Err(self.failed("send to the NATS server", error))
    }

    fn closed(&mut self, operation: &'static str) -> Error {
        let error = io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection");
        self.failed(operation, &error)
    }

    fn failed(&mut self, operation: &'static str, error: &io::Error) -> Error {
        let address = self.address.clone();
        match self.stream.fault() {
            Some(fault) => Error::Tls { address, fault },
            None => refused(operation, &format!("{address}: {}", reason(error))),
        }
    }
}

/// Parses the first line, and the message after it if there is one. Returns how many bytes it
/// takes; [`None`] if it is not complete yet.
fn parse(bytes: &[u8]) -> Result<Option<(ServerLine, usize)>, Error> {
    let Some(end) = bytes.iter().take(LINE_BYTES_MAX).position(|&byte| byte == b'\n') else {
        if bytes.len() >= LINE_BYTES_MAX {
            return Err(too_long("line of a NATS server", LINE_BYTES_MAX, bytes.len()));
        }
        return Ok(None);
    };
    let (line, begin) = (bytes[..end].trim_ascii_end(), end + 1);
    let (word, rest) = line.split_at(line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len()));
    let rest = rest.trim_ascii();
    let said = match &word.to_ascii_uppercase()[..] {
        b"INFO" => ServerLine::Info(rest.to_vec()),
        b"PING" => ServerLine::Ping,
        b"PONG" => ServerLine::Pong,
        b"+OK" => ServerLine::Ok,
        b"-ERR" => ServerLine::Error(String::from_utf8_lossy(rest).trim_matches('\'').to_owned()),
        b"MSG" | b"HMSG" => {
            let has_headers = word.len() == b"HMSG".len();
            return message(rest, has_headers, &bytes[begin..])
                .map(|found| found.map(|(message, taken)| (ServerLine::Message(message), begin + taken)));
        }
        _ => return Err(unknown("line of a NATS server", word)),
    };
    Ok(Some((said, begin)))
}

/// Parses a message, given its line and the bytes after it. Returns how many of these it takes.
fn message(line: &[u8], has_headers: bool, behind: &[u8]) -> Result<Option<(Message, usize)>, Error> {
    let wrong = || unknown("message of a NATS server", line);
    let line = std::str::from_utf8(line).map_err(|_| wrong())?;
    let mut words: Vec<&str> = line.split_ascii_whitespace().collect();
    let number = |words: &mut Vec<&str>| {
        words
            .pop()
            .and_then(|word| word.parse::<usize>().ok())
            .ok_or_else(wrong)
    };
    let all = number(&mut words)?;
    let header_bytes = if has_headers { number(&mut words)? } else { 0 };
    let (subject, subscription, reply) = match words[..] {
        [subject, subscription] => (subject, subscription, ""),
        [subject, subscription, reply] => (subject, subscription, reply),
        _ => return Err(wrong()),
    };
    if header_bytes > all {
        return Err(wrong());
    }
    if all > PAYLOAD_BYTES_MAX {
        return Err(too_long("message of a NATS server", PAYLOAD_BYTES_MAX, all));
    }
    // The payload ends with a line end.
    if behind.len() < all + 2 {
        return Ok(None);
    }
    let (headers, payload) = behind[..all].split_at(header_bytes);
    let headers = std::str::from_utf8(headers).map_err(|_| wrong())?;
    let mut headers = headers.lines();
    // `NATS/1.0`, or `NATS/1.0 404 Message Not Found`.
    let status = headers.next().and_then(|first| first.split_ascii_whitespace().nth(1));
    let named = headers.filter_map(|line| line.split_once(':'));
    let message = Message {
        subscription: subscription.parse().map_err(|_| wrong())?,
        subject: subject.to_owned(),
        reply: reply.to_owned(),
        status: status.and_then(|status| status.parse().ok()).unwrap_or_default(),
        headers: named
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect(),
        payload: payload.to_vec(),
    };
    Ok(Some((message, all + 2)))
}

impl Server {
    /// Returns why client and server can't use TLS together, as far as the server's INFO tells.
    fn fault(&self, info: &Value) -> Option<tls::Fault> {
        let says = |name: &str| info[name].as_bool() == Some(true);
        match &self.tls {
            None => says("tls_required").then_some(tls::Fault::OnlyTls),
            Some(_) if !says("tls_required") && !says("tls_available") => Some(tls::Fault::NoTls),
            Some(tls) => (says("tls_verify") && !tls.shows()).then_some(tls::Fault::CertificateRequired),
        }
    }

    /// Returns the JSON after CONNECT.
    fn connect(&self, info: &Value) -> Result<String, Error> {
        let mut said = json!({
            "verbose": false,
            "pedantic": false,
            "lang": "rust",
            "name": "ibid",
            "version": env!("CARGO_PKG_VERSION"),
            "protocol": 1,
            "headers": true,
            "no_responders": true,
            "tls_required": self.tls.is_some(),
        });
        if let Some(credentials) = &self.credentials {
            let nonce = info["nonce"].as_str().filter(|nonce| nonce.len() <= NONCE_BYTES_MAX);
            let nonce = nonce.ok_or_else(|| {
                let found = "it asks for no signature, so it is not set up for credentials";
                refused("log in to the NATS server", found)
            })?;
            said["jwt"] = json!(credentials.token);
            said["sig"] = json!(credentials.sign(nonce));
            return Ok(said.to_string());
        }
        match (&self.user, &self.password) {
            (Some(user), Some(password)) => {
                said["user"] = json!(user);
                said["pass"] = json!(password);
            }
            (Some(token), None) => said["auth_token"] = json!(token),
            _ => {}
        }
        Ok(said.to_string())
    }
}

/// Reads what a server says of itself.
fn read_info(info: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(info).map_err(|error| unreadable(&error))
}

pub(super) fn refused(operation: &'static str, found: &str) -> Error {
    let found = found.to_owned();
    Error::Nats { operation, found }
}

pub(super) fn unreadable(error: &serde_json::Error) -> Error {
    refused("read an answer of the NATS server", &error.to_string())
}

fn unknown(field: &'static str, found: &[u8]) -> Error {
    let found = found
        .iter()
        .take(8)
        .fold(0, |found, &byte| found << 8 | u64::from(byte));
    Error::Message(ibid_format::Error::Unknown { field, found })
}

fn too_long(field: &'static str, max: usize, found: usize) -> Error {
    let (min, max, found) = (0, max as u64, found as u64);
    Error::Message(ibid_format::Error::OutOfRange { field, min, max, found })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut bytes: &[u8]) -> Vec<ServerLine> {
        let mut said = Vec::new();
        while let Some((found, taken)) = parse(bytes).unwrap() {
            said.push(found);
            bytes = &bytes[taken..];
        }
        assert!(bytes.is_empty(), "{bytes:?} is left");
        said
    }

    #[test]
    fn a_line_is_parsed_once_it_is_complete() {
        let said = b"INFO {\"max_payload\":1048576}\r\nPING\r\npong\r\n+OK\r\n-ERR 'Unknown Protocol Operation'\r\n\
            MSG ibid.wiki.ask 2 _INBOX.a.1 4\r\nsame\r\n\
            HMSG _INBOX.a.1 1 22 26\r\nNATS/1.0\r\nA: b c\r\n\r\n\r\nidem\r\n\
            HMSG _INBOX.a.2 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n\
            MSG a 2 0\r\n\r\n";
        let message = |subscription, subject: &str, reply: &str, status, headers: &[(&str, &str)], payload: &str| {
            ServerLine::Message(Message {
                subscription,
                subject: subject.into(),
                reply: reply.into(),
                status,
                headers: headers.iter().map(|&(a, b)| (a.into(), b.into())).collect(),
                payload: payload.into(),
            })
        };
        let expected = [
            ServerLine::Info(b"{\"max_payload\":1048576}".to_vec()),
            ServerLine::Ping,
            ServerLine::Pong,
            ServerLine::Ok,
            ServerLine::Error("Unknown Protocol Operation".into()),
            message(2, "ibid.wiki.ask", "_INBOX.a.1", 0, &[], "same"),
            message(1, "_INBOX.a.1", "", 0, &[("A", "b c")], "idem"),
            message(1, "_INBOX.a.2", "", 503, &[], ""),
            message(2, "a", "", 0, &[], ""),
        ];
        assert_eq!(all(said), expected);
        // Byte by byte.
        let mut found = Vec::new();
        let mut came = Vec::new();
        for &byte in said {
            came.push(byte);
            while let Some((said, taken)) = parse(&came).unwrap() {
                came.drain(..taken);
                found.push(said);
            }
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn nonsense_is_an_error_and_takes_no_memory() {
        for nonsense in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"\r\n",
            b"MSG\r\n",
            b"MSG a 1\r\n",
            b"MSG a x 4\r\nsame\r\n",
            b"MSG a 1 b c 4\r\nsame\r\n",
            b"MSG a 1 -4\r\n",
            b"MSG a 1 99999999999999999999999\r\n",
            b"MSG a 1 18446744073709551615\r\n",
            b"MSG a 1 67108865\r\n",
            b"HMSG a 1 5 4\r\nsame\r\n",
            b"MSG \xff 1 4\r\nsame\r\n",
            b"HMSG a 1 4 4\r\n\xff\xff\xff\xff\r\n",
        ] {
            assert!(
                matches!(parse(nonsense), Err(Error::Message(_))),
                "{:?}",
                String::from_utf8_lossy(nonsense)
            );
        }
        let endless = vec![b'I'; LINE_BYTES_MAX];
        assert!(parse(&endless[1..]).unwrap().is_none());
        assert!(parse(&endless).is_err());
    }
}
