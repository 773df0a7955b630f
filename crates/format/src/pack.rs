//! Packs: files of sealed frames, with a directory at their end.
//!
//! ```text
//! magic (8) ‖ frames, sealed, back to back ‖ directory, sealed, padded ‖ trailer, sealed (56)
//! ```
//!
//! To read a pack without an index: its last [`TRAILER`] bytes say where the directory begins
//! ([`open_trailer`]), the directory says where each frame is and which chunks it has
//! ([`open_directory`]), and each frame opens by itself ([`open_frame`]).

use crate::error::{equal, in_range};
use crate::frame::{self, Blob};
use crate::magic::MAGIC;
use crate::wire::{self, Reader};
use crate::{ChunkId, ChunkPrefix, Error, FileId, FileKind, Keys, SEAL_OVERHEAD, SealKind, padme};

/// Length of the sealed trailer at the end of a pack, bytes.
pub const TRAILER: u64 = 16 + SEAL_OVERHEAD as u64;
/// Largest pack, bytes.
pub const LIMIT: u64 = 256 << 20;
/// Most frames in a pack.
pub const FRAMES_MAX: usize = 65_535;
/// Offset of the first frame.
pub const FRAMES_AT: u64 = MAGIC as u64;

/// A frame's seal is longer than this, bytes: codec, count, one blob of one byte.
const SEALED_MIN: u64 = SEAL_OVERHEAD as u64 + 4;
/// Shortest directory, sealed, bytes: kind, number of frames.
const DIRECTORY_MIN: u64 = SEAL_OVERHEAD as u64 + 2;

/// The kind of chunks in a pack. Metadata has packs of its own, because every operation reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PackKind {
    /// Contents of files.
    Data,
    /// Trees and recipes.
    Metadata,
}

impl PackKind {
    /// Returns its number.
    pub fn number(self) -> u8 {
        match self {
            PackKind::Data => 0,
            PackKind::Metadata => 1,
        }
    }

    /// Returns the kind with this number.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`].
    pub fn from_number(number: u8) -> Result<PackKind, Error> {
        match number {
            0 => Ok(PackKind::Data),
            1 => Ok(PackKind::Metadata),
            other => Err(Error::Unknown {
                field: "pack kind",
                found: other.into(),
            }),
        }
    }
}

/// A frame, as a directory lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameSummary {
    /// Offset of its seal in the pack.
    pub offset: u32,
    /// Length of its seal, bytes.
    pub sealed: u32,
    /// How many frames at most are decoded before it, one after the other: 0 without bases, else one
    /// more than the depth of the deepest frame that held one of its bases when it was written. At most
    /// [`frame::DEPTH_MAX`].
    pub depth: u8,
    /// The chunks that it is encoded against, each once, in order of first use: none if `depth` is
    /// 0.
    pub bases: Vec<ChunkPrefix>,
    /// Its chunks, by slot.
    pub blobs: Vec<Blob>,
}

/// A pack, as its directory describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackSummary {
    /// The pack's name.
    pub id: FileId,
    /// The kind of its chunks.
    pub kind: PackKind,
    /// Size of the file, bytes.
    pub size: u64,
    /// Its frames, in order.
    pub frames: Vec<FrameSummary>,
}

impl PackSummary {
    /// Checks that the frames are back to back from [`FRAMES_AT`] on, within the pack, and that all
    /// counts and lengths are within limits.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] or [`Error::Mismatch`] for the first violation.
    pub fn check(&self) -> Result<(), Error> {
        in_range("pack size", self.size, FRAMES_AT + DIRECTORY_MIN + TRAILER, LIMIT)?;
        in_range("frames of a pack", self.frames.len() as u64, 0, FRAMES_MAX as u64)?;
        let end_max = self.size - DIRECTORY_MIN - TRAILER;
        let mut end = FRAMES_AT;
        for frame in &self.frames {
            equal("frame offset", end, frame.offset.into())?;
            in_range("sealed frame", frame.sealed.into(), SEALED_MIN, LIMIT)?;
            frame::check_bases(frame.depth, &frame.bases)?;
            frame::body_len(&frame.blobs)?;
            end += u64::from(frame.sealed);
            in_range("end of a frame", end, FRAMES_AT, end_max)?;
        }
        Ok(())
    }
}

/// Writes a pack into memory.
///
/// ```
/// use ibid_format::frame::{self, Compression, FrameEncoder};
/// use ibid_format::pack::{self, PackKind};
/// use ibid_format::{FileId, Keys, MasterKey};
///
/// let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
/// let mut gathered = frame::FrameBuilder::new();
/// gathered.push(keys.chunk_id(b"a chunk"), b"a chunk");
/// let mut plaintext = Vec::new();
/// FrameEncoder::new().encode(gathered.blobs(), gathered.body(), Compression::Stored, &mut plaintext)?;
///
/// let mut builder = pack::PackBuilder::new(&keys, FileId::random(), PackKind::Data);
/// builder.add(&plaintext, gathered.blobs(), 0, &[]);
/// let padded = builder.padded_len();
/// let (bytes, summary) = builder.finish();
/// assert_eq!(bytes.len() as u64, padded);
/// assert_eq!(summary.frames[0].blobs, gathered.blobs());
/// # Ok::<(), ibid_format::Error>(())
/// ```
#[derive(Debug)]
pub struct PackBuilder {
    keys: Keys,
    id: FileId,
    kind: PackKind,
    bytes: Vec<u8>,
    frames: Vec<FrameSummary>,
    /// Entries of the directory so far, without kind and count.
    directory: Vec<u8>,
}

