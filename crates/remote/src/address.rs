//! Where a remote storage is: `s3://bucket/prefix`.

use std::fmt;
use std::str::FromStr;

/// What speaks at an [address](Address).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Service {
    /// Amazon's S3, and what speaks like it: `s3://bucket/prefix`.
    S3,
    /// Google Cloud Storage: `gs://bucket/prefix`.
    Google,
    /// Azure Blob Storage: `az://container/prefix`.
    Azure,
}

impl Service {
    const ALL: [Service; 3] = [Service::S3, Service::Google, Service::Azure];

    fn scheme(self) -> &'static str {
        match self {
            Service::S3 => "s3",
            Service::Google => "gs",
            Service::Azure => "az",
        }
    }
}

/// How a bucket is named to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// As the first part of the path: `https://host/bucket/object`.
    Path,
    /// As the first part of the host: `https://bucket.host/object`.
    Virtual,
}

impl FromStr for Addressing {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text {
            "path" => Ok(Addressing::Path),
            "virtual" => Ok(Addressing::Virtual),
            _ => Err(AddressError::Value {
                option: "addressing",
                expected: "`path` or `virtual`",
                found: text.to_owned(),
            }),
        }
    }
}

/// A place for objects that a server has.
///
/// ```
/// use ibid_remote::{Address, Service};
/// let address: Address = "s3://backups/laptop?endpoint=http://nas:9000".parse()?;
/// assert_eq!((address.service(), address.bucket(), address.prefix()), (Service::S3, "backups", "laptop"));
/// assert_eq!(address.endpoint(), Some("http://nas:9000"));
/// assert_eq!(address.to_string(), "s3://backups/laptop?endpoint=http://nas:9000");
/// assert!("s3://".parse::<Address>().is_err());
/// # Ok::<(), ibid_remote::AddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    service: Service,
    bucket: String,
    prefix: String,
    endpoint: Option<String>,
    region: Option<String>,
    addressing: Option<Addressing>,
    storage_class: Option<String>,
}

/// Why a text is no [`Address`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Another scheme than the known ones, or none.
    #[error("{found:?} is no address of a remote storage: it begins with none of s3://, gs:// and az://")]
    Scheme {
        /// The text.
        found: String,
    },
    /// No name of a bucket, or one with letters that no bucket has.
    #[error("{found:?} names no bucket. Write it as {scheme}://BUCKET/FOLDER")]
    Bucket {
        /// The scheme.
        scheme: &'static str,
        /// The text.
        found: String,
    },
    /// A prefix that object names can't begin with.
    #[error("{found:?} can't be the beginning of names of objects: {why}")]
    Prefix {
        /// The prefix.
        found: String,
        /// What is wrong with it.
        why: String,
    },
    /// An unknown option after the question mark.
    #[error("{found:?} is no option of an address. There are endpoint, region, addressing and storage-class")]
    Option {
        /// The option.
        found: String,
    },
    /// A value that an option can't have.
    #[error("{option} is {expected}, and not {found:?}")]
    Value {
        /// The option.
        option: &'static str,
        /// Which values it can have.
        expected: &'static str,
        /// The value.
        found: String,
    },
}

impl Address {
    /// Returns whether a text begins as an address does, so that it is not meant as a path.
    ///
    /// ```
    /// assert!(ibid_remote::Address::is_meant_by("s3://backups"));
    /// assert!(!ibid_remote::Address::is_meant_by("./s3/backups"));
    /// ```
    #[must_use]
    pub fn is_meant_by(text: &str) -> bool {
        service_of(text).is_some()
    }

    /// Returns what speaks there.
    #[must_use]
    pub fn service(&self) -> Service {
        self.service
    }

    /// Returns the bucket, which Azure calls a container.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Returns what the names of all objects begin with, without a slash at its end; may be empty.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the server, if it is not the one of the service.
    #[must_use]
    pub fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }

    /// Returns the region, if one is given.
    #[must_use]
    pub fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }

    /// Returns how the bucket is named to the server, if that is given.
    #[must_use]
    pub fn addressing(&self) -> Option<Addressing> {
        self.addressing
    }

    /// Returns the class of storage in which packs with data of files are kept, if one is given.
    #[must_use]
    pub fn storage_class(&self) -> Option<&str> {
        self.storage_class.as_deref()
    }

    /// Returns the same, if its objects can't be read before they are [thawed](ibid_storage::Archives).
    ///
    /// ```
    /// let address: ibid_remote::Address = "s3://backups?storage-class=DEEP_ARCHIVE".parse()?;
    /// assert_eq!(address.archive_class(), Some("DEEP_ARCHIVE"));
    /// # Ok::<(), ibid_remote::AddressError>(())
    /// ```
    #[must_use]
    pub fn archive_class(&self) -> Option<&str> {
        self.storage_class().filter(|class| is_archive(self.service, class))
    }

    /// Sets the class of storage of [data](ibid_storage::Storage::put_data), if the address names none: what the
    /// service calls it, such as `STANDARD_IA`, `GLACIER_IR` or `DEEP_ARCHIVE`, or in Azure the access tier.
    ///
    /// # Errors
    /// If it is no name of a class, or that of Azure's archive, which this program can't thaw.
    pub fn or_storage_class(mut self, class: Option<&str>) -> Result<Self, AddressError> {
        if let (None, Some(class)) = (&self.storage_class, class) {
            self.storage_class = Some(checked_class(self.service, class)?);
        }
        Ok(self)
    }

    /// Sets the server, as in `https://s3.example.org` or `http://localhost:9000`, if the address names none.
    ///
    /// # Errors
    /// If it does not begin with `http://` or `https://`.
    pub fn or_endpoint(mut self, endpoint: Option<&str>) -> Result<Self, AddressError> {
        if let (None, Some(endpoint)) = (&self.endpoint, endpoint) {
            self.endpoint = Some(checked_endpoint(endpoint)?);
        }
        Ok(self)
    }

    /// Sets the region, if the address names none.
    #[must_use]
    pub fn or_region(mut self, region: Option<&str>) -> Self {
        self.region = self.region.or(region.map(str::to_owned));
        self
    }

    /// Sets how the bucket is named to the server, if the address does not say it.
    #[must_use]
    pub fn or_addressing(mut self, addressing: Option<Addressing>) -> Self {
        self.addressing = self.addressing.or(addressing);
        self
    }
}

