//! Reading bodies that are in pieces.

use std::borrow::Cow;

use ibid_format::record::{Part, PartKind, PieceList};

use super::lookup;
use super::records::{Records, damaged};
use crate::engine::{Read, Table};
use crate::error::{Damage, Error};

/// Decodes the list of a record.
pub(crate) fn list_of(number: u64, list: &[u8]) -> Result<PieceList, Error> {
    PieceList::decode(list).map_err(|error| damaged(number, error))
}

/// Returns a part of a body: a piece, or the list of a part that is a list.
fn part(records: &Records, read: &(impl Read + ?Sized), list: &PieceList, part: &Part) -> Result<Vec<u8>, Error> {
    let (key, stored_key) = (list.kind.key(&part.id), list.stored_key(part));
    let entry = lookup::key_entry(read, &stored_key)?;
    let entry = entry.ok_or_else(|| Error::damaged(Table::Keys, &stored_key, Damage::Missing))?;
    let (number, owner) = (entry.latest, (list.namespace, &key[..], entry.versions));
    let (mut body, mut is_of_kind) = (None, false);
    records.show_stored(
        read,
        None,
        number,
        Some(owner),
        &mut |stored: Cow<'_, [u8]>, in_pieces| {
            is_of_kind = in_pieces == (list.kind == PartKind::List);
            body = Some(stored.into_owned());
        },
    )?;
    let body = body.filter(|_| is_of_kind);
    body.ok_or_else(|| damaged(number, Damage::Misplaced))
}

/// Returns the parts of a part that is a list, which must make as many bytes as it says.
pub(crate) fn parts_of(
    records: &Records,
    read: &(impl Read + ?Sized),
    list: &PieceList,
    of: &Part,
) -> Result<PieceList, Error> {
    let parts = PieceList::decode(&part(records, read, list, of)?);
    let parts = parts.map_err(|error| Error::damaged(Table::Keys, &list.stored_key(of), error))?;
    match parts.kind == PartKind::Piece && parts.length() == of.length {
        true => Ok(parts),
        false => Err(other_length(list, of)),
    }
}

/// Returns a piece, which must have as many bytes as its list says.
pub(crate) fn piece(
    records: &Records,
    read: &(impl Read + ?Sized),
    list: &PieceList,
    of: &Part,
) -> Result<Vec<u8>, Error> {
    let bytes = part(records, read, list, of)?;
    match bytes.len() as u64 == of.length {
        true => Ok(bytes),
        false => Err(other_length(list, of)),
    }
}

/// Returns the error of a part that is another one than its list says.
fn other_length(list: &PieceList, of: &Part) -> Error {
    Error::damaged(Table::Keys, &list.stored_key(of), Damage::Misplaced)
}

/// Returns a whole body, if it is not longer than is read at once.
pub(crate) fn assembled(records: &Records, read: &(impl Read + ?Sized), list: &PieceList) -> Result<Vec<u8>, Error> {
    let length = usize::try_from(list.length()).unwrap_or(usize::MAX);
    Error::check_body(length, records.body_bytes_max())?;
    let mut body = Vec::with_capacity(length);
    append(records, read, list, &mut body)?;
    Ok(body)
}

fn append(records: &Records, read: &(impl Read + ?Sized), list: &PieceList, body: &mut Vec<u8>) -> Result<(), Error> {
    for part in &list.parts {
        match list.kind {
            PartKind::Piece => body.extend_from_slice(&piece(records, read, list, part)?),
            PartKind::List => append(records, read, &parts_of(records, read, list, part)?, body)?,
        }
    }
    Ok(())
}
