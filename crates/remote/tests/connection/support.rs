//! Another machine, whose connections are lost on demand, and what the tests of all lines use.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibid_remote::Options;
use ibid_remote::connection::{Dial, Ended, Ending, HostStorage, Opened, ServeOptions, Streams};
use ibid_storage::{Error, Local, Memory, Name, Storage};

/// After how many bytes of the protocol a connection is lost, in each direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cut {
    up: Option<u64>,
    down: Option<u64>,
}

impl Cut {
    pub(crate) fn up(bytes: u64) -> Cut {
        Cut {
            up: Some(bytes),
            down: None,
        }
    }

    pub(crate) fn down(bytes: u64) -> Cut {
        Cut {
            up: None,
            down: Some(bytes),
        }
    }
}

/// Another machine.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) place: Place,
    pub(crate) options: ServeOptions,
    /// What happens to the next connections.
    cuts: Arc<Mutex<VecDeque<Cut>>>,
    dials: Arc<AtomicU64>,
    /// What the line needs.
    pub(crate) line: crate::Line,
}

/// What the other machine has.
#[derive(Clone)]
pub(crate) enum Place {
    Ready(Arc<dyn Storage>),
    /// A folder that may not be there yet.
    Folder(PathBuf),
}

impl Place {
    pub(crate) fn open(&self, create: bool) -> Result<Opened, Error> {
        Ok(Opened::new(match self {
            Place::Ready(storage) => storage.clone(),
            Place::Folder(path) if create => Arc::new(Local::create(path)?),
            Place::Folder(path) => Arc::new(Local::open(path)?),
        }))
    }
}

impl Host {
    pub(crate) fn new(storage: impl Storage + 'static) -> Host {
        Host::at(Place::Ready(Arc::new(storage)))
    }

    pub(crate) fn at(place: Place) -> Host {
        Host {
            place,
            options: ServeOptions::default().alive(Duration::from_millis(50)),
            cuts: Arc::default(),
            dials: Arc::default(),
            line: crate::Line::default(),
        }
    }

    pub(crate) fn cut(&self, cuts: impl IntoIterator<Item = Cut>) {
        self.cuts.lock().unwrap().extend(cuts);
    }

    pub(crate) fn dials(&self) -> u64 {
        self.dials.load(Relaxed)
    }

    /// Returns a client of this host that has opened its storage.
    pub(crate) fn client(&self) -> HostStorage {
        let client = self.client_with(&options());
        client.create().unwrap();
        client
    }

    pub(crate) fn client_with(&self, options: &Options) -> HostStorage {
        HostStorage::new(self.clone(), "ssh://host/place", options)
    }
}

/// Returns options with little patience, for a server that is near.
pub(crate) fn options() -> Options {
    Options::default()
        .patience(Duration::from_secs(10))
        .stall(Duration::from_secs(1))
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

impl Dial for Host {
    fn dial(&self) -> Result<Streams, Ended> {
        self.dials.fetch_add(1, Relaxed);
        let cut = self.cuts.lock().unwrap().pop_front().unwrap_or_default();
        let Streams {
            answers,
            requests,
            ending,
        } = crate::dial(self)?;
        let ending = Arc::new(Mutex::new(ending));
        let lossy = |left| Lossy {
            left,
            ending: ending.clone(),
        };
        Ok(Streams {
            answers: Box::new(Answers(answers, lossy(cut.down))),
            requests: Box::new(Requests(requests, lossy(cut.up))),
            ending: Box::new(Closing(ending.clone())),
        })
    }
}

struct Closing(Arc<Mutex<Box<dyn Ending>>>);

impl Ending for Closing {
    fn end(&mut self, by_itself: bool) -> Ended {
        self.0.lock().unwrap().end(by_itself);
        Ended::new("the connection was cut")
    }
}

/// Loses a connection after so many bytes.
struct Lossy {
    left: Option<u64>,
    ending: Arc<Mutex<Box<dyn Ending>>>,
}

impl Lossy {
    /// Returns how many of these bytes still pass.
    fn pass(&mut self, length: usize) -> usize {
        let passes = self.left.map_or(length, |left| length.min(left as usize));
        if passes == 0 && length > 0 {
            self.ending.lock().unwrap().end(false);
        }
        passes
    }

    fn passed(&mut self, bytes: usize) {
        if let Some(left) = &mut self.left {
            *left -= bytes as u64;
        }
    }
}

struct Answers(Box<dyn Read + Send>, Lossy);

impl Read for Answers {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let passes = self.1.pass(buffer.len());
        let read = self.0.read(&mut buffer[..passes])?;
        self.1.passed(read);
        Ok(read)
    }
}

struct Requests(Box<dyn Write + Send>, Lossy);

impl Write for Requests {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let passes = self.1.pass(bytes.len());
        if passes == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let written = self.0.write(&bytes[..passes])?;
        self.1.passed(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns bytes that don't repeat.
pub(crate) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..length).map(|_| random.next() as u8).collect()
}

/// Numbers that follow from a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Returns all objects of a storage.
pub(crate) fn objects(storage: &dyn Storage) -> Vec<(String, Vec<u8>)> {
    let mut names = Vec::new();
    storage.list("", &mut |name, _| names.push(name)).unwrap();
    names.sort();
    let read = |name: Name| (name.to_string(), storage.get(&name, u64::MAX).unwrap());
    names.into_iter().map(read).collect()
}

/// Returns a host with a storage in memory, and that storage.
pub(crate) fn memory() -> (Host, Memory) {
    let memory = Memory::new();
    (Host::new(memory.clone()), memory)
}
