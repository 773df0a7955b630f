//! Calls of JetStream: each is one request and one answer.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::{Value, json};

use super::Stopped;
use super::address::Address;
use super::wire::{Wire, refused, unreadable};
use crate::error::Error;

/// How long a server may take to answer. A cluster that lost the leader of a stream is silent for
/// some seconds until it has another.
const WITHIN: Duration = Duration::from_secs(3);
/// The error code of JetStream for a stream that does not exist.
const NO_STREAM: u64 = 10059;
/// The error code of JetStream for an append after another message than expected.
const WRONG_LAST: u64 = 10071;
/// The status of an answer without a message.
const NOT_FOUND: u16 = 404;
/// The status of an answer if no client has subscribed to the subject.
const NO_RESPONDERS: u16 = 503;
/// The shortest message size of a server that is usable, bytes: with it the longest answer has no
/// more parts than allowed.
const PAYLOAD_BYTES_MIN: usize = 16 << 10;
/// Room for headers and for the bytes before a part, bytes.
const PART_OVERHEAD: usize = 1 << 10;

/// The messages that a stream has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) messages: u64,
    /// The sequence number of the first message.
    pub(super) first: u64,
    /// The sequence number of the last message that there ever was; 0 if there was none.
    pub(super) last: u64,
}

/// The settings of a new stream.
pub(super) struct StreamConfig {
    pub(super) replicas: u8,
    pub(super) bytes_max: Option<u64>,
}

/// A connection to one of the servers, and the address of the stream.
pub(super) struct Link {
    pub(super) wire: Wire,
    pub(super) address: Address,
}

impl Link {
    /// Connects to the server with the number `turn`, counted around. If there can't be TLS with
    /// that one, another may do.
    pub(super) fn connect(address: &Address, turn: usize, stop: &AtomicBool) -> Result<Self, Error> {
        let mut faulty = None;
        for step in 0..address.servers.len() {
            let server = &address.servers[(turn + step) % address.servers.len()];
            match Wire::connect(server, stop) {
                Err(error @ Error::Tls { .. }) => faulty = faulty.or(Some(error)),
                wire => return Link::over(wire?, address),
            }
        }
        Err(faulty.unwrap_or_else(|| refused("connect to the NATS server", "there is none in the address")))
    }

    fn over(wire: Wire, address: &Address) -> Result<Self, Error> {
        if wire.payload_bytes_max < PAYLOAD_BYTES_MIN {
            let why = format!(
                "its max_payload is {} bytes, and {PAYLOAD_BYTES_MIN} are needed",
                wire.payload_bytes_max
            );
            return Err(refused("use the NATS server", &why));
        }
        let address = address.clone();
        Ok(Link { wire, address })
    }

    /// Returns the most bytes of a part.
    pub(super) fn part_bytes(&self) -> usize {
        self.wire.payload_bytes_max - PART_OVERHEAD
    }

    /// Returns what the stream has, as its leader says; [`None`] if there is no such stream.
    pub(super) fn extent(&mut self, stop: &AtomicBool) -> Result<Option<Extent>, Stopped> {
        let subject = format!("$JS.API.STREAM.INFO.{}", self.address.stream());
        let said = self.api(&subject, b"", stop)?;
        match failure(&said) {
            None => {}
            Some((NO_STREAM, _)) => return Ok(None),
            Some((_, why)) => return Err(refused("ask JetStream for the stream", &why).into()),
        }
        let number = |name: &str| said["state"][name].as_u64();
        let subject = self.address.subject();
        if said["config"]["subjects"] != json!([subject]) || said["config"]["allow_direct"] != json!(true) {
            let why = format!(
                "the stream {} is not one of ibid: it must have only the subject {subject}, and allow_direct",
                self.address.stream()
            );
            return Err(refused("use the stream", &why).into());
        }
        match (number("messages"), number("first_seq"), number("last_seq")) {
            (Some(messages), Some(first), Some(last)) => Ok(Some(Extent { messages, first, last })),
            _ => Err(refused("ask JetStream for the stream", "the answer does not say its state").into()),
        }
    }

