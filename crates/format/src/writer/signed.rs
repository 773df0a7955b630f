//! The header of each file of a writer: who signed it, and from what keepers find its key.
//!
//! ```text
//! magic (8) ‖ signer (1) ‖ zeros (7) ‖ share (32) ‖ hash of what follows the header (32) ‖ signature (64)
//! ```
//!
//! What follows is the file as a repository has it. Positions in it are counted from its own beginning.

use super::parties::{Parties, Signer, is_for_keepers};
use crate::wire::Reader;
use crate::{Error, FileId, FileKind, Keys};

/// Length of a header, bytes.
pub const HEADER: usize = SIGNED + 64;
/// Length of the part of it that the signature covers, bytes.
const SIGNED: usize = 80;
/// What every message begins with that is signed.
const CONTEXT: &[u8] = b"ibid v1 signed file";

/// A header whose signature is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    signer: Signer,
    kind: FileKind,
    file: FileId,
    hash: [u8; 32],
}

impl Header {
    /// Returns who signed the file.
    pub fn signer(&self) -> Signer {
        self.signer
    }

    /// Compares the whole of what follows the header with what was signed. The seals in a pack or a snapshot do not
    /// need that: only who had the file's key can have made them.
    ///
    /// # Errors
    ///
    /// [`Error::Signature`].
    pub fn check(&self, content: &[u8]) -> Result<(), Error> {
        match hash(&[content]) == self.hash {
            true => Ok(()),
            false => Err(Error::Signature {
                kind: self.kind,
                file: self.file,
            }),
        }
    }
}

/// Returns the header of a file that has this content, signed by the holder of the keys. The id of `config` is zeros.
///
/// # Errors
///
/// [`Error::NotAWriters`] for keys of a repository, [`Error::Signer`] if a writer may not sign files of this kind.
pub fn sign(keys: &Keys, kind: FileKind, file: FileId, content: &[&[u8]]) -> Result<[u8; HEADER], Error> {
    let parties = parties(keys)?;
    let signer = parties.role();
    allowed(signer, kind, file)?;
    let share = match parties.key_to_seal(keys.repository(), kind, file) {
        Some(key) => key.share,
        None => [0; 32],
    };
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&FileKind::Signed.magic());
    header[8] = match signer {
        Signer::Writer => 1,
        Signer::Keeper => 2,
    };
    header[16..48].copy_from_slice(&share);
    header[48..SIGNED].copy_from_slice(&hash(content));
    let signature = parties.sign(&message(keys, kind, file, &header));
    parties.note_signer(kind, file, signer);
    header[SIGNED..].copy_from_slice(&signature);
    Ok(header)
}

/// Verifies the header of a file. From then on the keys open the file, if they are those of a keeper.
///
/// # Errors
///
/// If it is no header, [`Error::Signature`] if the signature is not valid for this writer, kind and file,
/// [`Error::Signer`] if a writer may not sign files of this kind, [`Error::NotAWriters`] for keys of a repository.
pub fn open(keys: &Keys, kind: FileKind, file: FileId, header: &[u8]) -> Result<Header, Error> {
    let parties = parties(keys)?;
    let invalid = Error::Signature { kind, file };
    let mut reader = Reader::new(header);
    FileKind::Signed.check(header)?;
    reader.take("magic", 8)?;
    let signer = match reader.u8("signer")? {
        1 => Signer::Writer,
        2 => Signer::Keeper,
        other => {
            return Err(Error::Unknown {
                field: "signer",
                found: other.into(),
            });
        }
    };
    Reader::new(reader.take("zeros of a header", 7)?).zeros("zeros of a header")?;
    let share: [u8; 32] = reader.array("share")?;
    let hash = reader.array("hash")?;
    let signature = reader.array("signature")?;
    reader.finish("header")?;
    // Whose signature does not count is told only where it is one.
    if !parties.verify(signer, &message(keys, kind, file, header), &signature) {
        return Err(invalid);
    }
    allowed(signer, kind, file)?;
    match is_for_keepers(kind) {
        true if !parties.learn(keys.repository(), kind, file, share) => return Err(invalid),
        false if share != [0; 32] => return Err(invalid),
        _ => {}
    }
    parties.note_signer(kind, file, signer);
    Ok(Header {
        signer,
        kind,
        file,
        hash,
    })
}

fn parties(keys: &Keys) -> Result<&Parties, Error> {
    keys.parties().ok_or(Error::NotAWriters)
}

fn allowed(signer: Signer, kind: FileKind, file: FileId) -> Result<(), Error> {
    match signer.may_sign(kind) {
        true => Ok(()),
        false => Err(Error::Signer { kind, file }),
    }
}

/// Returns what is signed: the context, the writer, the kind of file, its id, and the header.
fn message(keys: &Keys, kind: FileKind, file: FileId, header: &[u8]) -> Vec<u8> {
    let writer = keys.repository();
    [CONTEXT, &writer.0, &kind.magic(), &file.0, &header[..SIGNED]].concat()
}

fn hash(content: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    content.iter().for_each(|part| {
        hasher.update(part);
    });
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MasterKey;
    use crate::writer::WriterKey;

    /// Points of low order: 0, 1, one of order 8, and p − 1, p, p + 1.
    fn low_order() -> Vec<[u8; 32]> {
        let mut of_order_8 = [0; 32];
        let digits = b"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800";
        for (byte, pair) in of_order_8.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        }
        let near_p = |lowest| {
            let mut point = [0xff; 32];
            (point[0], point[31]) = (lowest, 0x7f);
            point
        };
        let mut one = [0; 32];
        one[0] = 1;
        vec![[0; 32], one, of_order_8, near_p(0xec), near_p(0xed), near_p(0xee)]
    }

    #[test]
    fn a_share_that_makes_the_key_known_to_all_is_refused_though_the_writer_signed_it() {
        let repository = Keys::encrypted(FileId([1; 16]), &MasterKey::from_bytes([2; 32]));
        let key = WriterKey::derive(&repository, FileId([3; 16])).unwrap();
        let (writer, keeper) = (key.keys(), repository.of_writer(key.id()).unwrap());
        let (kind, file) = (FileKind::Snapshot, FileId([4; 16]));
        let signed_with = |share: [u8; 32]| {
            let mut header = sign(&writer, kind, file, &[b"content"]).unwrap();
            header[16..48].copy_from_slice(&share);
            let signature = parties(&writer).unwrap().sign(&message(&writer, kind, file, &header));
            header[SIGNED..].copy_from_slice(&signature);
            open(&keeper, kind, file, &header)
        };
        for share in low_order() {
            assert_eq!(signed_with(share), Err(Error::Signature { kind, file }), "{share:02x?}");
        }
        let mut base = [0; 32];
        base[0] = 9;
        assert!(signed_with(base).is_ok(), "only those");
    }

    #[test]
    fn a_file_without_a_key_of_its_own_has_no_share() {
        let repository = Keys::encrypted(FileId([1; 16]), &MasterKey::from_bytes([2; 32]));
        let writer = WriterKey::derive(&repository, FileId([3; 16])).unwrap().keys();
        let (kind, file) = (FileKind::Index, FileId([4; 16]));
        let mut header = sign(&writer, kind, file, &[b"content"]).unwrap();
        assert!(open(&writer, kind, file, &header).is_ok());
        header[16] = 9;
        let signature = parties(&writer).unwrap().sign(&message(&writer, kind, file, &header));
        header[SIGNED..].copy_from_slice(&signature);
        assert_eq!(open(&writer, kind, file, &header), Err(Error::Signature { kind, file }));
    }
}
