//! Reaches the server of an address.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibid_storage::{Error, ErrorKind, Operation};
use object_store::aws::{AwsCredential, AwsCredentialProvider};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{BackoffConfig, ObjectStore, RetryConfig, StaticCredentialProvider};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::address::Service;
use crate::objects::PAUSE_MAX;
use crate::profile::{Profile, ProfileCredentials, Settings, has_credentials};
use crate::s3::{Bucket, Locking};
use crate::wire::{Connector, Pace, Renewable, Shared, client, innermost, tls};
use crate::{Address, ObjectStorage, Options};

/// Threads that move bytes. What the bytes mean is for the threads that call.
const THREADS: usize = 2;
/// How long it is waited for what tells who this machine is, where there may be nothing.
const INSTANCE_TIMEOUT: Duration = Duration::from_secs(1);

/// Makes a storage of the objects at an address. Nothing is sent yet, but a question for the region of a bucket at
/// Amazon whose region is not given.
///
/// Credentials are found where the tools of each service look for them:
///
/// - S3: the variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`; else a web identity token;
///   else the profile that [`Options::profile`] or `AWS_PROFILE` names, or `default`, in `~/.aws/credentials` and
///   `~/.aws/config`, also with `credential_process`; else the role of the container or of the instance. Endpoint and
///   region come from the address, `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_DEFAULT_REGION`, or
///   the profile.
/// - Google: `GOOGLE_APPLICATION_CREDENTIALS`, `GOOGLE_SERVICE_ACCOUNT`, the file of `gcloud auth application-default
///   login`, or the account of the instance.
/// - Azure: `AZURE_STORAGE_ACCOUNT_NAME` with `AZURE_STORAGE_ACCOUNT_KEY`, `AZURE_STORAGE_SAS_TOKEN`, or a client or
///   managed identity.
///
/// ```
/// use ibid_remote::{Options, open};
/// use ibid_storage::Storage;
/// let address = "s3://backups/laptop?endpoint=http://localhost:9000".parse()?;
/// let storage = open(&address, &Options::default())?;
/// assert_eq!(storage.location(), "s3://backups/laptop?endpoint=http://localhost:9000");
/// assert_eq!(storage.requests().count(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`PermissionDenied`](ErrorKind::PermissionDenied) if credentials can't be read,
/// [`Unsupported`](ErrorKind::Unsupported) if settings fit no server, and [`Io`](ErrorKind::Io) if the region can't be
/// found.
pub fn open(address: &Address, options: &Options) -> Result<ObjectStorage, Error> {
    let fail = |kind, found: String| Error::new(kind, Operation::Open, None, address.to_string()).with_found(found);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("ibid-remote")
        .enable_all()
        .build()
        .map_err(|error| fail(ErrorKind::Io, format!("threads can't be started: {error}")))?;
    let certificates = options.certificates.as_deref().map(certificates).transpose();
    let certificates = certificates
        .map_err(|why| fail(ErrorKind::Io, why))?
        .unwrap_or_default();
    let variable = |name: &str| std::env::var(name).ok();
    let profile = Profile::named(options.profile.as_deref(), &variable);
    let settings = match address.service() {
        Service::S3 => profile
            .settings()
            .map_err(|error| fail(ErrorKind::PermissionDenied, error.to_string()))?,
        _ => Settings::default(),
    };

    let mut address_used = address.clone();
    if address.service() == Service::S3 {
        let endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        let endpoint = endpoint.or_else(|| settings.get("endpoint_url").map(str::to_owned));
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.or_else(|| settings.get("region").map(str::to_owned));
        address_used = address_used
            .or_endpoint(endpoint.as_deref())
            .map_err(|error| fail(ErrorKind::Unsupported, error.to_string()))?
            .or_region(region.as_deref());
    }
    let in_the_open = address_used
        .endpoint()
        .is_some_and(|endpoint| endpoint.starts_with("http://"));
    let not_made = |error: reqwest::Error| fail(ErrorKind::Io, innermost(&error));
    let tls = tls(certificates).map_err(|error| fail(ErrorKind::Io, error.to_string()))?;
    let connector = Connector {
        instance: client(&tls, false, Some(INSTANCE_TIMEOUT)).map_err(not_made)?,
        client: Arc::new(Renewable::new(tls, !in_the_open).map_err(not_made)?),
        shared: Arc::new(Shared::new(
            Pace::new(options.upload),
            Pace::new(options.download),
            options.stall,
        )),
    };

    let credentials = match address.service() {
        Service::S3 => {
            of_s3(options, profile, &settings, &variable).map_err(|why| fail(ErrorKind::PermissionDenied, why))?
        }
        _ => None,
    };
    if address.service() == Service::S3 && address_used.endpoint().is_none() && address_used.region().is_none() {
        let found = runtime.block_on(object_store::aws::resolve_bucket_region(
            address.bucket(),
            &object_store::ClientOptions::new(),
        ));
        let region = found.map_err(|error| {
            let why = format!(
                "the region of the bucket can't be found, and none was given: {}",
                innermost(&error)
            );
            fail(ErrorKind::Io, why)
        })?;
        address_used = address_used.or_region(Some(&region));
    }

    if address.service() == Service::Azure && !names_account(&MicrosoftAzureBuilder::from_env()) {
        let why = "no account is named: expected AZURE_STORAGE_ACCOUNT_NAME, with a key or token (docs/remote.md)";
        return Err(fail(ErrorKind::PermissionDenied, why.to_owned()));
    }
    let as_built = |error: object_store::Error| fail(ErrorKind::Unsupported, innermost(&error));
    let bucket = match address.service() {
        Service::S3 => {
            let bucket = Bucket::new(address_used.clone(), credentials, connector.clone());
            Some(bucket.map_err(as_built)?)
        }
        _ => None,
    };
    let store = |retry: RetryConfig, deletes_many: bool| -> object_store::Result<Arc<dyn ObjectStore>> {
        Ok(match (&bucket, address.service()) {
            (Some(bucket), _) => Arc::new(bucket.store(retry, deletes_many)?),
            (None, Service::Google) => {
                let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(address.bucket());
                if let Some(endpoint) = address.endpoint() {
                    builder = builder.with_base_url(endpoint);
                }
                Arc::new(
                    builder
                        .with_retry(retry)
                        .with_http_connector(connector.clone())
                        .build()?,
                )
            }
            (None, _) => {
                let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(address.bucket());
                if let Some(endpoint) = address.endpoint() {
                    builder = builder.with_endpoint(endpoint.to_owned()).with_allow_http(in_the_open);
                }
                Arc::new(
                    builder
                        .with_retry(retry)
                        .with_http_connector(connector.clone())
                        .build()?,
                )
            }
        })
    };
    let store = |retry, deletes_many| store(retry, deletes_many).map_err(as_built);
    let once = RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    };
    let repeating = RetryConfig {
        // What ends it is the time.
        max_retries: usize::MAX,
        retry_timeout: options.patience,
        backoff: BackoffConfig {
            max_backoff: PAUSE_MAX,
            ..BackoffConfig::default()
        },
    };
    let (single, many) = (store(once, false)?, store(repeating.clone(), true)?);
    let repeating = store(repeating, false)?;
    Ok(ObjectStorage {
        runtime: Some(runtime),
        repeating,
        many,
        takes_one: AtomicBool::new(false),
        single,
        bucket,
        locking: Locking::default(),
        listed_archives: Mutex::default(),
        shared: connector.shared.clone(),
        address: address.clone(),
        endpoint: address_used.endpoint().map(str::to_owned),
        server: address_used.endpoint().unwrap_or("the server").to_owned(),
        patience: options.patience,
    })
}

