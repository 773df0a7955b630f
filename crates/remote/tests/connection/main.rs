//! The storage over a connection to `ibid serve`, with what goes wrong on the way. The server runs on a thread.

mod append_only;
mod cuts;
mod document;
mod hostile;
mod lines;
mod promises;
mod weather;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ibid_remote::Options;
use ibid_remote::connection::{Dial, Ended, Ending, HostStorage, Opened, ServeOptions, Streams, serve};
use ibid_storage::{Error, Local, Memory, Name, Storage};

/// After how many bytes a connection is lost, in each direction.
#[derive(Clone, Copy, Debug, Default)]
struct Cut {
    up: Option<u64>,
    down: Option<u64>,
}

impl Cut {
    fn up(bytes: u64) -> Cut {
        Cut {
            up: Some(bytes),
            down: None,
        }
    }

    fn down(bytes: u64) -> Cut {
        Cut {
            up: None,
            down: Some(bytes),
        }
    }
}

/// Another machine.
#[derive(Clone)]
struct Host {
    place: Place,
    options: ServeOptions,
    /// What happens to the next connections.
    cuts: Arc<Mutex<VecDeque<Cut>>>,
    dials: Arc<AtomicU64>,
    /// Servers that have ended.
    ended: Arc<AtomicU64>,
}

/// What the other machine has.
#[derive(Clone)]
enum Place {
    Ready(Arc<dyn Storage>),
    /// A folder that may not be there yet.
    Folder(PathBuf),
}

impl Host {
    fn new(storage: impl Storage + 'static) -> Host {
        Host::at(Place::Ready(Arc::new(storage)))
    }

    fn at(place: Place) -> Host {
        Host {
            place,
            options: ServeOptions::default().alive(Duration::from_millis(50)),
            cuts: Arc::default(),
            dials: Arc::default(),
            ended: Arc::default(),
        }
    }

    fn cut(&self, cuts: impl IntoIterator<Item = Cut>) {
        self.cuts.lock().unwrap().extend(cuts);
    }

    fn dials(&self) -> u64 {
        self.dials.load(Relaxed)
    }

    /// Returns a client of this host that has opened its storage.
    fn client(&self) -> HostStorage {
        let client = self.client_with(&options());
        client.create().unwrap();
        client
    }

    fn client_with(&self, options: &Options) -> HostStorage {
        HostStorage::new(self.clone(), "ssh://host/place", options)
    }
}

/// Returns options with little patience, for a server that is near.
fn options() -> Options {
    Options::default()
        .patience(Duration::from_secs(10))
        .stall(Duration::from_secs(1))
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

impl Dial for Host {
    fn dial(&self) -> io::Result<Streams> {
        self.dials.fetch_add(1, Relaxed);
        let cut = self.cuts.lock().unwrap().pop_front().unwrap_or_default();
        let (here, there) = UnixStream::pair()?;
        let host = self.clone();
        let answers = there.try_clone()?;
        thread::spawn(move || {
            let open = |create: bool| -> Result<Opened, Error> {
                Ok(Opened::new(match &host.place {
                    Place::Ready(storage) => storage.clone(),
                    Place::Folder(path) if create => Arc::new(Local::create(path)?),
                    Place::Folder(path) => Arc::new(Local::open(path)?),
                }))
            };
            // That the other side breaks off is what these tests are about.
            let _ = serve(&open, &there, &answers, &host.options);
            let _ = there.shutdown(Shutdown::Both);
            host.ended.fetch_add(1, Relaxed);
        });
        let lossy = |left| -> io::Result<Lossy> {
            let stream = here.try_clone()?;
            Ok(Lossy { stream, left })
        };
        Ok(Streams {
            answers: Box::new(lossy(cut.down)?),
            requests: Box::new(Requests(lossy(cut.up)?)),
            ending: Box::new(Closing(here)),
        })
    }
}

struct Closing(UnixStream);

impl Ending for Closing {
    fn end(&mut self, _by_itself: bool) -> Ended {
        let _ = self.0.shutdown(Shutdown::Both);
        Ended::new("the connection was cut")
    }
}

/// A stream that is lost after so many bytes.
struct Lossy {
    stream: UnixStream,
    left: Option<u64>,
}

impl Lossy {
    /// Returns how many of these bytes still pass.
    fn pass(&mut self, length: usize) -> usize {
        let passes = self.left.map_or(length, |left| length.min(left as usize));
        if passes == 0 && length > 0 {
            let _ = self.stream.shutdown(Shutdown::Both);
        }
        passes
    }

    fn passed(&mut self, bytes: usize) {
        if let Some(left) = &mut self.left {
            *left -= bytes as u64;
        }
    }
}

impl Read for Lossy {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let passes = self.pass(buffer.len());
        let read = self.stream.read(&mut buffer[..passes])?;
        self.passed(read);
        Ok(read)
    }
}

/// The stream of requests, which ends when it is dropped, also where the socket has other handles.
struct Requests(Lossy);

impl Drop for Requests {
    fn drop(&mut self) {
        let _ = self.0.stream.shutdown(Shutdown::Write);
    }
}

impl Write for Requests {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Write for Lossy {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let passes = self.pass(bytes.len());
        if passes == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let written = self.stream.write(&bytes[..passes])?;
        self.passed(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns bytes that don't repeat.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..length).map(|_| random.next() as u8).collect()
}

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Returns all objects of a storage.
fn objects(storage: &dyn Storage) -> Vec<(String, Vec<u8>)> {
    let mut names = Vec::new();
    storage.list("", &mut |name, _| names.push(name)).unwrap();
    names.sort();
    let read = |name: Name| (name.to_string(), storage.get(&name, u64::MAX).unwrap());
    names.into_iter().map(read).collect()
}

/// Returns a host with a storage in memory, and that storage.
fn memory() -> (Host, Memory) {
    let memory = Memory::new();
    (Host::new(memory.clone()), memory)
}
