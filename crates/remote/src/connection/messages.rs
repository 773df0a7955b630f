//! The messages of a connection. `docs/format/connection.md` describes their bytes.

use std::io::{self, BufReader, Read};

use ibid_storage::{Error, ErrorKind, NAME_LENGTH_MAX, Name, Operation};

use super::decode::Fields;

pub(super) const MAGIC: &[u8; 7] = b"ibidcon";
pub(super) const VERSION: u8 = 1;
/// The program, as greetings name it.
pub(super) const PROGRAM: &str = concat!("ibid ", env!("CARGO_PKG_VERSION"));

/// The most bytes of an object in one message.
pub(super) const PIECE: usize = 64 << 10;
/// The most bytes that can follow the length of a message.
pub(super) const MESSAGE_MAX: usize = PIECE + 512;
/// Bytes of a message before its fields, without the length.
pub(super) const HEADER: usize = 5;
/// Requests without an answer.
pub(super) const REQUESTS_MAX: usize = 256;
/// Bytes of objects that are on their way, or being read, unless it is one alone.
pub(super) const BYTES_MAX: u64 = 128 << 20;
/// Bytes of one object.
pub(super) const OBJECT_MAX: u64 = 512 << 20;
/// Bytes of one read.
pub(super) const READ_MAX: usize = 64 << 20;

pub(super) const MORE: u8 = 10;
pub(super) const OPENED: u8 = 65;
pub(super) const DONE: u8 = 66;
pub(super) const SIZED: u8 = 67;
pub(super) const BEGUN: u8 = 68;
pub(super) const BYTES: u8 = 69;
pub(super) const NAMES: u8 = 70;
pub(super) const FAILED: u8 = 71;
pub(super) const ALIVE: u8 = 72;
pub(super) const REFUSED: u8 = 73;

/// The other side has sent what the protocol does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub(super) String);

/// Why a message could not be read.
#[derive(Debug)]
pub(super) enum Unread {
    Io(io::Error),
    Violation(Violation),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Unread {
        Unread::Io(error)
    }
}

impl From<Violation> for Unread {
    fn from(violation: Violation) -> Unread {
        Unread::Violation(violation)
    }
}

pub(super) fn violation(found: impl Into<String>) -> Violation {
    Violation(found.into())
}

/// The beginning of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of the fields.
    pub(super) length: usize,
    pub(super) number: u32,
    pub(super) kind: u8,
}

impl Header {
    /// Reads the beginning of a message; `None` if the stream ends before it.
    pub(super) fn read(reader: &mut impl Read) -> Result<Option<Header>, Unread> {
        let mut length = [0; 4];
        if !fill(reader, &mut length)? {
            return Ok(None);
        }
        let length = u32::from_le_bytes(length) as usize;
        if !(HEADER..=MESSAGE_MAX).contains(&length) {
            return Err(violation(format!(
                "a message of {length} bytes, where {HEADER} to {MESSAGE_MAX} are allowed"
            ))
            .into());
        }
        let mut rest = [0; HEADER];
        reader.read_exact(&mut rest)?;
        let [a, b, c, d, kind] = rest;
        Ok(Some(Header {
            length: length - HEADER,
            number: u32::from_le_bytes([a, b, c, d]),
            kind,
        }))
    }

    /// Reads the fields into a buffer, which is emptied before.
    pub(super) fn read_fields(&self, reader: &mut impl Read, fields: &mut Vec<u8>) -> io::Result<()> {
        fields.clear();
        self.append_fields(reader, fields)
    }

