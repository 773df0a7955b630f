//! `sessions/<id>`: a backup that is running, or was killed. Its snapshot will be `snapshots/<id>`.
//!
//! ```
//! use ibid_format::session::{Process, Session};
//! use ibid_format::tree::Time;
//! use ibid_format::{FileId, Keys, MasterKey};
//!
//! let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
//! let session = Session {
//!     time: Time { seconds: 1_800_000_000, nanos: 0 },
//!     host: "amber".into(),
//!     user: "ada".into(),
//!     program: "ibid 0.1.0".into(),
//!     action: "backup".into(),
//!     paths: vec![b"/home/ada".to_vec()],
//!     process: Process { pid: 4711, ..Process::default() },
//! };
//! let id = FileId::random();
//! let mut file = session.encode(&keys, id)?;
//! assert_eq!(Session::open(&keys, id, &mut file)?, session);
//! # Ok::<(), ibid_format::Error>(())
//! ```

use crate::error::in_range;
use crate::tree::Time;
use crate::values::ValuesFile;
use crate::wire::{self, Reader};
use crate::{Error, FileId, Keys, SealKind};

/// Largest session file, bytes.
pub const LIMIT: u64 = 64 << 20;
/// Longest string in a session, bytes.
pub const STRING_BYTES_MAX: usize = 64 << 10;
/// Most paths.
pub const PATHS_MAX: u64 = 1 << 20;

const FILE: ValuesFile = ValuesFile {
    kind: SealKind::Session,
    limit: LIMIT,
    file: "session file",
    values: "session",
    padding: "session padding",
};

/// A process, so that others on its machine can tell whether it still runs. Numbers that can't be had are 0,
/// texts empty: then they can't.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Id of the machine.
    pub machine: String,
    /// Id of the machine's start.
    pub boot: String,
    /// Number of the namespace of process ids.
    pub namespace: u64,
    /// Process id.
    pub pid: u64,
    /// When it started, ticks since the machine's start.
    pub started: u64,
}

/// A backup that is running, or was killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// When it began.
    pub time: Time,
    /// The machine.
    pub host: String,
    /// The user who runs it.
    pub user: String,
    /// The program, such as `ibid 0.1.0`.
    pub program: String,
    /// What it does, such as `backup`.
    pub action: String,
    /// The paths that are backed up.
    pub paths: Vec<Vec<u8>>,
    /// The process.
    pub process: Process,
}

impl Session {
    /// Returns the file named `id` of this session.
    ///
    /// # Errors
    ///
    /// If a reader would refuse it: a string, the number of paths or the whole beyond its limit.
    pub fn encode(&self, keys: &Keys, id: FileId) -> Result<Vec<u8>, Error> {
        self.check()?;
        let mut values = Vec::new();
        self.put(&mut values);
        FILE.seal(keys, id, &values)
    }

    /// Reads the file named `id`.
    ///
    /// # Errors
    ///
    /// If it is not a session, has another version, its seal does not open, or its content breaks a rule of
    /// the format.
    pub fn open(keys: &Keys, id: FileId, bytes: &mut [u8]) -> Result<Session, Error> {
        Session::decode(FILE.open(keys, id, bytes)?)
    }

    /// Reads the plaintext of the seal.
    #[doc(hidden)]
    pub fn decode(plaintext: &[u8]) -> Result<Session, Error> {
        let mut reader = Reader::new(FILE.values(plaintext)?);
        let session = Session::read(&mut reader)?;
        reader.finish("session")?;
        session.check()?;
        Ok(session)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Session, Error> {
        let time = Time::read(reader)?;
        let mut text = |field| Ok::<_, Error>(reader.text(field, STRING_BYTES_MAX)?.to_owned());
        let (host, user, program, action) = (text("host")?, text("user")?, text("program")?, text("action")?);
        let (machine, boot) = (text("machine")?, text("boot")?);
        let count = reader.count("paths of a session", PATHS_MAX, 1)?;
        let mut paths = Vec::new();
        for _ in 0..count {
            paths.push(reader.bytes("path", STRING_BYTES_MAX)?.to_vec());
        }
        let process = Process {
            machine,
            boot,
            namespace: reader.varint("namespace")?,
            pid: reader.varint("process id")?,
            started: reader.varint("start of a process")?,
        };
        Ok(Session {
            time,
            host,
            user,
            program,
            action,
            paths,
            process,
        })
    }

    fn texts(&self) -> [&str; 6] {
        let Process { machine, boot, .. } = &self.process;
        [&self.host, &self.user, &self.program, &self.action, machine, boot]
    }

    fn put(&self, out: &mut Vec<u8>) {
        self.time.put(out);
        for text in self.texts() {
            wire::put_bytes(out, text.as_bytes());
        }
        wire::put_varint(out, self.paths.len() as u64);
        self.paths.iter().for_each(|path| wire::put_bytes(out, path));
        for number in [self.process.namespace, self.process.pid, self.process.started] {
            wire::put_varint(out, number);
        }
    }

    fn check(&self) -> Result<(), Error> {
        self.time.check()?;
        in_range("paths of a session", self.paths.len() as u64, 0, PATHS_MAX)?;
        let texts = self.texts().into_iter().map(str::as_bytes);
        for string in texts.chain(self.paths.iter().map(Vec::as_slice)) {
            in_range("string of a session", string.len() as u64, 0, STRING_BYTES_MAX as u64)?;
        }
        Ok(())
    }
}