    /// Makes the stream.
    pub(super) fn make(&mut self, config: &StreamConfig, stop: &AtomicBool) -> Result<(), Stopped> {
        let stream = self.address.stream();
        let mut wanted = json!({
            "name": stream,
            "description": "the log of an ibid record store",
            "subjects": [self.address.subject()],
            "retention": "limits",
            "discard": "old",
            "storage": "file",
            "num_replicas": config.replicas,
            "allow_direct": true,
            "max_consumers": -1,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": 0,
        });
        if let Some(bytes_max) = config.bytes_max {
            wanted["max_bytes"] = json!(bytes_max);
        }
        let subject = format!("$JS.API.STREAM.CREATE.{stream}");
        let said = self.api(&subject, wanted.to_string().as_bytes(), stop)?;
        match failure(&said) {
            None => Ok(()),
            Some((_, why)) => {
                let why = format!("{why} (for {} servers)", config.replicas);
                Err(refused("make the stream", &why).into())
            }
        }
    }

    /// Returns the first message with this sequence number or a later one, with its own number;
    /// [`None`] if the server that is asked has none. Any of those that keep the stream may be
    /// asked.
    pub(super) fn get(&mut self, sequence: u64, stop: &AtomicBool) -> Result<Option<(u64, Vec<u8>)>, Stopped> {
        let subject = format!("$JS.API.DIRECT.GET.{}", self.address.stream());
        let wanted = json!({ "seq": sequence, "next_by_subj": self.address.subject() }).to_string();
        let said = self
            .wire
            .request(&subject, "", wanted.as_bytes(), WITHIN, stop)?
            .ok_or(Stopped::Stop)?;
        match said.status {
            0 => {}
            NOT_FOUND => return Ok(None),
            NO_RESPONDERS => return Err(refused("read the stream", "no server that keeps it can be reached").into()),
            status => return Err(refused("read the stream", &format!("it answers {status}")).into()),
        }
        let found = said.header("Nats-Sequence").and_then(|found| found.parse().ok());
        match found {
            Some(found) if found >= sequence => Ok(Some((found, said.payload))),
            _ => Err(refused("read the stream", "the answer has no sequence number").into()),
        }
    }

    /// Appends a message if the last one has the sequence number `last`. Returns the number of the
    /// new message once a majority of the servers have it; [`None`] if the last message is
    /// another.
    pub(super) fn append(&mut self, last: u64, message: &[u8], stop: &AtomicBool) -> Result<Option<u64>, Stopped> {
        let headers = format!(
            "Nats-Expected-Stream: {}\r\nNats-Expected-Last-Sequence: {last}\r\n",
            self.address.stream()
        );
        let subject = self.address.subject();
        let said = self
            .wire
            .request(&subject, &headers, message, WITHIN, stop)?
            .ok_or(Stopped::Stop)?;
        if said.status == NO_RESPONDERS {
            return Err(refused("append to the stream", "it has no leader").into());
        }
        let said: Value = serde_json::from_slice(&said.payload).map_err(|error| unreadable(&error))?;
        match failure(&said) {
            None => {}
            Some((WRONG_LAST, _)) => return Ok(None),
            Some((_, why)) => return Err(refused("append to the stream", &why).into()),
        }
        let sequence = said["seq"].as_u64();
        match sequence {
            Some(sequence) if sequence > last => Ok(Some(sequence)),
            _ => Err(refused("append to the stream", "the answer has no sequence number").into()),
        }
    }

    /// Sends a request to the subscriber of a subject; [`None`] if there is none.
    pub(super) fn ask(
        &mut self,
        subject: &str,
        request: &[u8],
        within: Duration,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<u8>>, Stopped> {
        let said = self
            .wire
            .request(subject, "", request, within, stop)?
            .ok_or(Stopped::Stop)?;
        Ok((said.status != NO_RESPONDERS).then_some(said.payload))
    }

    fn api(&mut self, subject: &str, payload: &[u8], stop: &AtomicBool) -> Result<Value, Stopped> {
        let said = self
            .wire
            .request(subject, "", payload, WITHIN, stop)?
            .ok_or(Stopped::Stop)?;
        if said.status == NO_RESPONDERS {
            return Err(refused("ask JetStream", "JetStream is not enabled on the server").into());
        }
        Ok(serde_json::from_slice(&said.payload).map_err(|error| unreadable(&error))?)
    }
}

/// Returns the error of an answer of JetStream: its code and its text.
fn failure(said: &Value) -> Option<(u64, String)> {
    let error = said.get("error")?;
    let words = error["description"].as_str().unwrap_or("JetStream refuses").to_owned();
    Some((error["err_code"].as_u64().unwrap_or_default(), words))
}
