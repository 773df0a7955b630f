//! An S3 server for tests.
//!
//! What is hard to get right about S3 is real here, and is the work of the crate `s3s`: signatures, XML, paging,
//! conditions in headers. Objects are in memory, and a put is atomic, which no other server is that runs without a
//! cluster. A put that could overwrite, without `If-None-Match: *`, is refused. Faults happen when a test asks for
//! them.
//!
//! ```
//! let server = ibid_s3_server::Server::start();
//! let endpoint = server.endpoint();
//! assert!(endpoint.starts_with("http://127.0.0.1:"));
//! assert_eq!(server.keys("bucket"), Vec::<String>::new());
//! ```
#![forbid(unsafe_code)]

mod faults;
mod objects;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

pub use faults::{Fault, Faults, Operation};
use objects::Objects;
pub use objects::Traits;

/// What a client must give as `AWS_ACCESS_KEY_ID`.
pub const ACCESS_KEY: &str = "TESTACCESSKEY";
/// What a client must give as `AWS_SECRET_ACCESS_KEY`.
pub const SECRET_KEY: &str = "testsecretkey";
/// The buckets that a server has.
pub const BUCKETS: [&str; 5] = ["bucket", "other", "my-backups", VERSIONED, LOCKABLE];
/// The bucket that keeps old versions.
pub const VERSIONED: &str = "versions";
/// The bucket that keeps old versions, and locks objects if a client asks for that.
pub const LOCKABLE: &str = "locks";

/// A server that runs until it is dropped.
pub struct Server {
    address: SocketAddr,
    objects: Objects,
    faults: Arc<Faults>,
    _runtime: Runtime,
}

impl Server {
    /// Starts one on a free port of this machine.
    #[must_use]
    pub fn start() -> Server {
        Server::start_with(Traits::default(), 0)
    }

    /// Starts one on a port; 0 is a free one.
    ///
    /// # Panics
    /// If it can't be started.
    #[must_use]
    pub fn start_with(traits: Traits, port: u16) -> Server {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("threads can be started");
        let listener = runtime
            .block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, port)))
            .expect("the port is free");
        let address = listener.local_addr().expect("it is bound");
        let objects = Objects::new(traits);
        let faults = Arc::new(Faults::default());
        let mut service = S3ServiceBuilder::new(objects.clone());
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let service = service.build();
        let of_connections = faults.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (service, faults) = (service.clone(), of_connections.clone());
                tokio::spawn(async move {
                    let answer = service_fn(move |request| faults::answer(service.clone(), faults.clone(), request));
                    // Clients go away when they like.
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), answer)
                        .await;
                });
            }
        });
        Server {
            address,
            objects,
            faults,
            _runtime: runtime,
        }
    }

    /// Returns the URL to give as endpoint.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns what goes wrong, and what was asked.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Returns the keys in a bucket, in order.
    #[must_use]
    pub fn keys(&self, bucket: &str) -> Vec<String> {
        self.objects.keys(bucket)
    }

    /// Returns an object.
    #[must_use]
    pub fn object(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        self.objects.get(bucket, key).map(|bytes| bytes.to_vec())
    }

    /// Returns the class of storage that an object was stored with.
    #[must_use]
    pub fn storage_class(&self, bucket: &str, key: &str) -> Option<String> {
        self.objects.class(bucket, key)
    }

    /// Moves an object to another class of storage, as a rule of the bucket may do. In `GLACIER` and `DEEP_ARCHIVE` it
    /// can't be read before it was thawed.
    pub fn set_storage_class(&self, bucket: &str, key: &str, class: &str) {
        self.objects.set_class(bucket, key, class);
    }

    /// Ends the thawing of all that a client has asked for: until then it goes on.
    pub fn finish_thaws(&self) {
        self.objects.finish_thaws();
    }

    /// Lets a thawed object be archived again once a client has looked so often whether it can be read.
    pub fn expire_after_looks(&self, bucket: &str, key: &str, looks: u32) {
        self.objects.expire_after_looks(bucket, key, looks);
    }

    /// Returns how fast an object was asked to be thawed, and for how many days, if it was and these have not passed.
    #[must_use]
    pub fn thaw(&self, bucket: &str, key: &str) -> Option<(String, u64)> {
        self.objects.thaw(bucket, key)
    }

    /// Returns the mode of the lock of an object, and until when it holds.
    #[must_use]
    pub fn locked_until(&self, bucket: &str, key: &str) -> Option<(String, SystemTime)> {
        self.objects.locked_until(bucket, key)
    }

    /// Makes all that is stored older, and its locks end sooner, as if this time had passed.
    pub fn pass(&self, time: Duration) {
        self.objects.pass(time);
    }

    /// Deletes all versions in a bucket whose locks let this happen, as a thief with all rights but that to bypass
    /// locks would. Returns how many are left.
    pub fn destroy(&self, bucket: &str) -> usize {
        self.objects.destroy(bucket)
    }

    /// Stores an object in place of another, or deletes it, as someone else may do.
    pub fn set(&self, bucket: &str, key: &str, bytes: Option<Vec<u8>>) {
        self.objects.set(bucket, key, bytes);
    }
}
