//! The tests of `tests/connection` over TLS, and what TLS and many clients bring with them.

#[path = "../connection/append_only.rs"]
mod append_only;
mod certificates;
mod crowds;
#[path = "../connection/cuts.rs"]
mod cuts;
#[path = "../connection/lines.rs"]
mod lines;
#[path = "../connection/promises.rs"]
mod promises;
mod strangers;
#[path = "../connection/support.rs"]
mod support;
#[path = "../connection/weather.rs"]
mod weather;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use certificates::{ours, server};
use ibid_remote::connection::{Dial, Ended, ListenOptions, MutualTls, Streams, Tls, listen};
use support::{Cut, Host, Place, Random, memory, name, noise, objects, options};

/// A server that listens while this value lives, and what it said of clients that it did not answer.
struct Listening {
    address: SocketAddr,
    said: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    fn start(place: Place, options: ListenOptions) -> Listening {
        Listening::start_with(server().clone(), place, options)
    }

    fn start_with(tls: MutualTls, place: Place, options: ListenOptions) -> Listening {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, said) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let thread = thread::spawn({
            let (stop, said) = (stop.clone(), said.clone());
            move || {
                let told = |_, why: String| said.lock().unwrap().push(why);
                let open = |create| place.open(create);
                listen(&listener, &tls, &open, &options, &stop, &told).unwrap();
            }
        });
        Listening {
            address,
            said,
            stop,
            thread: Some(thread),
        }
    }

    fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// Stops the server, and waits until it has ended.
    fn stop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    fn tls(&self) -> Tls {
        Tls::new(format!("tls://{}", self.address).parse().unwrap(), ours("127.0.0.1"))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// The servers of a host, one for each way in which it was to serve, so that tests can change it.
#[derive(Clone, Default)]
struct Line(Arc<Mutex<Vec<(String, Listening)>>>);

/// Connects to the server of a host, which is started when it is needed first.
fn dial(host: &Host) -> Result<Streams, Ended> {
    let how = format!("{:?}", host.options);
    let mut servers = host.line.0.lock().unwrap();
    if !servers.iter().any(|(of, _)| *of == how) {
        let options = ListenOptions::default().serve(host.options.clone()).memory(1 << 30);
        servers.push((how.clone(), Listening::start(host.place.clone(), options)));
    }
    let tls = servers.iter().find(|(of, _)| *of == how).unwrap().1.tls();
    drop(servers);
    tls.dial()
}
