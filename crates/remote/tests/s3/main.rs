//! The storage over a server that speaks S3, with what goes wrong on the way.

mod archives;
mod faults;
mod locks;
mod promises;
mod servers;
mod settings;

use std::time::Duration;

use ibid_remote::{Address, Credentials, ObjectStorage, Options, open};
use ibid_s3_server::{ACCESS_KEY, SECRET_KEY, Server};
use ibid_storage::Name;

/// Returns options with little patience, for a server that is near.
fn options() -> Options {
    Options::default()
        .patience(Duration::from_secs(20))
        .stall(Duration::from_secs(1))
        .credentials(Some(Credentials::new(ACCESS_KEY, SECRET_KEY)))
}

/// Returns a storage at a place that a server has: a bucket, and a prefix if one is named.
fn storage(server: &Server, place: &str) -> ObjectStorage {
    storage_with(server, place, &options())
}

fn storage_with(server: &Server, place: &str, options: &Options) -> ObjectStorage {
    let address: Address = format!("s3://{place}?endpoint={}", server.endpoint()).parse().unwrap();
    open(&address, options).unwrap()
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}
