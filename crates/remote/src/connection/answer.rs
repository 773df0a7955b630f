//! What a server answers.

use ibid_storage::{Error, ErrorKind, Name, Operation};

use super::decode::Fields;
use super::frame::{Violation, put_name, put_text, violation};
use super::greeting::plain;

pub(super) const OPENED: u8 = 65;
pub(super) const DONE: u8 = 66;
pub(super) const SIZED: u8 = 67;
pub(super) const BEGUN: u8 = 68;
pub(super) const BYTES: u8 = 69;
pub(super) const NAMES: u8 = 70;
pub(super) const FAILED: u8 = 71;
pub(super) const ALIVE: u8 = 72;
pub(super) const REFUSED: u8 = 73;
pub(super) const BUSY: u8 = 74;

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
    /// Bytes of puts that may be without an answer, unless it is one put alone.
    pub(super) window: u64,
    /// Where it stores.
    pub(super) place: String,
    /// A file there that is of no repository.
    pub(super) other: String,
}

impl Told {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut fields = vec![u8::from(self.append_only)];
        fields.extend(self.window.to_le_bytes());
        put_text(&mut fields, &self.place);
        put_text(&mut fields, &self.other);
        fields
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Told, Violation> {
        let mut fields = Fields::new(bytes);
        let told = Told {
            append_only: fields.flag()?,
            window: fields.u64()?,
            place: fields.text()?,
            other: fields.text()?,
        };
        fields.end()?;
        Ok(told)
    }
}
