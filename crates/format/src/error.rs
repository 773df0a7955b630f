//! Everything that can be wrong with bytes, by meaning.

use zstd::zstd_safe::{self, zstd_sys::ZSTD_ErrorCode};

use crate::{FileId, FileKind, SealKind};

/// Why bytes could not be decoded, or a value not be encoded.
///
/// `field` names the place as `docs/format/README.md` does; sizes are in bytes unless the name says
/// otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end before the value does.
    #[error("{field}: {expected} bytes expected, {found} left")]
    Truncated {
        /// What was being read.
        field: &'static str,
        /// Bytes that the value needs.
        expected: u64,
        /// Bytes that are left.
        found: u64,
    },
    /// Bytes follow where the value ends.
    #[error("{field}: {found} bytes follow its end")]
    Trailing {
        /// What was read completely.
        field: &'static str,
        /// Bytes beyond its end.
        found: u64,
    },
    /// A varint that is longer than its value needs, or than 64 bits.
    #[error("{field}: an integer written in more bytes than needed")]
    NotMinimal {
        /// What was being read.
        field: &'static str,
    },
    /// A number, length or count outside the limits of the format.
    #[error("{field}: between {min} and {max} expected, found {found}")]
    OutOfRange {
        /// What was read, or was to be written.
        field: &'static str,
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
        /// The value itself.
        found: u64,
    },
    /// Two statements of the same number disagree.
    #[error("{field}: {expected} expected, found {found}")]
    Mismatch {
        /// What was read, or was to be written.
        field: &'static str,
        /// The number that follows from everything else.
        expected: u64,
        /// The number stated.
        found: u64,
    },
    /// A list that must ascend does not.
    #[error("{field}: item {position} does not come after the one before it")]
    Unordered {
        /// The list.
        field: &'static str,
        /// Number of the first item out of order, from 0.
        position: u64,
    },
    /// A list that must name each thing once names one again.
    #[error("{field}: item {position} was there before")]
    Repeated {
        /// The list.
        field: &'static str,
        /// Number of an item that repeats another, from 0.
        position: u64,
    },
    /// A number that this version gives no meaning to.
    #[error("{field}: {found} has no meaning in this version of the format; a newer ibid may know it")]
    Unknown {
        /// What was read.
        field: &'static str,
        /// The number found.
        found: u64,
    },
    /// Bytes that must be zero are not.
    #[error("{field}: zeros expected, found {found:#04x} at its byte {position}")]
    NotZero {
        /// The padding.
        field: &'static str,
        /// Where in it, from 0.
        position: u64,
        /// The byte found.
        found: u8,
    },
    /// Text that is not UTF-8.
    #[error("{field}: not UTF-8 from its byte {valid} on")]
    NotUtf8 {
        /// What was read.
        field: &'static str,
        /// Bytes of valid UTF-8 at its beginning.
        valid: u64,
    },
    /// A name that no directory entry can have.
    #[error("not the name of a directory entry: {fault}")]
    Name {
        /// The fault in the bytes.
        fault: NameFault,
    },
    /// A hole in a list that describes other lists.
    #[error("content of depth {depth} has a hole; only depth 0 may")]
    HoleInList {
        /// The depth stated.
        depth: u8,
    },
    /// The file is not of the kind expected.
    #[error("not {expected} of an ibid repository: it begins with {found:02x?}")]
    Magic {
        /// What should have been there.
        expected: FileKind,
        /// The file's first bytes.
        found: [u8; 8],
    },
    /// The file is of the kind expected, in a version that this program does not know.
    #[error("{kind} has format version {found}; this program reads version {expected}: use a newer ibid")]
    Version {
        /// What it is.
        kind: FileKind,
        /// The version this program reads.
        expected: u8,
        /// The version found.
        found: u8,
    },
    /// A seal does not open: the bytes are damaged, were moved from elsewhere, or belong to other
    /// keys.
    #[error("{kind} at byte {position} of file {file} is damaged or not of this repository")]
    Seal {
        /// What was sealed.
        kind: SealKind,
        /// The file, zeros for `config`.
        file: FileId,
        /// Where in the file.
        position: u64,
    },
    /// A checksum does not fit: bytes changed since they were written, or lie in the place of
    /// others.
    #[error("{field}: damaged: checksum {expected:#x} expected, found {found:#x}")]
    Check {
        /// What was read.
        field: &'static str,
        /// What the bytes give.
        expected: u64,
        /// What is stored with them.
        found: u64,
    },
    /// The file belongs to another repository.
    #[error("belongs to repository {found}, not to {expected}")]
    Repository {
        /// The repository that the keys are for.
        expected: FileId,
        /// The repository that the file names.
        found: FileId,
    },
    /// Keys of an encrypted repository for an unencrypted one, or the reverse.
    #[error("encrypted: {expected} expected, found {found}")]
    Encryption {
        /// What the keys are for.
        expected: bool,
        /// What the file says.
        found: bool,
    },
    /// The keys are those of a writer, and only keepers can open it.
    #[error("{kind} opens with a password of the repository, not with the key of a writer")]
    WriteOnly {
        /// What was sealed.
        kind: SealKind,
    },
    /// A file of a writer was not signed by it, or has changed since.
    #[error("the signature of {kind}, {file}, is not valid: the writer did not store it as it is")]
    Signature {
        /// What it should be.
        kind: FileKind,
        /// The file, zeros for `config`.
        file: FileId,
    },
    /// A writer has signed a file of a kind that counts only if keepers sign it.
    #[error("{kind}, {file}, is signed by the writer; only those with a password may store one")]
    Signer {
        /// What it is.
        kind: FileKind,
        /// The file, zeros for `config`.
        file: FileId,
    },
    /// A file of a writer was stored after the writer was revoked.
    #[error("{kind}, {file}, does not count: its writer stored it after it was removed")]
    Revoked {
        /// What it is.
        kind: FileKind,
        /// The file.
        file: FileId,
    },
    /// Something of a writer was asked of keys that are not for a writer's files.
    #[error("these are not the keys of a writer's files")]
    NotAWriters,
    /// A text that is no key of a writer.
    #[error("not the key of a writer: {fault}")]
    WriterKey {
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The password does not open this key slot.
    #[error("the password does not open this key")]
    WrongPassword,
    /// Opening the key slot would take more memory than the caller allows.
    #[error("opening this key takes {} of memory, the limit is {}", kib(*found), kib(*limit))]
    TooExpensive {
        /// What the caller allows, KiB.
        limit: u32,
        /// What the slot asks for, KiB.
        found: u32,
    },
    /// The operating system did not give the memory that the key slot asks for.
    #[error("{} of memory for opening the key are not to be had", kib(*found))]
    OutOfMemory {
        /// What the slot asks for, KiB.
        found: u32,
    },
    /// A frame has no such slot.
    #[error("slot {found} of a frame with {slots} slots")]
    NoSuchSlot {
        /// Slots that the frame has.
        slots: u32,
        /// The slot asked for.
        found: u16,
    },
    /// The slot was not decompressed: decoding was told to stop before it.
    #[error("slot {found} was asked for, but decoding stopped after {decoded} slots")]
    NotDecoded {
        /// Slots that were decoded.
        decoded: u32,
        /// The slot asked for.
        found: u16,
    },
    /// zstd refused to compress or decompress.
    #[error("{field}: zstd says \"{reason}\"")]
    Zstd {
        /// What was being done.
        field: &'static str,
        /// zstd's own name of the error.
        reason: &'static str,
    },
    /// A delta could not be made or read.
    #[error("the delta of a frame: {0}")]
    Delta(#[from] ibid_delta::Error),
}

impl Error {
    /// Returns whether there was not enough memory. The data may be sound.
    pub fn lacks_memory(&self) -> bool {
        let code = ZSTD_ErrorCode::ZSTD_error_memory_allocation as usize;
        match self {
            Error::OutOfMemory { .. } => true,
            Error::Zstd { reason, .. } => *reason == zstd_safe::get_error_name(code.wrapping_neg()),
            Error::Delta(error) => error.lacks_memory(),
            _ => false,
        }
    }
}

/// The fault in the name of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameFault {
    /// No bytes at all.
    #[error("it is empty")]
    Empty,
    /// More than 255 bytes.
    #[error("it has {found} bytes, 255 are allowed")]
    TooLong {
        /// Its length.
        found: u64,
    },
    /// `.` or `..`.
    #[error("it is a dot name")]
    Dots,
    /// A `/` in it.
    #[error("it contains a slash, at byte {position}")]
    Slash {
        /// Where, from 0.
        position: u64,
    },
    /// A NUL in it.
    #[error("it contains a NUL, at byte {position}")]
    Nul {
        /// Where, from 0.
        position: u64,
    },
}

/// KiB as people read them.
fn kib(kib: u32) -> String {
    if kib < 1024 {
        format!("{kib} KiB")
    } else {
        format!("{} MiB", kib.div_ceil(1024))
    }
}

/// Refuses a number outside `min..=max`.
pub(crate) fn in_range(field: &'static str, found: u64, min: u64, max: u64) -> Result<u64, Error> {
    if (min..=max).contains(&found) {
        Ok(found)
    } else {
        Err(Error::OutOfRange { field, min, max, found })
    }
}

/// Refuses a number that is not the one expected.
pub(crate) fn equal(field: &'static str, expected: u64, found: u64) -> Result<(), Error> {
    if expected == found {
        Ok(())
    } else {
        Err(Error::Mismatch { field, expected, found })
    }
}
