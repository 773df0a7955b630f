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

use chacha20::{R20, hchacha};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

use crate::{Error, FileId, FileKind};

/// Length of a seal beyond its plaintext, bytes.
pub const SEAL_OVERHEAD: usize = 40;

/// Length of the nonce in front of a ciphertext, bytes. 192 bits: random ones don't collide.
pub(crate) const NONCE: usize = 24;
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
    let (key, nonce) = of_message(key, nonce);
    let tag = with_associated(place, extra, |associated| {
        key.seal_in_place_separate_tag(nonce, Aad::from(associated), &mut out[start..])
            // The cipher's limit is 256 GiB a message; nothing here is beyond 256 MiB.
            .expect("far below the cipher's limit")
    });
    out.extend_from_slice(tag.as_ref());
}

/// Opens an encrypted seal in place; `None` if it does not open, and then what is in `sealed` is of no use.
pub(crate) fn decrypt<'a>(key: &[u8; 32], place: &Place, extra: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
    let (nonce, rest) = sealed.split_first_chunk_mut::<NONCE>()?;
    let (key, nonce) = of_message(key, nonce);
    with_associated(place, extra, |associated| {
        key.open_in_place(nonce, Aad::from(associated), rest).ok()
    })
}

/// Returns the key and the nonce with which ChaCha20-Poly1305 is XChaCha20-Poly1305 for one message.
fn of_message(key: &[u8; 32], nonce: &[u8; NONCE]) -> (LessSafeKey, Nonce) {
    let (of_key, of_message) = nonce.split_at(NONCE - 8);
    let of_key = of_key.try_into().expect("16 bytes");
    let key = Zeroizing::new(hchacha::<R20>(key.into(), of_key).0);
    let key = UnboundKey::new(&CHACHA20_POLY1305, &*key).expect("as long as keys of this cipher");
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(of_message);
    (LessSafeKey::new(key), Nonce::assume_unique_for_key(nonce))
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

#[cfg(test)]
mod tests {
    use chacha20poly1305::aead::{Aead, Payload};
    use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn seals_are_those_of_another_implementation(
            key: [u8; 32],
            nonce: [u8; NONCE],
            position: u64,
            extra in prop::collection::vec(any::<u8>(), 0..70),
            plaintext in prop::collection::vec(any::<u8>(), 0..3000),
            parted in 0_usize..3000,
        ) {
            let place = Place {
                kind: SealKind::Frame,
                repository: FileId([5; 16]),
                file: FileId([6; 16]),
                position,
            };
            let associated = [&place.associated()[..], &extra].concat();
            let payload = Payload { msg: &plaintext, aad: &associated };
            let other = XChaCha20Poly1305::new(&key.into());
            let expected = [&nonce[..], &other.encrypt(&nonce.into(), payload).expect("a short message")].concat();

            let (first, second) = plaintext.split_at(parted.min(plaintext.len()));
            let mut sealed = b"what was there".to_vec();
            encrypt(&key, &nonce, &place, &extra, &[first, second], &mut sealed);
            let mut sealed = sealed.split_off(b"what was there".len());
            prop_assert_eq!(&sealed, &expected);
            prop_assert_eq!(decrypt(&key, &place, &extra, &mut sealed), Some(&mut plaintext.clone()[..]));
        }
    }
}
