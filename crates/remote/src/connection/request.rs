//! What a client asks.

use ibid_storage::{Name, Operation};

use super::decode::Fields;
use super::frame::{Violation, put_name, violation};

/// The next bytes of the object of a put.
pub(super) const MORE: u8 = 10;

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