/// Returns what gives the credentials for S3, if it is not the environment.
fn of_s3(
    options: &Options,
    profile: Profile,
    settings: &Settings,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<AwsCredentialProvider>, String> {
    if let Some(given) = &options.credentials {
        return Ok(Some(Arc::new(StaticCredentialProvider::new(AwsCredential {
            key_id: given.key.clone(),
            secret_key: given.secret.clone(),
            token: given.token.clone(),
        }))));
    }
    let in_environment = ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"];
    if options.profile.is_none() && in_environment.into_iter().any(|name| variable(name).is_some()) {
        return Ok(None);
    }
    if has_credentials(settings) {
        return Ok(Some(Arc::new(ProfileCredentials::new(profile))));
    }
    match options.profile.clone().or_else(|| variable("AWS_PROFILE")) {
        Some(name) => Err(format!("the files of AWS have no credentials for the profile {name}")),
        None => Ok(None),
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = |why: &dyn std::fmt::Display| format!("the certificates in {} can't be read: {why}", file.display());
    let pem = std::fs::read(file).map_err(|error| read(&innermost(&error)))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| read(&innermost(&error)))?;
    match found.is_empty() {
        true => Err(read(&"there are none (expected PEM)")),
        false => Ok(found),
    }
}

/// Whether a container is in an account, or in an emulator, which has one of its own.
fn names_account(builder: &MicrosoftAzureBuilder) -> bool {
    let has = |key| builder.get_config_value(&key).is_some_and(|value| value != "false");
    has(AzureConfigKey::AccountName) || has(AzureConfigKey::UseEmulator)
}
