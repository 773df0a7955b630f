//! The storage over a connection to `ibid serve`, with what goes wrong on the way. The server runs on a thread, at the
//! other end of a pair of streams. `tests/connection_over_tls` runs most of these tests over TLS, too.

mod append_only;
mod cuts;
mod document;
mod ends;
mod hostile;
mod lines;
mod promises;
mod support;
mod weather;

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use ibid_remote::connection::{Ended, Ending, Streams, serve};
use support::{Cut, Host, Place, Random, memory, name, noise, objects, options};

/// What is counted of the servers of a host.
#[derive(Clone, Default)]
struct Line {
    /// Servers that have ended.
    ended: Arc<AtomicU64>,
}

/// Starts a server at the other end of a pair of streams.
fn dial(host: &Host) -> Result<Streams, Ended> {
    streams(host).map_err(|error| Ended::new(error.to_string()))
}

fn streams(host: &Host) -> io::Result<Streams> {
    let (here, there) = UnixStream::pair()?;
    let host = host.clone();
    let answers = there.try_clone()?;
    thread::spawn(move || {
        // That the other side breaks off is what these tests are about.
        let _ = serve(&|create| host.place.open(create), &there, &answers, &host.options);
        let _ = there.shutdown(Shutdown::Both);
        host.line.ended.fetch_add(1, Relaxed);
    });
    Ok(Streams {
        answers: Box::new(here.try_clone()?),
        requests: Box::new(Requests(here.try_clone()?)),
        ending: Box::new(Closing(here)),
    })
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

impl Write for Requests {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
