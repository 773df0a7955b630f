//! Seals: a sealed piece of a file can be neither read nor forged without the keys. In an unencrypted
//! repository a seal only detects changes.
//!
//! Both forms cost [`SEAL_OVERHEAD`] bytes, so that offsets don't depend on encryption.
//!
//! ```text
//! encrypted    nonce (24) ‖ XChaCha20-Poly1305 ciphertext (n) ‖ tag (16)
//! unencrypted  plaintext (n) ‖ keyed BLAKE3 of associated data and plaintext (40)
//! ```

use std::fmt;

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce};

use crate::{Error, FileId, FileKind};

/// Length of a seal beyond its plaintext, bytes.
pub const SEAL_OVERHEAD: usize = 40;

/// Length of the nonce in front of a ciphertext, bytes. 192 bits: random ones don't collide.
pub(crate) const NONCE: usize = 24;
const TAG: usize = 16;
/// Length of kind, repository, file and position together, bytes.
const PLACE: usize = 41;

/// The kind of plaintext in a seal. A seal of one kind does not open as another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SealKind {
    /// The body of `config`.
    Config = 1,
    /// The master key, or the note, of a key slot.
    Key = 2,
    /// A frame of a pack.
    Frame = 3,
    /// The directory of a pack.
    Directory = 4,
    /// The trailer of a pack.
    Trailer = 5,
    /// The header, a block or the padding of an index file.
    Index = 6,
    /// A snapshot.
    Snapshot = 7,
    /// Sketches.
    Sketches = 8,
    /// A value in a table of a store of records.
    Value = 9,
    /// A page, a block or the trailer of a run of the local cache.
    Run = 10,
    /// A session.
    Session = 11,
    /// An entry of the prune log.
    PruneLog = 12,
    /// A checkpoint.
    Checkpoint = 13,
    /// The note of a writer.
    Writer = 14,
    /// The revocation of a writer.
    Revocation = 15,
    /// When keepers saw the snapshots of a writer first.
    Seen = 16,
}

impl SealKind {
    /// The kind of file that such seals are in; all seals of one kind of file share a key.
    pub fn file_kind(self) -> FileKind {
        match self {
            SealKind::Config => FileKind::Config,
            SealKind::Key => FileKind::Key,
            SealKind::Frame | SealKind::Directory | SealKind::Trailer => FileKind::Pack,
            SealKind::Index => FileKind::Index,
            SealKind::Snapshot => FileKind::Snapshot,
            SealKind::Sketches => FileKind::Sketches,
            SealKind::Value => FileKind::Records,
            SealKind::Run => FileKind::Run,
            SealKind::Session => FileKind::Session,
            SealKind::PruneLog => FileKind::PruneLog,
            SealKind::Checkpoint => FileKind::Checkpoint,
            SealKind::Writer => FileKind::Writer,
            SealKind::Revocation => FileKind::Revocation,
            SealKind::Seen => FileKind::Seen,
        }
    }
}

impl fmt::Display for SealKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SealKind::Config => "the config",
            SealKind::Key => "the key slot",
            SealKind::Frame => "the frame",
            SealKind::Directory => "the pack directory",
            SealKind::Trailer => "the pack trailer",
            SealKind::Index => "the index block",
            SealKind::Snapshot => "the snapshot",
            SealKind::Sketches => "the sketches",
            SealKind::Value => "the value",
            SealKind::Run => "the page",
            SealKind::Session => "the session",
            SealKind::PruneLog => "the entry of the prune log",
            SealKind::Checkpoint => "the checkpoint",
            SealKind::Writer => "the note of a writer",
            SealKind::Revocation => "the revocation",
            SealKind::Seen => "the list of snapshots that were seen",
        })
    }
}

/// Where a seal belongs. All of it is authenticated, so a seal that was moved does not open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) kind: SealKind,
    pub(crate) repository: FileId,
    pub(crate) file: FileId,
    /// Offset of the seal's first byte in the file.
    pub(crate) position: u64,
}

impl Place {
    /// The associated data: kind, repository, file, position.
    fn associated(&self) -> [u8; PLACE] {
        let mut bytes = [0; PLACE];
        bytes[0] = self.kind as u8;
        bytes[1..17].copy_from_slice(&self.repository.0);
        bytes[17..33].copy_from_slice(&self.file.0);
        bytes[33..].copy_from_slice(&self.position.to_le_bytes());
        bytes
    }

    pub(crate) fn damaged(&self) -> Error {
        Error::Seal {
            kind: self.kind,
            file: self.file,
            position: self.position,
        }
    }
}

/// Appends the encrypted seal of `plaintext`; `extra` is authenticated after the place.
pub(crate) fn encrypt(
    key: &[u8; 32],
    nonce: &[u8; NONCE],
    place: &Place,
    extra: &[u8],
    plaintext: &[&[u8]],
    out: &mut Vec<u8>,
) {
    out.reserve(plaintext.iter().map(|part| part.len()).sum::<usize>() + SEAL_OVERHEAD);
    out.extend_from_slice(nonce);
    let start = out.len();
    plaintext.iter().for_each(|part| out.extend_from_slice(part));
    let tag = with_associated(place, extra, |associated| {
        XChaCha20Poly1305::new(key.into())
            .encrypt_inout_detached(&XNonce::from(*nonce), associated, (&mut out[start..]).into())
            // The cipher's limit is 256 GiB a message; nothing here is beyond 256 MiB.
            .expect("far below the cipher's limit")
    });
    out.extend_from_slice(&tag);
}

/// Opens an encrypted seal in place; `None` if it does not open, and then `sealed` is as it was.
pub(crate) fn decrypt<'a>(key: &[u8; 32], place: &Place, extra: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
    let (nonce, rest) = sealed.split_first_chunk_mut::<NONCE>()?;
    let (ciphertext, tag) = rest.split_last_chunk_mut::<TAG>()?;
    with_associated(place, extra, |associated| {
        XChaCha20Poly1305::new(key.into())
            .decrypt_inout_detached(
                &XNonce::from(*nonce),
                associated,
                (&mut *ciphertext).into(),
                &Tag::from(*tag),
            )
            .ok()
    })?;
    Some(ciphertext)
}

/// Appends the unencrypted seal of `plaintext`.
pub(crate) fn check_append(key: &[u8; 32], place: &Place, plaintext: &[u8], out: &mut Vec<u8>) {
    out.reserve(plaintext.len() + SEAL_OVERHEAD);
    out.extend_from_slice(plaintext);
    out.extend_from_slice(&check_of(key, place, plaintext));
}

/// Verifies an unencrypted seal; `None` if it does not fit.
pub(crate) fn check_verify<'a>(key: &[u8; 32], place: &Place, sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
    let (plaintext, check) = sealed.split_last_chunk_mut::<SEAL_OVERHEAD>()?;
    (check_of(key, place, plaintext) == *check).then_some(plaintext)
}

fn check_of(key: &[u8; 32], place: &Place, plaintext: &[u8]) -> [u8; SEAL_OVERHEAD] {
    let mut check = [0; SEAL_OVERHEAD];
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher
        .update(&place.associated())
        .update(plaintext)
        .finalize_xof()
        .fill(&mut check);
    check
}

/// Runs `use_it` on place and `extra` in one slice, without allocating when there is nothing extra
/// (all but key slots).
fn with_associated<T>(place: &Place, extra: &[u8], use_it: impl FnOnce(&[u8]) -> T) -> T {
    let associated = place.associated();
    if extra.is_empty() {
        use_it(&associated)
    } else {
        use_it(&[&associated, extra].concat())
    }
}
