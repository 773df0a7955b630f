//! What only S3 has, and the library that speaks to it has not: locks and versions of objects, and archives.

mod archives;
mod locks;
mod pages;
mod past;
mod request;
mod versions;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsCredentialProvider, Checksum};
use object_store::{ClientOptions, HeaderMap, RetryConfig};

pub(crate) use archives::ListedArchives;
pub(crate) use locks::Locking;
pub(crate) use pages::ListedObject;
pub use past::PastStorage;
pub(crate) use request::NO_CAPACITY;

use crate::Address;
use crate::address::Addressing;
use crate::wire::Connector;

/// What Amazon calls the region that others have, too.
const REGION: &str = "us-east-1";

/// A bucket, and what it takes to ask its server.
pub(crate) struct Bucket {
    /// With the endpoint and the region that are used.
    address: Address,
    credentials: Option<AwsCredentialProvider>,
    connector: Connector,
    /// Knows URLs, and credentials that change.
    signer: AmazonS3,
}

impl Bucket {
    pub(crate) fn new(
        address: Address,
        credentials: Option<AwsCredentialProvider>,
        connector: Connector,
    ) -> object_store::Result<Bucket> {
        let signer = builder(&address, &credentials, &connector, None).build()?;
        Ok(Bucket {
            address,
            credentials,
            connector,
            signer,
        })
    }

    /// Returns a client of the bucket.
    pub(crate) fn store(&self, retry: RetryConfig, deletes_many: bool) -> object_store::Result<AmazonS3> {
        let builder = builder(&self.address, &self.credentials, &self.connector, None);
        builder
            .with_retry(retry)
            .with_disable_bulk_delete(!deletes_many)
            .build()
    }

    /// Returns a client for puts that sends these headers, too, and a checksum, which S3 requires with some of them. It
    /// tries nothing again.
    fn store_with(&self, headers: HeaderMap) -> object_store::Result<AmazonS3> {
        let once = RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        };
        let builder = builder(&self.address, &self.credentials, &self.connector, Some(headers));
        builder
            .with_retry(once)
            .with_checksum_algorithm(Checksum::SHA256)
            .build()
    }

    fn region(&self) -> &str {
        self.address.region().unwrap_or(REGION)
    }
}

fn builder(
    address: &Address,
    credentials: &Option<AwsCredentialProvider>,
    connector: &Connector,
    headers: Option<HeaderMap>,
) -> AmazonS3Builder {
    let bucket = address.bucket();
    // The servers of others seldom have a name for each bucket; and a certificate does not cover names with more dots.
    let usual = match address.endpoint() {
        None if !bucket.contains('.') => Addressing::Virtual,
        _ => Addressing::Path,
    };
    let is_virtual = address.addressing().unwrap_or(usual) == Addressing::Virtual;
    let in_the_open = address
        .endpoint()
        .is_some_and(|endpoint| endpoint.starts_with("http://"));
    let mut builder = AmazonS3Builder::from_env();
    if let Some(headers) = headers {
        builder = builder.with_client_options(ClientOptions::new().with_default_headers(headers));
    }
    builder = builder
        .with_bucket_name(bucket)
        .with_region(address.region().unwrap_or(REGION))
        .with_virtual_hosted_style_request(is_virtual)
        .with_allow_http(in_the_open)
        .with_http_connector(connector.clone());
    if let Some(endpoint) = address.endpoint() {
        let endpoint = match endpoint.split_once("://") {
            Some((scheme, host)) if is_virtual => format!("{scheme}://{bucket}.{host}"),
            _ => endpoint.to_owned(),
        };
        builder = builder
            .with_endpoint(endpoint.as_str())
            .with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    match credentials {
        Some(credentials) => builder.with_credentials(credentials.clone()),
        None => builder,
    }
}
