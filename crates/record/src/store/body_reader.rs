//! Reading a body of any length, piece by piece.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use ibid_format::record::PieceList;

use super::shared::OpenView;
use crate::error::Error;
use crate::read::pieces;
use crate::read::view::Opened;

/// A body that is read from its beginning to its end, or from [elsewhere](Self::seek_to);
/// [`Namespace::open`](crate::Namespace::open) and [`Snapshot::open`](crate::Snapshot::open) return it. It takes memory
/// for one piece of the body, and shows it as it was when it was opened.
pub struct BodyReader {
    view: Arc<OpenView>,
    length: u64,
    /// Where the next byte is.
    at: u64,
    /// The bytes that are in memory, and where they begin.
    piece: Vec<u8>,
    piece_at: u64,
    /// [`None`] if the body is one record, which is in memory.
    lists: Option<Lists>,
}

/// The lists of a body in pieces.
struct Lists {
    root: PieceList,
    /// The list that the piece is of, and where it begins.
    list: Option<(PieceList, u64)>,
}

impl BodyReader {
    pub(super) fn new(view: Arc<OpenView>, opened: Opened) -> Self {
        let (length, piece, lists) = match opened {
            Opened::Whole(body) => (body.len() as u64, body, None),
            Opened::InPieces(root) => (root.length(), Vec::new(), Some(Lists { root, list: None })),
        };
        BodyReader {
            view,
            length,
            at: 0,
            piece,
            piece_at: 0,
            lists,
        }
    }

    /// Returns the length of the body, bytes.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether the body has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Goes to a place in the body: the next byte that is read is the one at this offset. Behind the end there is none.
    pub fn seek_to(&mut self, offset: u64) {
        self.at = offset;
    }

    /// Returns the bytes of the body from the next one on, at least one unless it has ended, and goes behind them.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Engine`].
    pub fn next_bytes(&mut self) -> Result<&[u8], Error> {
        let from = self.find()?;
        self.at += (self.piece.len() - from) as u64;
        Ok(&self.piece[from..])
    }

    /// Brings the piece with the next byte into memory, and returns where that is in it.
    fn find(&mut self) -> Result<usize, Error> {
        let at = self.at;
        if at >= self.length {
            return Ok(self.piece.len());
        }
        if let Some(within) = at.checked_sub(self.piece_at)
            && within < self.piece.len() as u64
        {
            return Ok(within as usize);
        }
        let Some(lists) = &mut self.lists else {
            return Ok(self.piece.len());
        };
        let (engine, records) = (self.view.engine(), self.view.records());
        let is_in = |list: &(PieceList, u64)| at >= list.1 && at - list.1 < list.0.length();
        if !lists.list.as_ref().is_some_and(is_in) {
            let (part, begin) = part_at(&lists.root, at);
            let list = pieces::parts_of(records, engine, &lists.root, &lists.root.parts[part])?;
            lists.list = Some((list, begin));
        }
        let Some((list, list_at)) = &lists.list else {
            return Ok(self.piece.len());
        };
        let (part, begin) = part_at(list, at - list_at);
        self.piece = pieces::piece(records, engine, list, &list.parts[part])?;
        self.piece_at = list_at + begin;
        Ok((at - self.piece_at) as usize)
    }
}

/// Returns the part of a list that has a byte, and where the part begins. The list has that byte.
fn part_at(list: &PieceList, at: u64) -> (usize, u64) {
    let mut begin = 0;
    for (number, part) in list.parts.iter().enumerate() {
        if at - begin < part.length {
            return (number, begin);
        }
        begin += part.length;
    }
    unreachable!("the byte is one of the list's")
}

impl Read for BodyReader {
    /// Reads bytes of the body. An error has an [`Error`] as its source.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let from = self.find().map_err(io::Error::other)?;
        let bytes = &self.piece[from..];
        let length = bytes.len().min(into.len());
        into[..length].copy_from_slice(&bytes[..length]);
        self.at += length as u64;
        Ok(length)
    }
}

impl fmt::Debug for BodyReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyReader")
            .field("length", &self.length)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}
