//! Where a repository on another machine is: `ssh://user@host/path`.

use std::fmt;
use std::str::FromStr;

const SCHEME: &str = "ssh://";

/// A folder of another machine that is reached by SSH.
///
/// ```
/// use ibid_remote::connection::HostAddress;
/// let address: HostAddress = "ssh://me@nas:2222/srv/backup".parse()?;
/// assert_eq!((address.host(), address.user(), address.port()), ("nas", Some("me"), Some(2222)));
/// assert_eq!(address.path(), "/srv/backup");
/// let of_home: HostAddress = "ssh://nas/~/backup".parse()?;
/// assert_eq!(of_home.path(), "backup");
/// assert!("ssh://-oProxyCommand=x/srv".parse::<HostAddress>().is_err());
/// # Ok::<(), ibid_remote::connection::HostAddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddress {
    user: Option<String>,
    host: String,
    port: Option<u16>,
    path: String,
    program: Option<String>,
}

/// Why a text is no [`HostAddress`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostAddressError {
    /// It does not begin with `ssh://`.
    #[error("{found:?} does not begin with ssh://")]
    Scheme {
        /// The text.
        found: String,
    },
    /// No host, or one that SSH could take for something else.
    #[error("{found:?} names no host. Write it as ssh://USER@HOST/PATH")]
    Host {
        /// The text.
        found: String,
    },
    /// A user that SSH could take for something else.
    #[error("{found:?} is no name of a user for SSH. Give it in ~/.ssh/config")]
    User {
        /// The user.
        found: String,
    },
    /// A port that is none.
    #[error("{found:?} is no port")]
    Port {
        /// The port.
        found: String,
    },
    /// No path.
    #[error("{found:?} names no folder. Write ssh://HOST/PATH, or ssh://HOST/~/PATH for one below the home there")]
    Path {
        /// The text.
        found: String,
    },
    /// An unknown option after the question mark.
    #[error("{found:?} is no option of an address with ssh://. There is ibid")]
    Option {
        /// The option.
        found: String,
    },
}

impl HostAddress {
    /// Returns whether a text begins as such an address does, so that it is not meant as a path.
    #[must_use]
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Returns the user on the other machine, if one is named.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the host, or what the configuration of SSH calls so; an IPv6 address without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port, if one is named.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns the folder: from the root if it begins with `/`, else from the home of the user.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the program that is to be run there, if it is not the `ibid` that is found.
    #[must_use]
    pub fn program(&self) -> Option<&str> {
        self.program.as_deref()
    }
}

impl FromStr for HostAddress {
    type Err = HostAddressError;

    fn from_str(text: &str) -> Result<Self, HostAddressError> {
        let found = || text.to_owned();
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| HostAddressError::Scheme { found: found() })?;
        let (place, options) = rest
            .split_once('?')
            .map_or((rest, None), |(place, options)| (place, Some(options)));
        let (host, path) = place
            .split_once('/')
            .ok_or_else(|| HostAddressError::Path { found: found() })?;
        let (user, host) = host
            .rsplit_once('@')
            .map_or((None, host), |(user, host)| (Some(user), host));
        let (host, port) = split_port(host);
        // What else SSH would take from its configuration into commands, or for an option.
        let is_plain = |text: &str, more: &[u8]| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte) || more.contains(&byte);
            !text.is_empty() && !text.starts_with('-') && text.bytes().all(allowed)
        };
        if !is_plain(host, b":%") {
            return Err(HostAddressError::Host { found: found() });
        }
        if let Some(user) = user.filter(|user| !is_plain(user, b"+@")) {
            return Err(HostAddressError::User { found: user.to_owned() });
        }
        let port = port.map(|port| match port.parse() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(HostAddressError::Port { found: port.to_owned() }),
        });
        let path = path.trim_matches('/');
        let path = match path.strip_prefix("~/") {
            Some(below) => below.trim_start_matches('/').to_owned(),
            None if path == "~" => ".".to_owned(),
            None if path.is_empty() => String::new(),
            None => format!("/{path}"),
        };
        if path.is_empty() || path.contains('\0') {
            return Err(HostAddressError::Path { found: found() });
        }
        let mut program = None;
        for option in options.into_iter().flat_map(|options| options.split('&')) {
            match option.split_once('=') {
                Some(("ibid", value)) if !value.is_empty() => program = Some(value.to_owned()),
                _ => {
                    return Err(HostAddressError::Option {
                        found: option.to_owned(),
                    });
                }
            }
        }
        Ok(HostAddress {
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port: port.transpose()?,
            path,
            program,
        })
    }
}

/// Splits a port from a host, which may be an IPv6 address in brackets.
pub(super) fn split_port(host: &str) -> (&str, Option<&str>) {
    if let Some((inside, rest)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return match rest.strip_prefix(':') {
            Some(port) => (inside, Some(port)),
            None if rest.is_empty() => (inside, None),
            // A host that has brackets in it is refused.
            None => (host, None),
        };
    }
    host.rsplit_once(':')
        .map_or((host, None), |(host, port)| (host, Some(port)))
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        match self.path.strip_prefix('/') {
            Some(below) => write!(f, "/{below}")?,
            None if self.path == "." => f.write_str("/~")?,
            None => write!(f, "/~/{}", self.path)?,
        }
        match &self.program {
            Some(program) => write!(f, "?ibid={program}"),
            None => Ok(()),
        }
    }
}
