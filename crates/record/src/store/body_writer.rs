//! Storing a body before it has a key, piece by piece.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use ibid_chunk::{Chunker, Settings};
use ibid_format::record::{LONG_BODY_BYTES_MAX, Part, PartKind, PieceList, piece_id};

use super::pieces::{Draft, Pieces};
use super::shared::Shared;
use crate::engine::EngineError;
use crate::error::Error;
use crate::write::request::{Change, Changes, Durability};

/// The chunker of pieces: the one that a repository uses by default, for the same reasons.
const CHUNKER: &str = "argmin";
/// Average length of pieces, bytes.
const AVERAGE: usize = 128 << 10;
/// A body that is barely in pieces has at least so many.
const PIECES_MIN: usize = 32;
/// Smallest average length of pieces, bytes.
const AVERAGE_MIN: usize = 1 << 10;
/// A list ends behind a piece whose id begins with a multiple of this: after so many on average.
const LIST_END: u8 = 16;
/// Most pieces of a list.
const LIST_PIECES_MAX: usize = 64;
/// Bytes that are taken at once.
const AT_ONCE: usize = 1 << 20;
const VALID: &str = "a list has parts, and is within the limit of a body";

/// A body that is being stored; [`Store::body_writer`](crate::Store::body_writer) makes it.
///
/// What is written to it is cut, and stored piece by piece, so that a body of any length takes a few MiB of memory.
/// Pieces that the store has already are not stored again. [`finish`](Self::finish) returns what a
/// [`Batch`](crate::Batch) stores under a key. Until then no one sees the body, and dropping it removes it.
///
/// ```
/// use std::io::{Read, Write};
/// use ibid_record::{Batch, Options, Store, Versions};
/// # let folder = tempfile::tempdir()?;
/// let store = Store::open(folder.path(), Options::default())?;
/// let images = store.namespace("images", Versions::Kept)?;
/// let mut writer = store.body_writer()?;
/// for block in 0..200_u8 {
///     writer.write_all(&[block; 64 << 10])?;
/// }
/// let mut batch = Batch::new();
/// batch.insert(&images, b"disk", writer.finish()?);
/// store.commit(batch)?;
///
/// let mut reader = images.open(b"disk")?.expect("it was stored");
/// assert_eq!(reader.len(), 200 << 16);
/// let mut last = Vec::new();
/// reader.seek_to(reader.len() - 1);
/// reader.read_to_end(&mut last)?;
/// assert_eq!(last, [199]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BodyWriter {
    store: Arc<Shared>,
    /// What was written and is not cut yet. All of it as long as the body is not longer than one record may be.
    buffer: Vec<u8>,
    cutter: Option<Cutter>,
    /// Why something of the body was not stored.
    failure: Option<Error>,
}

/// What makes pieces, once a body is too long for one record.
struct Cutter {
    pieces: Arc<Pieces>,
    chunker: Chunker,
    draft: Draft,
    /// The pieces of the list that is being made, with their keys and bytes.
    open: Vec<(Part, Vec<u8>)>,
    open_bytes: usize,
    /// A list ends with the piece with which it has so many bytes.
    list_bytes: usize,
    /// The lists that were stored.
    lists: Vec<Part>,
    length: u64,
}

impl BodyWriter {
    pub(super) fn new(store: Arc<Shared>) -> Result<Self, Error> {
        store.writer()?;
        Ok(BodyWriter {
            store,
            buffer: Vec::new(),
            cutter: None,
            failure: None,
        })
    }

    /// Stores what is left, and returns the body, which is in no batch yet.
    ///
    /// # Errors
    /// As [`Store::commit`](crate::Store::commit); the same again if taking bytes failed before.
    pub fn finish(mut self) -> Result<StagedBody, Error> {
        self.cut(true)?;
        let Some(cutter) = self.cutter.take() else {
            return Ok(StagedBody(Staged::Whole(std::mem::take(&mut self.buffer))));
        };
        let root = PieceList {
            namespace: cutter.pieces.number(),
            kind: PartKind::List,
            parts: cutter.lists,
        };
        let list = root.encode().expect(VALID);
        Ok(StagedBody(Staged::InPieces {
            list,
            length: cutter.length,
            draft: Arc::new(cutter.draft),
        }))
    }

