//! What is said to a NATS server, and what it says: lines of text, some with bytes behind them.
//!
//! ```text
//! server: INFO {…}                                         first of all, and when something changed
//! client: CONNECT {…}
//! client: SUB SUBJECT NUMBER                               send me what comes for it
//! client: PUB SUBJECT [REPLY] BYTES                        and the payload on the next line
//! client: HPUB SUBJECT [REPLY] HEADER_BYTES ALL_BYTES      and headers and payload
//! server: MSG SUBJECT NUMBER [REPLY] BYTES                 and the payload
//! server: HMSG SUBJECT NUMBER [REPLY] HEADER_BYTES ALL_BYTES
//! both:   PING, PONG
//! server: +OK, -ERR 'text'
//! ```
//!
//! Six calls are all that is needed, each of which waits for its answer: so this is a socket and a
//! buffer, and no library that brings a runtime.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::address::Server;
use crate::error::Error;
use crate::replicate::net::{Stream, is_late, prepare, tls};
use crate::write::oplog;

/// Longest line, bytes. One with INFO names all servers of a cluster.
const LINE_BYTES_MAX: usize = 1 << 18;
/// Longest payload with its headers that is taken from a server, bytes: as long as a server may be
/// told to let pass.
const PAYLOAD_BYTES_MAX: usize = 64 << 20;
/// How long a server may say nothing before it is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(5);
/// How long after that until it is not.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// How long a server may take for what it does first.
const GREETING_MAX: Duration = Duration::from_secs(5);
/// The number of the subscription to answers.
const INBOX: u64 = 1;
/// The number of the other one.
const SUBSCRIPTION: u64 = 2;

/// What a server says.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Info(Vec<u8>),
    Message(Message),
    Ping,
    Pong,
    Ok,
    Error(String),
}

/// What came for a subject.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    subscription: u64,
    subject: String,
    /// Where an answer is expected; empty if none is.
    pub(super) reply: String,
    /// Of the first line of the headers; 0 without.
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
    /// What came and was not taken yet.
    came: Vec<u8>,
    heard: Instant,
    pinged: Instant,
    inbox: String,
    requests: u64,
    /// Longest payload with its headers that the server lets pass, bytes.
    pub(super) payload_bytes_max: usize,
    /// Whether it is one of several.
    pub(super) is_clustered: bool,
}

impl Wire {
    /// Connects, and says who asks.
    pub(super) fn connect(server: &Server, stop: &AtomicBool) -> Result<Self, Error> {
        let mut why = None;
        let address = format!("{}:{}", server.host, server.port);
        let places = address.to_socket_addrs();
        let mut places = places.map_err(|error| refused("find the NATS server", &format!("{address}: {error}")))?;
        let found = places.find_map(|address| {
            let connected = TcpStream::connect_timeout(&address, GREETING_MAX);
            connected.map_err(|error| why = Some(error)).ok()
        });
        let stream = found.ok_or_else(|| {
            let why = why.map_or_else(|| "it has no address".to_owned(), |error| error.to_string());
            refused("connect to the NATS server", &format!("{address}: {why}"))
        })?;
        prepare(&stream)?;
        let same = stream.try_clone();
        let same = same.map_err(|error| failed("connect to the NATS server", &error))?;
        let now = Instant::now();
        let mut wire = Wire {
            stream: Box::new(stream),
            came: Vec::new(),
            heard: now,
            pinged: now,
            inbox: format!("_INBOX.{:016x}{:016x}", oplog::random()?, oplog::random()?),
            requests: 0,
            payload_bytes_max: 0,
            is_clustered: false,
        };
        let until = now + GREETING_MAX;
        let silent = || refused("connect to the NATS server", &format!("{address} does not greet"));
        let Some(Said::Info(info)) = wire.hear(until, stop)? else {
            return Err(silent());
        };
        wire.learn(&info)?;
        if let Some(tls) = &server.tls {
            // What came before is of nobody who was believed.
            if !wire.came.is_empty() {
                return Err(refused(
                    "connect to the NATS server",
                    "it says more than it should before TLS",
                ));
            }
            wire.stream = Box::new(tls.connect(same)?);
        }
        let said = server.connect(&info)?;
        let inbox = format!("SUB {}.* {INBOX}\r\n", wire.inbox);
        wire.say(
            &[b"CONNECT ", said.as_bytes(), b"\r\n", inbox.as_bytes(), b"PING\r\n"],
            stop,
        )?;
        loop {
            match wire.hear(until, stop)?.ok_or_else(silent)? {
                Said::Pong => return Ok(wire),
                said => wire.mind(said, stop).map(drop)?,
            }
        }
    }