    /// Appends the fields to a buffer.
    pub(super) fn append_fields(&self, reader: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<()> {
        let read = reader.take(self.length as u64).read_to_end(buffer)?;
        match read == self.length {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Fills a buffer. Returns `false` if the stream ends before its first byte.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Returns the greeting of this program.
pub(super) fn greeting() -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.push(VERSION);
    put_name(&mut bytes, PROGRAM);
    bytes
}

/// Why there is no greeting that this program understands.
#[derive(Debug)]
pub(super) enum NoGreeting {
    Io(io::Error),
    /// The stream ended before a greeting had come.
    Nothing,
    /// Something else came, of which this is the beginning.
    Noise(String),
    Version {
        found: u8,
        program: String,
    },
}

impl From<io::Error> for NoGreeting {
    fn from(error: io::Error) -> NoGreeting {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => NoGreeting::Nothing,
            _ => NoGreeting::Io(error),
        }
    }
}

/// Reads the greeting of the other side; returns what it says of its program.
pub(super) fn read_greeting<R: Read>(reader: &mut BufReader<R>) -> Result<String, NoGreeting> {
    let mut found = Vec::new();
    while found.len() < MAGIC.len() {
        let mut byte = [0];
        match fill(reader, &mut byte)? {
            true => found.push(byte[0]),
            // What came is the beginning of a greeting.
            false => return Err(NoGreeting::Nothing),
        }
        if !MAGIC.starts_with(&found) {
            // What has come together with it says more than its first letter, and nothing is waited for.
            found.extend_from_slice(reader.buffer());
            return Err(NoGreeting::Noise(shown(&found)));
        }
    }
    let mut rest = [0; 2];
    reader.read_exact(&mut rest)?;
    let [version, length] = rest;
    let mut program = vec![0; usize::from(length)];
    reader.read_exact(&mut program)?;
    let program = shown(&program);
    match version {
        VERSION => Ok(program),
        found => Err(NoGreeting::Version { found, program }),
    }
}

/// Returns the first line of what another program has sent, without what terminals obey.
pub(super) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.next().unwrap_or_default();
    plain(line).chars().take(200).collect()
}

/// Returns a text of the other side without what terminals obey.
pub(super) fn plain(text: &str) -> String {
    text.chars().filter(|found| !found.is_control()).collect()
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Open { create: bool },
    Put { name: Name, size: u64 },
    Get { name: Name, limit: u64 },
    Read { name: Name, offset: u64, length: u64 },
    Size { name: Name },
    List { folder: String },
    ListTaken { folder: String },
    Settle { name: Name },
    Delete { name: Name },
}

impl Request {
    pub(super) fn kind(&self) -> u8 {
        match self {
            Request::Open { .. } => 1,
            Request::Put { .. } => 2,
            Request::Get { .. } => 3,
            Request::Read { .. } => 4,
            Request::Size { .. } => 5,
            Request::List { .. } => 6,
            Request::ListTaken { .. } => 7,
            Request::Settle { .. } => 8,
            Request::Delete { .. } => 9,
        }
    }

    /// Returns the operation of the storage that it stands for.
    pub(super) fn operation(&self) -> Operation {
        match self {
            Request::Open { create: true } => Operation::Create,
            Request::Open { create: false } => Operation::Open,
            Request::Put { .. } => Operation::Put,
            Request::Get { .. } => Operation::Get,
            Request::Read { .. } => Operation::ReadAt,
            Request::Size { .. } => Operation::Size,
            Request::List { .. } | Request::ListTaken { .. } => Operation::List,
            Request::Settle { .. } => Operation::Settle,
            Request::Delete { .. } => Operation::Delete,
        }
    }

    pub(super) fn name(&self) -> Option<&Name> {
        match self {
            Request::Open { .. } | Request::List { .. } | Request::ListTaken { .. } => None,
            Request::Put { name, .. }
            | Request::Get { name, .. }
            | Request::Read { name, .. }
            | Request::Size { name }
            | Request::Settle { name }
            | Request::Delete { name } => Some(name),
        }
    }

    /// Returns the fields; of a put those before its bytes.
    pub(super) fn fields(&self) -> Vec<u8> {
        let mut fields = Vec::new();
        if let Some(name) = self.name() {
            put_name(&mut fields, name.as_str());
        }
        match self {
            Request::Open { create } => fields.push(u8::from(*create)),
            Request::Put { size, .. } => fields.extend(size.to_le_bytes()),
            Request::Get { limit, .. } => fields.extend(limit.to_le_bytes()),
            Request::Read { offset, length, .. } => {
                fields.extend(offset.to_le_bytes());
                fields.extend(length.to_le_bytes());
            }
            Request::List { folder } | Request::ListTaken { folder } => put_name(&mut fields, folder),
            Request::Size { .. } | Request::Settle { .. } | Request::Delete { .. } => {}
        }
        fields
    }

