//! Reaches a server over TLS: `tls://host:port`.

use std::fmt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::{Duration, Instant};

use ibid_storage::ErrorKind;
use ibid_tls::{Encrypted, Fault, NoTls};

use super::dial::{Dial, Ended, Ending, Streams};
use super::host_address::split_port;
use super::keep_alive::{keep_alive, reason};

const SCHEME: &str = "tls://";
/// How long it may take to connect, and then to agree on how to encrypt.
const CONNECT_MAX: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A machine where `ibid serve --listen` answers. Which folder it serves, it knows itself.
///
/// ```
/// use ibid_remote::connection::TlsAddress;
/// let address: TlsAddress = "tls://nas.example.org:7118".parse()?;
/// assert_eq!((address.host(), address.port()), ("nas.example.org", 7118));
/// assert_eq!("tls://[::1]:7118".parse::<TlsAddress>()?.host(), "::1");
/// assert!("tls://nas.example.org".parse::<TlsAddress>().is_err());
/// # Ok::<(), ibid_remote::connection::TlsAddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsAddress {
    host: String,
    port: u16,
}

/// Why a text is no [`TlsAddress`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsAddressError {
    /// It does not begin with `tls://`.
    #[error("{found:?} does not begin with tls://")]
    Scheme {
        /// The text.
        found: String,
    },
    /// No host.
    #[error("{found:?} names no host. Write it as tls://HOST:PORT")]
    Host {
        /// The text.
        found: String,
    },
    /// No port, or one that is none.
    #[error("{found:?} names no port. Write it as tls://HOST:PORT, with the port of `ibid serve --listen`")]
    Port {
        /// The text.
        found: String,
    },
    /// More than host and port.
    #[error("{found:?} has more than tls://HOST:PORT. Which folder it is, the server knows")]
    More {
        /// The text.
        found: String,
    },
}

impl TlsAddress {
    /// Returns whether a text begins as such an address does, so that it is not meant as a path.
    #[must_use]
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Returns the host; an IPv6 address without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for TlsAddress {
    type Err = TlsAddressError;

    fn from_str(text: &str) -> Result<Self, TlsAddressError> {
        let found = || text.to_owned();
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| TlsAddressError::Scheme { found: found() })?;
        let place = rest.strip_suffix('/').unwrap_or(rest);
        if place.contains(['/', '?', '#', '@']) {
            return Err(TlsAddressError::More { found: found() });
        }
        let (host, port) = split_port(place);
        let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:%".contains(&byte);
        if host.is_empty() || host.starts_with('-') || !host.bytes().all(is_of_host) {
            return Err(TlsAddressError::Host { found: found() });
        }
        let port = port.and_then(|port| port.parse().ok()).filter(|port| *port > 0);
        Ok(TlsAddress {
            host: host.to_owned(),
            port: port.ok_or_else(|| TlsAddressError::Port { found: found() })?,
        })
    }
}

impl fmt::Display for TlsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "{SCHEME}[{}]:{}", self.host, self.port),
            false => write!(f, "{SCHEME}{}:{}", self.host, self.port),
        }
    }
}

/// Reaches `ibid serve --listen` over TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    address: TlsAddress,
    client: ibid_tls::Client,
}

impl Tls {
    /// Returns what leads to an address. `client` says whom it trusts there, and what it shows.
    #[must_use]
    pub fn new(address: TlsAddress, client: ibid_tls::Client) -> Tls {
        Tls { address, client }
    }

    fn connect(&self) -> Result<TcpStream, Ended> {
        let failed = |error: io::Error| Ended::new(reason(&error));
        let mut connected = Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        // It is looked up each time.
        for address in (self.address.host(), self.address.port())
            .to_socket_addrs()
            .map_err(failed)?
        {
            connected = TcpStream::connect_timeout(&address, CONNECT_MAX);
            if connected.is_ok() {
                break;
            }
        }
        let stream = connected.map_err(failed)?;
        let prepared = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(LOOK_EVERY)))
            .and_then(|()| stream.set_write_timeout(Some(LOOK_EVERY)))
            .and_then(|()| keep_alive(&stream));
        prepared.map_err(failed)?;
        Ok(stream)
    }
}

impl Dial for Tls {
    fn dial(&self) -> Result<Streams, Ended> {
        let stream = self.connect()?;
        let begun = Instant::now();
        let agreed = self.client.connect(stream, || begun.elapsed() < CONNECT_MAX);
        let encrypted = agreed.map_err(|why| match why {
            NoTls::Fault(fault) => of_fault(&fault),
            NoTls::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ended::new(
                "the connection was closed before it was encrypted: no `ibid serve` listens there, or it has as many \
                 clients as it takes",
            ),
            NoTls::Io(error) => Ended::new(reason(&error)),
        })?;
        streams(encrypted).map_err(|error| Ended::new(reason(&error)))
    }
}

fn streams(encrypted: Encrypted) -> io::Result<Streams> {
    let (reader, writer, ending) = encrypted.split()?;
    // From here on, threads watch that something moves.
    ending.socket().set_read_timeout(None)?;
    ending.socket().set_write_timeout(None)?;
    Ok(Streams {
        answers: Box::new(reader),
        requests: Box::new(writer),
        ending: Box::new(Connected(ending)),
    })
}

/// A connection.
struct Connected(ibid_tls::Ending);

impl Ending for Connected {
    fn end(&mut self, _by_itself: bool) -> Ended {
        match self.0.end() {
            Some(fault) => of_fault(&fault),
            None => Ended::new("the connection was closed"),
        }
    }
}

fn of_fault(fault: &Fault) -> Ended {
    Ended::for_good(ErrorKind::PermissionDenied, fault.to_string())
}