    /// Stores what is read, up to its end.
    pub(super) fn read_all(mut self, from: &mut (impl Read + ?Sized)) -> Result<StagedBody, Error> {
        let mut bytes = vec![0; AT_ONCE];
        loop {
            match from.read(&mut bytes) {
                Ok(0) => return self.finish(),
                Ok(length) => self.push(&bytes[..length])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(EngineError::io("read", Path::new("a body"), source).into()),
            }
        }
    }

    /// Takes bytes of the body, as [`Write`] does, with an error that says more.
    ///
    /// # Errors
    /// As [`Store::commit`](crate::Store::commit).
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(bytes);
        self.cut(false)
    }

    /// Cuts what is in the buffer, as far as the cuts are final, or all of it. Once that has failed, it always does:
    /// the body has a gap.
    fn cut(&mut self, all: bool) -> Result<(), Error> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let done = self.try_to_cut(all);
        self.failure = done.clone().err();
        done
    }

    fn try_to_cut(&mut self, all: bool) -> Result<(), Error> {
        if self.cutter.is_none() {
            if self.buffer.len() <= self.store.whole_bytes_max {
                return Ok(());
            }
            self.cutter = Some(Cutter::new(&self.store)?);
        }
        let Some(cutter) = &mut self.cutter else {
            return Ok(());
        };
        let mut at = 0;
        while at < self.buffer.len() {
            let rest = &self.buffer[at..];
            let length = cutter.chunker.cut(rest);
            if length == rest.len() && !all {
                break;
            }
            cutter.add(&self.store, rest[..length].to_vec())?;
            at += length;
        }
        self.buffer.drain(..at);
        match all {
            true => cutter.end_list(&self.store),
            false => Ok(()),
        }
    }
}

impl Cutter {
    fn new(store: &Arc<Shared>) -> Result<Self, Error> {
        let pieces = store.pieces()?;
        let average = (store.whole_bytes_max / PIECES_MIN).clamp(AVERAGE_MIN, AVERAGE);
        let settings = Settings::for_average(CHUNKER, average).expect("the average is one that the chunker can have");
        let chunker = Chunker::new(&settings).expect("the settings for an average are valid");
        let draft = Draft::begin(store.clone(), pieces.clone())?;
        Ok(Cutter {
            pieces,
            chunker,
            draft,
            open: Vec::new(),
            open_bytes: 0,
            list_bytes: LIST_PIECES_MAX * average,
            lists: Vec::new(),
            length: 0,
        })
    }

    fn add(&mut self, store: &Arc<Shared>, piece: Vec<u8>) -> Result<(), Error> {
        let length = piece.len() as u64;
        self.length += length;
        if self.length > LONG_BODY_BYTES_MAX {
            let (field, min, max, found) = ("record body", 0, LONG_BODY_BYTES_MAX, self.length);
            return Err(Error::OutOfRange { field, min, max, found });
        }
        let id = piece_id(&self.pieces.secret, &piece);
        self.open_bytes += piece.len();
        self.open.push((Part { id, length }, piece));
        let is_end = id[0].is_multiple_of(LIST_END);
        if is_end || self.open.len() == LIST_PIECES_MAX || self.open_bytes >= self.list_bytes {
            return self.end_list(store);
        }
        Ok(())
    }