impl PackBuilder {
    /// Returns an empty pack with the id `id`.
    pub fn new(keys: &Keys, id: FileId, kind: PackKind) -> PackBuilder {
        let bytes = FileKind::Pack.magic().to_vec();
        PackBuilder {
            keys: keys.clone(),
            id,
            kind,
            bytes,
            frames: Vec::new(),
            directory: Vec::new(),
        }
    }

    /// Returns the pack's id.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Returns the kind of its chunks.
    pub fn kind(&self) -> PackKind {
        self.kind
    }

    /// Seals and appends a frame that [`frame::FrameEncoder::encode`] or
    /// [`encode_delta`](frame::FrameEncoder::encode_delta) made from these blobs. `depth` and
    /// `bases` are those of [`FrameSummary`].
    ///
    /// Finish the pack once [`is_full`](PackBuilder::is_full) says so: then it stays within the limits
    /// of the format.
    pub fn add(&mut self, frame_plaintext: &[u8], blobs: &[Blob], depth: u8, bases: &[ChunkPrefix]) {
        let offset = self.bytes.len();
        self.keys.seal(
            SealKind::Frame,
            self.id,
            offset as u64,
            frame_plaintext,
            &mut self.bytes,
        );
        let sealed = self.bytes.len() - offset;
        let frame = FrameSummary {
            offset: offset as u32,
            sealed: sealed as u32,
            depth,
            bases: bases.to_vec(),
            blobs: blobs.to_vec(),
        };
        put_frame(&frame, &mut self.directory);
        self.frames.push(frame);
    }

    /// Returns the length so far, magic and frames, bytes.
    #[allow(clippy::len_without_is_empty, reason = "the magic is always there; see `frames`")]
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the frames so far.
    pub fn frames(&self) -> &[FrameSummary] {
        &self.frames
    }

    /// Returns the size that the file would have without padding, bytes.
    fn plain_len(&self) -> u64 {
        let count = wire::varint_len(self.frames.len() as u64);
        (self.bytes.len() + SEAL_OVERHEAD + 1 + count + self.directory.len()) as u64 + TRAILER
    }

    /// Returns the size of the file that [`finish`](PackBuilder::finish) would make now, bytes.
    pub fn padded_len(&self) -> u64 {
        padme::padded(self.plain_len())
    }

    /// Whether to finish the pack, if packs aim at `target` bytes.
    ///
    /// Once the target is reached, it waits for a frame after which padding is less than 1/200 of
    /// the file, but for no longer than two [granules](padme::granule). So padding stays well below
    /// its worst case, and packs stay near the target. A pack at a limit of the format is also
    /// full.
    pub fn is_full(&self, target: u32) -> bool {
        let (target, plain) = (u64::from(target), self.plain_len());
        let wasted = self.padded_len() - plain;
        let near_limit = plain >= LIMIT / 2 || self.frames.len() >= FRAMES_MAX;
        let late = plain >= target + 2 * padme::granule(target);
        near_limit || late || (plain >= target && wasted * 200 < self.padded_len())
    }

    /// Returns the file's bytes, padded, and its directory.
    pub fn finish(mut self) -> (Vec<u8>, PackSummary) {
        let (size, plain) = (self.padded_len(), self.plain_len());
        let offset = self.bytes.len() as u64;
        let mut directory = vec![self.kind.number()];
        wire::put_varint(&mut directory, self.frames.len() as u64);
        directory.append(&mut self.directory);
        directory.resize(directory.len() + (size - plain) as usize, 0);
        self.keys
            .seal(SealKind::Directory, self.id, offset, &directory, &mut self.bytes);

        let mut trailer = Vec::with_capacity(16);
        wire::put_u64(&mut trailer, offset);
        wire::put_u64(&mut trailer, size);
        self.keys
            .seal(SealKind::Trailer, self.id, size - TRAILER, &trailer, &mut self.bytes);
        let summary = PackSummary {
            id: self.id,
            kind: self.kind,
            size,
            frames: self.frames,
        };
        (self.bytes, summary)
    }
}

/// Appends the directory entry of a frame.
fn put_frame(frame: &FrameSummary, directory: &mut Vec<u8>) {
    wire::put_varint(directory, frame.sealed.into());
    directory.push(frame.depth);
    if frame.depth > 0 {
        wire::put_varint(directory, frame.bases.len() as u64);
        for base in &frame.bases {
            directory.extend_from_slice(&base.0);
        }
    }
    wire::put_varint(directory, frame.blobs.len() as u64);
    for blob in &frame.blobs {
        directory.extend_from_slice(&blob.id.0);
        wire::put_varint(directory, blob.length.into());
    }
}