    fn learn(&mut self, info: &[u8]) -> Result<(), Error> {
        let info: Value = serde_json::from_slice(info).map_err(|error| unreadable(&error))?;
        let most = info["max_payload"].as_u64().unwrap_or_default();
        self.payload_bytes_max = usize::try_from(most)
            .unwrap_or(PAYLOAD_BYTES_MAX)
            .min(PAYLOAD_BYTES_MAX);
        self.is_clustered = info["cluster"].as_str().is_some_and(|name| !name.is_empty());
        Ok(())
    }

    /// Has what comes for a subject sent here.
    pub(super) fn subscribe(&mut self, subject: &str, stop: &AtomicBool) -> Result<(), Error> {
        self.say(&[format!("SUB {subject} {SUBSCRIPTION}\r\n").as_bytes()], stop)
    }

    /// What came for the subject that was subscribed to; [`None`] if nothing did until a moment.
    pub(super) fn next(&mut self, until: Instant, stop: &AtomicBool) -> Result<Option<Message>, Error> {
        while let Some(said) = self.hear(until, stop)? {
            match self.mind(said, stop)? {
                Some(message) if message.subscription == SUBSCRIPTION => return Ok(Some(message)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Publishes something, and waits for an answer. [`None`] if `stop` was set before there was
    /// one.
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
        while let Some(said) = self.hear(until, stop)? {
            match self.mind(said, stop)? {
                // Others are late answers to what was asked before.
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

    /// Publishes something. `headers` are lines, each with its end; none if it is empty.
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
            return self.say(&[line.as_bytes(), payload, b"\r\n"], stop);
        }
        let headers = format!("NATS/1.0\r\n{headers}\r\n");
        let all = headers.len() + payload.len();
        let line = format!("HPUB {subject} {reply} {} {all}\r\n", headers.len());
        self.say(&[line.as_bytes(), headers.as_bytes(), payload, b"\r\n"], stop)
    }

    /// Does what something that is no message asks for; gives it back if it is one.
    fn mind(&mut self, said: Said, stop: &AtomicBool) -> Result<Option<Message>, Error> {
        match said {
            Said::Message(message) => return Ok(Some(message)),
            Said::Info(info) => self.learn(&info)?,
            Said::Ping => self.say(&[b"PONG\r\n"], stop)?,
            Said::Pong | Said::Ok => {}
            Said::Error(why) => return Err(refused("go on with the NATS server", &why)),
        }
        Ok(None)
    }

    /// What the server says next; [`None`] if it said nothing until a moment, or `stop` was set.
    fn hear(&mut self, until: Instant, stop: &AtomicBool) -> Result<Option<Said>, Error> {
        loop {
            if let Some((said, taken)) = parse(&self.came)? {
                self.came.drain(..taken);
                return Ok(Some(said));
            }
            let now = Instant::now();
            if now >= until || stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            // Who waits for long has to find out that the server is gone.
            if now.duration_since(self.heard.max(self.pinged)) > SILENCE {
                self.pinged = now;
                self.say(&[b"PING\r\n"], stop)?;
            }
            if now.duration_since(self.heard) > SILENCE_MAX {
                return Err(refused("hear from the NATS server", "it says nothing any more"));
            }
            let from = self.came.len();
            self.came.resize(from + (1 << 16), 0);
            let read = self.stream.read(&mut self.came[from..]);
            self.came.truncate(from + read.as_ref().copied().unwrap_or_default());
            match read {
                Ok(0) => return Err(refused("hear from the NATS server", "it closed the connection")),
                Ok(_) => self.heard = Instant::now(),
                Err(error) if is_late(&error) => {}
                Err(error) => return Err(failed("hear from the NATS server", &error)),
            }
        }
    }

    fn say(&mut self, parts: &[&[u8]], stop: &AtomicBool) -> Result<(), Error> {
        let all = parts.concat();
        let (mut left, begun) = (&all[..], Instant::now());
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(0) => return Err(refused("talk to the NATS server", "it closed the connection")),
                Ok(more) => left = &left[more..],
                Err(error) => go_on(&error, begun, stop)?,
            }
        }
        // What TLS has encrypted and not sent yet.
        while let Err(error) = self.stream.flush() {
            go_on(&error, begun, stop)?;
        }
        Ok(())
    }
}

/// Whether to try again to say something: unless the server takes nothing since long, or all is to
/// stop.
fn go_on(error: &io::Error, begun: Instant, stop: &AtomicBool) -> Result<(), Error> {
    if is_late(error) && !stop.load(Ordering::Relaxed) && begun.elapsed() < SILENCE_MAX {
        return Ok(());
    }
    Err(failed("talk to the NATS server", error))
}

/// The first thing that is said in these bytes, and how many of them say it; [`None`] if it is not
/// all there yet.
fn parse(bytes: &[u8]) -> Result<Option<(Said, usize)>, Error> {
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
        b"INFO" => Said::Info(rest.to_vec()),
        b"PING" => Said::Ping,
        b"PONG" => Said::Pong,
        b"+OK" => Said::Ok,
        b"-ERR" => Said::Error(String::from_utf8_lossy(rest).trim_matches('\'').to_owned()),
        b"MSG" | b"HMSG" => {
            let has_headers = word.len() == b"HMSG".len();
            return message(rest, has_headers, &bytes[begin..])
                .map(|found| found.map(|(message, taken)| (Said::Message(message), begin + taken)));
        }
        _ => return Err(unknown("what a NATS server says", word)),
    };
    Ok(Some((said, begin)))
}

/// What a line about a message and the bytes behind it say, and how many of these it takes.
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
    // And the end of the line.
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
    /// What follows CONNECT.
    fn connect(&self, info: &[u8]) -> Result<String, Error> {
        let info: Value = serde_json::from_slice(info).map_err(|error| unreadable(&error))?;
        if info["tls_required"].as_bool() == Some(true) && self.tls.is_none() {
            let found = "it wants TLS: say whose certificates are to be believed";
            return Err(refused("connect to the NATS server", found));
        }
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

fn failed(operation: &'static str, error: &io::Error) -> Error {
    let found = error.to_string();
    if tls::is_refusal(error) {
        let what = "one end of the connection to the NATS server";
        return Error::Certificate { what, found };
    }
    Error::Nats { operation, found }
}

pub(super) fn refused(operation: &'static str, found: &str) -> Error {
    let found = found.to_owned();
    Error::Nats { operation, found }
}

pub(super) fn unreadable(error: &serde_json::Error) -> Error {
    refused("read what the NATS server says", &error.to_string())
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

    fn all(mut bytes: &[u8]) -> Vec<Said> {
        let mut said = Vec::new();
        while let Some((found, taken)) = parse(bytes).unwrap() {
            said.push(found);
            bytes = &bytes[taken..];
        }
        assert!(bytes.is_empty(), "{bytes:?} is left");
        said
    }

    #[test]
    fn what_a_server_says_is_understood_once_it_is_all_there() {
        let said = b"INFO {\"max_payload\":1048576}\r\nPING\r\npong\r\n+OK\r\n-ERR 'Unknown Protocol Operation'\r\n\
            MSG ibid.wiki.ask 2 _INBOX.a.1 4\r\nsame\r\n\
            HMSG _INBOX.a.1 1 22 26\r\nNATS/1.0\r\nA: b c\r\n\r\n\r\nidem\r\n\
            HMSG _INBOX.a.2 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n\
            MSG a 2 0\r\n\r\n";
        let message = |subscription, subject: &str, reply: &str, status, headers: &[(&str, &str)], payload: &str| {
            Said::Message(Message {
                subscription,
                subject: subject.into(),
                reply: reply.into(),
                status,
                headers: headers.iter().map(|&(a, b)| (a.into(), b.into())).collect(),
                payload: payload.into(),
            })
        };
        let expected = [
            Said::Info(b"{\"max_payload\":1048576}".to_vec()),
            Said::Ping,
            Said::Pong,
            Said::Ok,
            Said::Error("Unknown Protocol Operation".into()),
            message(2, "ibid.wiki.ask", "_INBOX.a.1", 0, &[], "same"),
            message(1, "_INBOX.a.1", "", 0, &[("A", "b c")], "idem"),
            message(1, "_INBOX.a.2", "", 503, &[], ""),
            message(2, "a", "", 0, &[], ""),
        ];
        assert_eq!(all(said), expected);
        // However it arrives.
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
