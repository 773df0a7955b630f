//! Puts a line to a server around the storages of a simulation.
//!
//! Every call is carried over the line while the simulated thread that makes it waits, so a seed decides what happens
//! as it does without. What the server does at once it does on threads of its own.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread;

use ibid_remote::connection::{Dial, Ended, Ending, HostStorage, Opened, ServeOptions, Streams, serve};
use ibid_remote::{Credentials, Options};
use ibid_s3_server::{ACCESS_KEY, SECRET_KEY, Server};

use crate::support::place::{Place, reach_all};

/// Has all storages of a simulation be reached so.
///
/// # Errors
/// If that can't be, or means nothing.
pub(crate) fn reach(command: &str, over: Option<&str>) -> Result<(), String> {
    match (over, command) {
        (None, _) => {}
        (Some("connection"), "crash" | "damage" | "repair" | "losses" | "prune") => reach_all(over_a_connection),
        // What a disk loses with its power is not what a server of S3 loses.
        (Some("s3"), "damage" | "losses" | "prune") => reach_all(in_a_server),
        (Some(over), _) => return Err(format!("{command} --over {over}: there is no such simulation")),
    }
    Ok(())
}

/// Returns the client of a server of this storage, which runs as long as the client lives.
fn over_a_connection(storage: Place) -> Place {
    let client = HostStorage::new(Pair(storage), "ssh://simulated/place", &Options::default());
    // A disk without power fails later, with each call.
    let _ = client.open();
    Arc::new(client)
}

/// A server at the other end of two streams.
struct Pair(Place);

impl Dial for Pair {
    fn dial(&self) -> Result<Streams, Ended> {
        let failed = |error: std::io::Error| Ended::new(error.to_string());
        let (here, there) = UnixStream::pair().map_err(failed)?;
        let (answers, requests) = (
            here.try_clone().map_err(failed)?,
            Requests(here.try_clone().map_err(failed)?),
        );
        let storage = self.0.clone();
        thread::spawn(move || {
            let open = |_| Ok(Opened::new(storage.clone()));
            serve(&open, &there, &there, &ServeOptions::default()).expect("a client of this program");
            let _ = there.shutdown(Shutdown::Both);
        });
        Ok(Streams {
            answers: Box::new(answers),
            requests: Box::new(requests),
            ending: Box::new(Closing(here)),
        })
    }
}

struct Closing(UnixStream);

impl Ending for Closing {
    fn end(&mut self, _by_itself: bool) -> Ended {
        let _ = self.0.shutdown(Shutdown::Both);
        Ended::new("the connection was closed")
    }
}

/// The stream of requests, which ends when it is dropped, also where the socket has other handles.
struct Requests(UnixStream);

impl Drop for Requests {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }
}

impl std::io::Write for Requests {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns a storage with the same objects, in a folder of its own of a server that lives as long as this program.
fn in_a_server(storage: Place) -> Place {
    static SERVER: OnceLock<Server> = OnceLock::new();
    static FOLDERS: AtomicU64 = AtomicU64::new(0);
    let server = SERVER.get_or_init(Server::start);
    let folder = FOLDERS.fetch_add(1, Relaxed);
    let mut names = Vec::new();
    storage
        .list("", &mut |name, _| names.push(name))
        .expect("it is in memory");
    for name in names {
        let bytes = storage.get(&name, u64::MAX).expect("it is in memory");
        server.set("bucket", &format!("{folder}/{name}"), Some(bytes));
    }
    let address = format!("s3://bucket/{folder}?endpoint={}&region=us-east-1", server.endpoint());
    let options = Options::default().credentials(Some(Credentials::new(ACCESS_KEY, SECRET_KEY)));
    let address = address.parse().expect("an address");
    Arc::new(ibid_remote::open(&address, &options).expect("what it needs is given"))
}
