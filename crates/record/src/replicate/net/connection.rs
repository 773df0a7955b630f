//! A replica's end of a connection.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ibid_format::record::MESSAGE_BYTES_MAX;

use super::message::{Peer, network};
use super::{SILENCE_MAX, Stream, prepare, reason, tls};
use crate::error::Error;
use crate::replicate::follow::Oplog;

/// The longest time to connect.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// A connection to a store that is served. It connects when it is asked something, and again after
/// an error.
pub struct Connection {
    address: String,
    tls: Option<tls::Client>,
    peer: Option<Peer>,
}

impl Connection {
    /// Returns a connection to an address, `HOST:PORT`, without connecting. A name is looked up
    /// each time it connects.
    pub fn to(address: impl ToString) -> Self {
        Connection {
            address: address.to_string(),
            tls: None,
            peer: None,
        }
    }

    /// Uses TLS.
    #[must_use]
    pub fn with_tls(self, tls: tls::Client) -> Self {
        Connection { tls: Some(tls), ..self }
    }

    fn connect(&self, stop: &AtomicBool) -> Result<Peer, Error> {
        let failed = |error: io::Error| network(&self.address, "connect to", reason(&error));
        let mut stream = Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        for address in self.address.to_socket_addrs().map_err(failed)? {
            stream = TcpStream::connect_timeout(&address, CONNECT_MAX);
            if stream.is_ok() {
                break;
            }
        }
        let stream = stream.map_err(failed)?;
        prepare(&stream).map_err(failed)?;
        let stream: Box<dyn Stream> = match &self.tls {
            Some(tls) => Box::new(tls.connect(stream, &self.address, stop)?),
            None => Box::new(stream),
        };
        let address = self.address.clone();
        Ok(Peer { stream, address })
    }
}

impl Oplog for Connection {
    fn answer(&mut self, request: &[u8], stop: &AtomicBool) -> Result<Option<Vec<u8>>, Error> {
        // A connection is not used again after an error: a late answer would be taken for the next.
        let mut peer = match self.peer.take() {
            Some(peer) => peer,
            None => self.connect(stop)?,
        };
        peer.send(request, stop, &|| SILENCE_MAX)?;
        match peer.receive(MESSAGE_BYTES_MAX, stop)? {
            Some(answer) => {
                self.peer = Some(peer);
                Ok(Some(answer))
            }
            None if stop.load(Ordering::Relaxed) => Ok(None),
            None => Err(peer.ended()),
        }
    }
}