    /// Decodes a request; of a put also returns where its bytes begin in the fields.
    pub(super) fn decode(kind: u8, bytes: &[u8]) -> Result<(Request, usize), Violation> {
        let mut fields = Fields::new(bytes);
        let request = match kind {
            1 => Request::Open { create: fields.flag()? },
            2 => Request::Put {
                name: fields.name()?,
                size: fields.u64()?,
            },
            3 => Request::Get {
                name: fields.name()?,
                limit: fields.u64()?,
            },
            4 => Request::Read {
                name: fields.name()?,
                offset: fields.u64()?,
                length: fields.u64()?,
            },
            5 => Request::Size { name: fields.name()? },
            6 => Request::List {
                folder: fields.short_text()?,
            },
            7 => Request::ListTaken {
                folder: fields.short_text()?,
            },
            8 => Request::Settle { name: fields.name()? },
            9 => Request::Delete { name: fields.name()? },
            _ => return Err(violation(format!("a request of the unknown kind {kind}"))),
        };
        let at = bytes.len() - fields.left();
        if kind != 2 {
            fields.end()?;
        }
        Ok((request, at))
    }
}

/// How the server answers a request that has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) kind: ErrorKind,
    pub(super) operation: Operation,
    pub(super) name: Option<Name>,
    pub(super) found: String,
}

const KINDS: [ErrorKind; 11] = [
    ErrorKind::NotFound,
    ErrorKind::AlreadyExists,
    ErrorKind::PermissionDenied,
    ErrorKind::NoSpace,
    ErrorKind::ReadOnly,
    ErrorKind::Truncated,
    ErrorKind::TooLarge,
    ErrorKind::NotAnObject,
    ErrorKind::InvalidName,
    ErrorKind::Unsupported,
    ErrorKind::Io,
];
const OPERATIONS: [Operation; 10] = [
    Operation::Put,
    Operation::Get,
    Operation::ReadAt,
    Operation::Size,
    Operation::List,
    Operation::Delete,
    Operation::Settle,
    Operation::Create,
    Operation::Open,
    Operation::Sweep,
];

/// Returns the number of a value: its place in a list, from 1.
fn number_of<T: PartialEq>(list: &[T], value: &T) -> u8 {
    let at = list.iter().position(|known| known == value);
    // What is not listed is the last one: a kind that a later version of the trait has.
    at.map_or(list.len() as u8, |at| at as u8 + 1)
}