fn service_of(text: &str) -> Option<(Service, &str)> {
    Service::ALL.into_iter().find_map(|service| {
        let rest = text.strip_prefix(service.scheme())?.strip_prefix("://")?;
        Some((service, rest))
    })
}

/// Classes whose objects must be thawed before they are read.
const ARCHIVES: [(Service, &str); 3] = [
    (Service::S3, "GLACIER"),
    (Service::S3, "DEEP_ARCHIVE"),
    (Service::Azure, "ARCHIVE"),
];

/// Returns whether objects of a class must be thawed before they are read.
pub(crate) fn is_archive(service: Service, class: &str) -> bool {
    let is_it = |(of, name): &(Service, &str)| *of == service && name.eq_ignore_ascii_case(class);
    ARCHIVES.iter().any(is_it)
}

fn checked_class(service: Service, text: &str) -> Result<String, AddressError> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let is_class = !text.is_empty() && text.len() <= 32 && text.bytes().all(is_name);
    // S3 knows its classes by these letters alone, and what goes into an archive must be known here.
    let is_spelt =
        service != Service::S3 || !is_archive(service, text) || text.bytes().all(|byte| !byte.is_ascii_lowercase());
    let can_thaw = service == Service::S3 || !is_archive(service, text);
    match is_class && is_spelt && can_thaw {
        true => Ok(text.to_owned()),
        false => Err(AddressError::Value {
            option: "storage-class",
            expected: match service {
                Service::S3 => "a class of the service, in capitals, such as STANDARD_IA, GLACIER_IR or DEEP_ARCHIVE",
                Service::Google => "a class of the service, such as NEARLINE or ARCHIVE",
                Service::Azure => "a tier whose objects can be read at once, such as Cool or Cold",
            },
            found: text.to_owned(),
        }),
    }
}

fn checked_endpoint(text: &str) -> Result<String, AddressError> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        Some(host) if !host.trim_end_matches('/').is_empty() => Ok(text.trim_end_matches('/').to_owned()),
        _ => Err(AddressError::Value {
            option: "endpoint",
            expected: "a URL such as https://s3.example.org",
            found: text.to_owned(),
        }),
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let Some((service, rest)) = service_of(text) else {
            return Err(AddressError::Scheme { found: text.to_owned() });
        };
        let (place, options) = rest
            .split_once('?')
            .map_or((rest, None), |(place, options)| (place, Some(options)));
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        let is_of_bucket = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_of_bucket) {
            return Err(AddressError::Bucket {
                scheme: service.scheme(),
                found: text.to_owned(),
            });
        }
        let prefix = prefix.trim_end_matches('/');
        let path = object_store::path::Path::parse(prefix).map_err(|error| AddressError::Prefix {
            found: prefix.to_owned(),
            why: error.to_string(),
        })?;
        let mut address = Address {
            service,
            bucket: bucket.to_owned(),
            prefix: path.to_string(),
            endpoint: None,
            region: None,
            addressing: None,
            storage_class: None,
        };
        for option in options.into_iter().flat_map(|options| options.split('&')) {
            match option.split_once('=') {
                Some(("endpoint", value)) => address.endpoint = Some(checked_endpoint(value)?),
                Some(("region", value)) => address.region = Some(value.to_owned()),
                Some(("addressing", value)) => address.addressing = Some(value.parse()?),
                Some(("storage-class", value)) => address = address.or_storage_class(Some(value))?,
                _ => {
                    return Err(AddressError::Option {
                        found: option.to_owned(),
                    });
                }
            }
        }
        Ok(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.service.scheme(), self.bucket)?;
        if !self.prefix.is_empty() {
            write!(f, "/{}", self.prefix)?;
        }
        let addressing = self.addressing.map(|addressing| match addressing {
            Addressing::Path => "path",
            Addressing::Virtual => "virtual",
        });
        let options = [
            ("endpoint", self.endpoint.as_deref()),
            ("region", self.region.as_deref()),
            ("addressing", addressing),
            ("storage-class", self.storage_class.as_deref()),
        ];
        let given = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
        for (at, (name, value)) in given.enumerate() {
            write!(f, "{}{name}={value}", if at == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}
