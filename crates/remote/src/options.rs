//! How a storage is reached.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A key of S3 and its secret.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credentials {
    /// What AWS calls the access key id.
    pub key: String,
    /// The secret access key.
    pub secret: String,
    /// The token of credentials that end after a while.
    pub token: Option<String>,
}

impl Credentials {
    /// Returns credentials without a token.
    pub fn new(key: impl Into<String>, secret: impl Into<String>) -> Self {
        Credentials {
            key: key.into(),
            secret: secret.into(),
            token: None,
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// How an [`ObjectStorage`](crate::ObjectStorage) is reached. Credentials are found where the tools of each service
/// look for them, if they are not given; see [`open`](crate::open).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The most bytes sent per second; `None` for no limit.
    pub upload: Option<u64>,
    /// The most bytes received per second; `None` for no limit.
    pub download: Option<u64>,
    /// For how long what fails is tried again. By default 3 minutes. What has been running for longer is tried to its
    /// end, but not again.
    pub patience: Duration,
    /// After how long a connection is given up on which nothing moves. By default 30 s.
    pub stall: Duration,
    /// A file with certificates (PEM) to trust, beside those of the system.
    pub certificates: Option<PathBuf>,
    /// The profile of the files of AWS; by default the one that `AWS_PROFILE` names, or `default`.
    pub profile: Option<String>,
    /// Credentials for S3; by default those that AWS's tools would find.
    pub credentials: Option<Credentials>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            upload: None,
            download: None,
            patience: Duration::from_secs(180),
            stall: Duration::from_secs(30),
            certificates: None,
            profile: None,
            credentials: None,
        }
    }
}

impl Options {
    /// Sets the most bytes sent per second.
    #[must_use]
    pub fn upload(mut self, bytes_per_second: Option<u64>) -> Self {
        self.upload = bytes_per_second;
        self
    }

    /// Sets the most bytes received per second.
    #[must_use]
    pub fn download(mut self, bytes_per_second: Option<u64>) -> Self {
        self.download = bytes_per_second;
        self
    }

    /// Sets for how long what fails is tried again.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets after how long a connection is given up on which nothing moves.
    #[must_use]
    pub fn stall(mut self, stall: Duration) -> Self {
        self.stall = stall;
        self
    }

    /// Sets a file with certificates (PEM) to trust, beside those of the system.
    #[must_use]
    pub fn certificates(mut self, file: Option<PathBuf>) -> Self {
        self.certificates = file;
        self
    }

    /// Sets the profile of the files of AWS.
    #[must_use]
    pub fn profile(mut self, profile: Option<String>) -> Self {
        self.profile = profile;
        self
    }

    /// Sets credentials for S3.
    #[must_use]
    pub fn credentials(mut self, credentials: Option<Credentials>) -> Self {
        self.credentials = credentials;
        self
    }
}