impl Failed {
    pub(super) fn of(error: &Error) -> Failed {
        let mut found = error.found().to_owned();
        // The other side has no source of the error to tell.
        if error.kind() == ErrorKind::Io
            && let Some(source) = std::error::Error::source(error)
        {
            found = format!("{found}: {source}");
        }
        Failed {
            kind: error.kind(),
            operation: error.operation(),
            name: error.name().cloned(),
            found,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut fields = vec![number_of(&KINDS, &self.kind), number_of(&OPERATIONS, &self.operation)];
        put_name(&mut fields, self.name.as_ref().map_or("", Name::as_str));
        put_text(&mut fields, &self.found);
        fields
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Failed, Violation> {
        let mut fields = Fields::new(bytes);
        let (kind, operation) = (fields.u8()?, fields.u8()?);
        let unknown = || violation(format!("a failure of the unknown kind {kind} or operation {operation}"));
        let listed = |number: u8| usize::from(number).wrapping_sub(1);
        let failed = Failed {
            kind: *KINDS.get(listed(kind)).ok_or_else(unknown)?,
            operation: *OPERATIONS.get(listed(operation)).ok_or_else(unknown)?,
            name: fields.optional_name()?,
            found: fields.text()?,
        };
        fields.end()?;
        Ok(failed)
    }

    /// Returns the error at the place of a client.
    pub(super) fn into_error(self, location: String) -> Error {
        Error::new(self.kind, self.operation, self.name.as_ref(), location).with_found(plain(&self.found))
    }
}

/// What the server says of what it has opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) append_only: bool,
    /// Where it stores.
    pub(super) place: String,
    /// A file there that is of no repository.
    pub(super) other: String,
}

impl Told {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut fields = vec![u8::from(self.append_only)];
        put_text(&mut fields, &self.place);
        put_text(&mut fields, &self.other);
        fields
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Told, Violation> {
        let mut fields = Fields::new(bytes);
        let told = Told {
            append_only: fields.flag()?,
            place: fields.text()?,
            other: fields.text()?,
        };
        fields.end()?;
        Ok(told)
    }
}

/// Appends a name, or the text of a folder.
pub(super) fn put_name(fields: &mut Vec<u8>, name: &str) {
    let name = &name.as_bytes()[..name.len().min(NAME_LENGTH_MAX)];
    fields.push(name.len() as u8);
    fields.extend_from_slice(name);
}

/// Appends a text for people, cut short if it is very long.
pub(super) fn put_text(fields: &mut Vec<u8>, text: &str) {
    const LONGEST: usize = 2000;
    let end = (0..=text.len().min(LONGEST))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    let text = &text[..end.unwrap_or(0)];
    fields.extend((text.len() as u16).to_le_bytes());
    fields.extend_from_slice(text.as_bytes());
}

/// Decodes bytes as what a client sends after its greeting, for fuzzing. Returns how many messages there are; each was
/// encoded again, as the same bytes.
///
/// # Errors
/// The first thing that the protocol does not have.
///
/// # Panics
/// If a message is encoded as other bytes than it was decoded from.
#[doc(hidden)]
pub fn decode_requests(bytes: &[u8]) -> Result<usize, Violation> {
    each_message(bytes, |header, fields| {
        if header.kind == MORE {
            return Ok(());
        }
        let (request, at) = Request::decode(header.kind, fields)?;
        assert_eq!((request.kind(), &request.fields()[..]), (header.kind, &fields[..at]));
        Ok(())
    })
}

/// Decodes bytes as what a server sends after its greeting, for fuzzing. Returns how many messages there are; each was
/// encoded again, as the same bytes.
///
/// # Errors
/// The first thing that the protocol does not have.
///
/// # Panics
/// If a message is encoded as other bytes than it was decoded from.
#[doc(hidden)]
pub fn decode_answers(bytes: &[u8]) -> Result<usize, Violation> {
    each_message(bytes, |header, fields| {
        let mut of = Fields::new(fields);
        match header.kind {
            OPENED => assert_eq!(Told::decode(fields)?.encode(), fields),
            FAILED => assert_eq!(Failed::decode(fields)?.encode(), fields),
            SIZED | BEGUN => {
                of.u64()?;
                of.end()?;
            }
            NAMES => {
                while of.left() > 0 {
                    of.name()?;
                    of.u64()?;
                }
            }
            DONE | ALIVE => of.end()?,
            REFUSED => {
                of.text()?;
                of.end()?;
            }
            BYTES => {}
            kind => return Err(violation(format!("an answer of the unknown kind {kind}"))),
        }
        Ok(())
    })
}

fn each_message(bytes: &[u8], each: impl Fn(Header, &[u8]) -> Result<(), Violation>) -> Result<usize, Violation> {
    let (mut reader, mut fields, mut count) = (bytes, Vec::new(), 0);
    let cut = || violation("the stream ends within a message");
    loop {
        match Header::read(&mut reader) {
            Ok(None) => return Ok(count),
            Ok(Some(header)) => {
                header.read_fields(&mut reader, &mut fields).map_err(|_| cut())?;
                each(header, &fields)?;
                count += 1;
            }
            Err(Unread::Violation(violation)) => return Err(violation),
            Err(Unread::Io(_)) => return Err(cut()),
        }
    }
}