    /// Stores the list that is being made with its pieces.
    fn end_list(&mut self, store: &Arc<Shared>) -> Result<(), Error> {
        if self.open.is_empty() {
            return Ok(());
        }
        let namespace = self.pieces.number();
        let open = std::mem::take(&mut self.open);
        self.open_bytes = 0;
        let mut operations = Vec::with_capacity(open.len() + 2);
        let mut parts = Vec::with_capacity(open.len());
        for (part, piece) in open {
            let key = PartKind::Piece.key(&part.id);
            operations.push(self.pieces.operation(key, Change::PutIfAbsent(piece), false));
            parts.push(part);
        }
        let list = PieceList {
            namespace,
            kind: PartKind::Piece,
            parts,
        };
        let length = list.length();
        let list = list.encode().expect(VALID);
        let id = piece_id(&self.pieces.secret, &list);
        let key = PartKind::List.key(&id);
        operations.push(self.pieces.operation(key, Change::PutIfAbsent(list), true));
        let part = Part { id, length };
        let held = PieceList {
            namespace,
            kind: PartKind::List,
            parts: vec![part],
        };
        let held = held.encode().expect(VALID);
        operations.push(self.pieces.operation(self.draft.next_key(), Change::Put(held), true));
        let changes = Changes {
            operations,
            ..Changes::default()
        };
        // What the batch syncs that gives it a key is behind this in the log.
        store.commit_stored(changes, Durability::None)?;
        self.lists.push(part);
        Ok(())
    }
}

impl Write for BodyWriter {
    /// Takes bytes of the body. An error has an [`Error`] as its source.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = &bytes[..bytes.len().min(AT_ONCE)];
        self.push(taken).map_err(io::Error::other)?;
        Ok(taken.len())
    }

    /// Does nothing: the batch that stores the body syncs it.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for BodyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyWriter").finish_non_exhaustive()
    }
}

/// A body that is stored and has no key yet; [`BodyWriter::finish`] returns it. A [`Batch`](crate::Batch) stores it
/// under keys of the same store. When the last of its copies is dropped, what no batch has stored is removed.
#[derive(Debug, Clone)]
pub struct StagedBody(Staged);

#[derive(Debug, Clone)]
enum Staged {
    /// One that is short enough for one record.
    Whole(Vec<u8>),
    InPieces {
        list: Vec<u8>,
        length: u64,
        draft: Arc<Draft>,
    },
}

impl StagedBody {
    /// Returns the length of the body, bytes.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Staged::Whole(body) => body.len() as u64,
            Staged::InPieces { length, .. } => *length,
        }
    }

    /// Whether the body has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A body for a [`Batch`](crate::Batch): bytes, borrowed or owned, or a [`StagedBody`].
#[derive(Debug)]
pub struct NewBody<'b>(Contents<'b>);

#[derive(Debug)]
enum Contents<'b> {
    Bytes(Cow<'b, [u8]>),
    /// A list of pieces, and what holds them.
    InPieces(Vec<u8>, Arc<Draft>),
}

impl NewBody<'_> {
    /// Returns the bytes that its record has, and if these are a list of pieces, what must stay until the record is
    /// there.
    pub(super) fn into_stored(self) -> (Vec<u8>, Option<Arc<Draft>>) {
        match self.0 {
            Contents::Bytes(bytes) => (bytes.into_owned(), None),
            Contents::InPieces(list, draft) => (list, Some(draft)),
        }
    }
}

impl<'b> From<Cow<'b, [u8]>> for NewBody<'b> {
    fn from(bytes: Cow<'b, [u8]>) -> Self {
        NewBody(Contents::Bytes(bytes))
    }
}

impl<'b> From<&'b [u8]> for NewBody<'b> {
    fn from(bytes: &'b [u8]) -> Self {
        Cow::Borrowed(bytes).into()
    }
}

impl<'b, const N: usize> From<&'b [u8; N]> for NewBody<'b> {
    fn from(bytes: &'b [u8; N]) -> Self {
        Cow::Borrowed(&bytes[..]).into()
    }
}

impl<'b> From<&'b Vec<u8>> for NewBody<'b> {
    fn from(bytes: &'b Vec<u8>) -> Self {
        Cow::Borrowed(&bytes[..]).into()
    }
}

impl From<Vec<u8>> for NewBody<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Cow::<[u8]>::Owned(bytes).into()
    }
}

impl From<StagedBody> for NewBody<'_> {
    fn from(body: StagedBody) -> Self {
        match body.0 {
            Staged::Whole(bytes) => bytes.into(),
            Staged::InPieces { list, draft, .. } => NewBody(Contents::InPieces(list, draft)),
        }
    }
}