/// Opens the last [`TRAILER`] bytes of a pack, and returns the offset of its directory, which ends
/// where they begin.
///
/// # Errors
///
/// If `file_size` is not the size of a pack, the seal does not open, or the trailer does not match
/// the file.
pub fn open_trailer(keys: &Keys, id: FileId, file_size: u64, bytes: &mut [u8]) -> Result<u64, Error> {
    in_range("pack size", file_size, FRAMES_AT + DIRECTORY_MIN + TRAILER, LIMIT)?;
    equal("pack trailer", TRAILER, bytes.len() as u64)?;
    let plaintext = keys.open(SealKind::Trailer, id, file_size - TRAILER, bytes)?;
    let mut reader = Reader::new(plaintext);
    let offset = reader.u64("directory offset")?;
    equal("pack size", file_size, reader.u64("pack size")?)?;
    reader.finish("pack trailer")?;
    in_range(
        "directory offset",
        offset,
        FRAMES_AT,
        file_size - TRAILER - DIRECTORY_MIN,
    )
}

/// Opens the directory of a pack: `bytes` are those from `offset` to the trailer.
///
/// # Errors
///
/// If the seal does not open, or the directory does not match the file.
pub fn open_directory(
    keys: &Keys,
    id: FileId,
    file_size: u64,
    offset: u64,
    bytes: &mut [u8],
) -> Result<PackSummary, Error> {
    in_range("pack size", file_size, FRAMES_AT + DIRECTORY_MIN + TRAILER, LIMIT)?;
    in_range(
        "directory offset",
        offset,
        FRAMES_AT,
        file_size - TRAILER - DIRECTORY_MIN,
    )?;
    equal("pack directory", file_size - TRAILER - offset, bytes.len() as u64)?;
    let plaintext = keys.open(SealKind::Directory, id, offset, bytes)?;
    let (kind, frames, end) = decode_directory(plaintext)?;
    equal("directory offset", end, offset)?;
    Ok(PackSummary {
        id,
        kind,
        size: file_size,
        frames,
    })
}

/// Opens a frame, for [`frame::FrameDecoder::decode`].
///
/// # Errors
///
/// [`Error::Seal`].
pub fn open_frame<'a>(keys: &Keys, id: FileId, offset: u32, sealed: &'a mut [u8]) -> Result<&'a mut [u8], Error> {
    keys.open(SealKind::Frame, id, offset.into(), sealed)
}

/// Shortest blob in a directory, bytes: id, length. Shortest frame: sealed length, depth, count, a
/// blob.
const BLOB_MIN: usize = 32 + 1;
const FRAME_MIN: usize = 3 + BLOB_MIN;

/// Reads the plaintext of a directory: kind, frames, and the end of the last frame.
#[doc(hidden)]
pub fn decode_directory(plaintext: &[u8]) -> Result<(PackKind, Vec<FrameSummary>, u64), Error> {
    let mut reader = Reader::new(plaintext);
    let kind = PackKind::from_number(reader.u8("pack kind")?)?;
    let count = reader.count("frames of a pack", FRAMES_MAX as u64, FRAME_MIN)?;
    let mut frames = Vec::with_capacity(count);
    let mut end = FRAMES_AT;
    for _ in 0..count {
        let frame = read_frame(&mut reader, end as u32)?;
        end += u64::from(frame.sealed);
        frames.push(frame);
        in_range("end of a frame", end, FRAMES_AT, LIMIT)?;
    }
    reader.zeros("pack padding")?;
    Ok((kind, frames, end))
}

/// Reads the directory entry of the frame at `offset`.
fn read_frame(reader: &mut Reader<'_>, offset: u32) -> Result<FrameSummary, Error> {
    let sealed = reader.varint_in("sealed frame", SEALED_MIN, LIMIT)? as u32;
    let depth = reader.u8("depth of a frame")?;
    let mut bases = Vec::new();
    if depth > 0 {
        let count = reader.count("bases of a frame", frame::PIECES_MAX as u64, size_of::<ChunkPrefix>())?;
        bases.reserve_exact(count);
        for _ in 0..count {
            bases.push(ChunkPrefix(reader.array("base of a frame")?));
        }
    }
    frame::check_bases(depth, &bases)?;
    let count = reader.count("blobs of a frame", frame::BLOBS_MAX as u64, BLOB_MIN)?;
    let mut blobs = Vec::with_capacity(count);
    for _ in 0..count {
        let id = ChunkId(reader.array("chunk id")?);
        let length = reader.varint_in("chunk length", 1, frame::CHUNK_BYTES_MAX.into())? as u32;
        blobs.push(Blob { id, length });
    }
    frame::body_len(&blobs)?;
    Ok(FrameSummary {
        offset,
        sealed,
        depth,
        bases,
        blobs,
    })
}
