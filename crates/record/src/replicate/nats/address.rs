//! The address of a published log: servers and a name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::credentials::Credentials;
use crate::error::Error;
use crate::replicate::net::tls;

/// The port of a server whose address has none.
const PORT: u16 = 4222;
/// Longest name of a log, bytes.
const NAME_BYTES_MAX: usize = 64;

/// The address of a published log: `nats://HOST:PORT/NAME` or
/// `nats://USER:PASSWORD@HOST:PORT,HOST:PORT,HOST:PORT/NAME`.
///
/// The servers are those of one cluster: one is asked, and another if that fails. User and password
/// are the same for all of them. A token is given as a user without a password. The port is 4222 by
/// default. A name has at most 64 letters, digits, `-` and `_`. The log is published in the stream
/// `ibid-NAME` under the subject `ibid.NAME.log`, and the primary answers under `ibid.NAME.ask`.
///
/// ```
/// use ibid_record::replicate::nats::Address;
/// let address: Address = "nats://10.0.0.1,10.0.0.2:4223/wiki".parse()?;
/// assert_eq!(address.to_string(), "nats://10.0.0.1:4222,10.0.0.2:4223/wiki");
/// assert!("nats://10.0.0.1/wi.ki".parse::<Address>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Address {
    pub(super) servers: Vec<Server>,
    pub(super) name: String,
}

/// One server, and how to log in.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) tls: Option<tls::Client>,
    pub(super) credentials: Option<Arc<Credentials>>,
}

/// The fault of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}; expected nats://HOST:PORT/NAME, or several HOST:PORT with commas between them")]
pub struct AddressError(&'static str);

impl Address {
    /// Uses TLS only. A server must have a certificate of one of `authorities`, PEM, for its host.
    /// The client shows `identity` if the server asks for a certificate.
    ///
    /// # Errors
    /// [`Error::Certificate`].
    pub fn with_tls(mut self, authorities: &[u8], identity: Option<tls::Identity<'_>>) -> Result<Self, Error> {
        for server in &mut self.servers {
            server.tls = Some(tls::Client::new(authorities, &server.host, identity)?);
        }
        Ok(self)
    }

    /// Logs in with a file of credentials, as `nsc generate creds` makes it: the token of a user, and the key that
    /// proves it. Only signatures by the key are sent.
    ///
    /// # Errors
    /// [`Error::Certificate`].
    pub fn with_credentials(mut self, file: &[u8]) -> Result<Self, Error> {
        let credentials = Arc::new(Credentials::read(file)?);
        for server in &mut self.servers {
            server.credentials = Some(credentials.clone());
        }
        Ok(self)
    }

    pub(super) fn stream(&self) -> String {
        format!("ibid-{}", self.name)
    }

    pub(super) fn subject(&self) -> String {
        format!("ibid.{}.log", self.name)
    }

    pub(super) fn ask_subject(&self) -> String {
        format!("ibid.{}.ask", self.name)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = |what| Err(AddressError(what));
        let rest = match text.split_once("://") {
            Some(("nats", rest)) => rest,
            Some(("tls", _)) => return wrong("TLS is not part of the address: trusted authorities turn it on"),
            _ => return wrong("it does not begin with nats://"),
        };
        let Some((places, name)) = rest.rsplit_once('/') else {
            return wrong("there is no name after the servers");
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_plain) {
            return wrong("a name has 1 to 64 letters, digits, - and _");
        }
        let (login, places) = match places.rsplit_once('@') {
            Some((login, places)) => (Some(login), places),
            None => (None, places),
        };
        let (user, password) = match login.map(|login| login.split_once(':').ok_or(login)) {
            None => (None, None),
            Some(Ok((user, password))) => (Some(user.to_owned()), Some(password.to_owned())),
            Some(Err(token)) => (Some(token.to_owned()), None),
        };
        let mut servers = Vec::new();
        for place in places.split(',') {
            // An IPv6 address is in brackets.
            let (host, port) = match place.rsplit_once(':') {
                Some((host, port)) if !port.ends_with(']') => (
                    host,
                    port.parse()
                        .map_err(|_| AddressError("a port is a number up to 65535"))?,
                ),
                _ => (place, PORT),
            };
            let is_host = |byte: u8| is_plain(byte) || matches!(byte, b'.' | b':' | b'[' | b']');
            if host.is_empty() || !host.bytes().all(is_host) {
                return wrong("a host is a name or an address");
            }
            servers.push(Server {
                host: host.to_owned(),
                port,
                user: user.clone(),
                password: password.clone(),
                tls: None,
                credentials: None,
            });
        }
        let name = name.to_owned();
        Ok(Address { servers, name })
    }
}

/// Shows the address without user and password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nats://")?;
        for (place, server) in self.servers.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{}:{}", server.host, server.port)?;
        }
        write!(f, "/{}", self.name)
    }
}

/// Shows the address without user and password, so that no log has them.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_nonsense_is_refused() {
        let read = |text: &str| text.parse::<Address>();
        let shown = |text: &str| read(text).unwrap().to_string();
        assert_eq!(shown("nats://localhost/a"), "nats://localhost:4222/a");
        assert_eq!(shown("nats://[::1]/a"), "nats://[::1]:4222/a");
        assert_eq!(shown("nats://[::1]:1,b:2,c/a-b_C9"), "nats://[::1]:1,b:2,c:4222/a-b_C9");
        let known = read("nats://me:pass:word@a,b/c").unwrap();
        assert_eq!(known.to_string(), "nats://a:4222,b:4222/c");
        for server in &known.servers {
            assert_eq!(server.user.as_deref(), Some("me"));
            assert_eq!(server.password.as_deref(), Some("pass:word"));
        }
        assert!(!format!("{known:?}").contains("pass"));
        let token = &read("nats://secret@a/c").unwrap().servers[0];
        assert_eq!((token.user.as_deref(), &token.password), (Some("secret"), &None));
        let long = format!("nats://a/{}", "n".repeat(65));
        for wrong in [
            "",
            "a",
            "a:4222/n",
            "http://a/n",
            "tls://a/n",
            "nats://a",
            "nats://a/",
            "nats:///n",
            "nats://a,/n",
            "nats://a:x/n",
            "nats://a:65536/n",
            "nats://a/n.m",
            "nats://a/n m",
            "nats://a/*",
            "nats://a b/n",
            "nats://a/n/m",
            "nats://a\r\nPUB x 0/n",
            &long,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
