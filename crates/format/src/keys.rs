//! The keys of one repository, all derived from its master key.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroize;

use crate::seal::{self, NONCE, Place};
use crate::writer::{Lookup, Parties, Signer};
use crate::{ChunkId, Error, FileId, FileKind, SealKind, random};

/// The 32 random bytes from which every key of a repository is derived. Erased from memory when
/// dropped.
pub struct MasterKey([u8; 32]);

impl MasterKey {
    /// Returns a new random key.
    ///
    /// # Panics
    ///
    /// If the operating system provides no random bytes.
    pub fn random() -> MasterKey {
        MasterKey(random())
    }

    /// Returns the key with these bytes. The caller erases its own copy.
    pub fn from_bytes(bytes: [u8; 32]) -> MasterKey {
        MasterKey(bytes)
    }

    /// Returns the bytes, for sealing them.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Drop for MasterKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(..)")
    }
}

/// The key of the ids of chunks. Repositories that share it give equal chunks equal ids; it opens nothing. Erased from
/// memory when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct ChunkKey([u8; 32]);

impl ChunkKey {
    /// Returns the key with these bytes. The caller erases its own copy.
    pub fn from_bytes(bytes: [u8; 32]) -> ChunkKey {
        ChunkKey(bytes)
    }

    /// Returns the bytes, for sealing them.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Drop for ChunkKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for ChunkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChunkKey(..)")
    }
}

/// The keys that name and seal everything in one repository. Cheap to clone, and erased from memory
/// with the last clone.
///
/// ```
/// use ibid_format::{FileId, Keys, MasterKey, SEAL_OVERHEAD, SealKind};
///
/// let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
/// let file = FileId::random();
/// let mut sealed = Vec::new();
/// keys.seal(SealKind::Snapshot, file, 8, b"the plaintext", &mut sealed);
/// assert_eq!(sealed.len(), b"the plaintext".len() + SEAL_OVERHEAD);
/// assert!(keys.open(SealKind::Snapshot, file, 9, &mut sealed.clone()).is_err(), "it was sealed for position 8");
/// assert_eq!(keys.open(SealKind::Snapshot, file, 8, &mut sealed)?, b"the plaintext");
/// # Ok::<(), ibid_format::Error>(())
/// ```
#[derive(Clone)]
pub struct Keys(Arc<Inner>);

struct Inner {
    repository: FileId,
    encrypted: bool,
    nonces: Nonces,
    master: MasterKey,
    chunk_id: [u8; 32],
    config: [u8; 32],
    key: [u8; 32],
    pack: [u8; 32],
    index: [u8; 32],
    snapshot: [u8; 32],
    sketches: [u8; 32],
    session: [u8; 32],
    prune_log: [u8; 32],
    checkpoint: [u8; 32],
    writer: [u8; 32],
    records: [u8; 32],
    run: [u8; 32],
    /// For the files of a writer: who signs, and the keys of files that the writer does not open.
    parties: Option<Parties>,
}

/// Computes the id of a chunk whose bytes come in parts: see [`Keys::chunk_hasher`].
pub struct ChunkHasher(blake3::Hasher);

impl ChunkHasher {
    /// Adds bytes of the chunk.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the id of all bytes added so far.
    pub fn finish(&self) -> ChunkId {
        ChunkId(*self.0.finalize().as_bytes())
    }
}

impl fmt::Debug for ChunkHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkHasher").finish_non_exhaustive()
    }
}

#[derive(Clone, Copy)]
enum Nonces {
    Random,
    /// File id and position: for the worked examples of the format document only.
    Place,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for key in [
            &mut self.chunk_id,
            &mut self.config,
            &mut self.key,
            &mut self.pack,
            &mut self.index,
            &mut self.snapshot,
            &mut self.sketches,
            &mut self.session,
            &mut self.prune_log,
            &mut self.checkpoint,
            &mut self.writer,
            &mut self.records,
            &mut self.run,
        ] {
            key.zeroize();
        }
    }
}

impl Keys {
    /// Returns the keys of an encrypted repository.
    pub fn encrypted(repository: FileId, master: &MasterKey) -> Keys {
        Keys::derive(repository, master, true, Nonces::Random, None)
    }

    /// Returns the keys of an unencrypted repository, whose `config` contains the master key. Its seals
    /// detect accidents, not attackers.
    pub fn unencrypted(repository: FileId, master: &MasterKey) -> Keys {
        Keys::derive(repository, master, false, Nonces::Random, None)
    }

    /// Returns the same keys with predictable nonces, so that seals are those of the format
    /// document's examples. **Do not use it for anything else**: sealing twice in one place would
    /// reveal the contents.
    #[doc(hidden)]
    pub fn with_example_nonces(&self) -> Keys {
        let chunk_key = ChunkKey(self.0.chunk_id);
        let keys = Keys::derive(
            self.0.repository,
            &self.0.master,
            self.0.encrypted,
            Nonces::Place,
            Some(&chunk_key),
        );
        match self.parties() {
            Some(parties) => keys.with_parties(parties.with_example_run()),
            None => keys,
        }
    }

    /// Returns the same keys for files of a writer. No other clone of them may be in use.
    pub(crate) fn with_parties(self, parties: Parties) -> Keys {
        let mut inner = Arc::into_inner(self.0).expect("they were derived a moment ago");
        inner.parties = Some(parties);
        Keys(Arc::new(inner))
    }

    /// Returns the writer and the keepers, if these are keys of a writer's files.
    pub(crate) fn parties(&self) -> Option<&Parties> {
        self.0.parties.as_ref()
    }

    /// Returns whether these are keys for the files of a writer: its own, or a keeper's.
    pub fn is_of_writer(&self) -> bool {
        self.parties().is_some()
    }

    /// Returns whether these are a writer's own keys, which do not open what holds contents or names.
    pub fn is_write_only(&self) -> bool {
        self.parties().is_some_and(Parties::is_write_only)
    }

    /// Returns who signed a pack, an index file or a snapshot of a writer, if its header was
    /// [read](crate::writer::signed) with these keys and they are a keeper's.
    pub fn signer_of(&self, kind: FileKind, file: FileId) -> Option<Signer> {
        self.parties()?.signer_of(kind, file)
    }

    /// Returns the same keys with the chunk ids of another repository. All seals stay its own.
    pub fn with_chunk_key(&self, key: &ChunkKey) -> Keys {
        Keys::derive(
            self.0.repository,
            &self.0.master,
            self.0.encrypted,
            self.0.nonces,
            Some(key),
        )
    }

    /// Returns the key of chunk ids, for a repository that is to share them.
    pub fn shared_chunk_key(&self) -> ChunkKey {
        ChunkKey(self.0.chunk_id)
    }

    /// Returns whether equal chunks have equal ids under these keys.
    pub fn names_alike(&self, other: &Keys) -> bool {
        self.0.chunk_id == other.0.chunk_id
    }

    fn derive(
        repository: FileId,
        master: &MasterKey,
        encrypted: bool,
        nonces: Nonces,
        chunk_key: Option<&ChunkKey>,
    ) -> Keys {
        let derive = |context| blake3::derive_key(context, master.bytes());
        Keys(Arc::new(Inner {
            repository,
            encrypted,
            nonces,
            master: MasterKey(*master.bytes()),
            chunk_id: chunk_key.map_or_else(|| derive("ibid v1 chunk id"), |key| key.0),
            config: derive("ibid v1 seal config"),
            key: derive("ibid v1 seal key"),
            pack: derive("ibid v1 seal pack"),
            index: derive("ibid v1 seal index"),
            snapshot: derive("ibid v1 seal snapshot"),
            sketches: derive("ibid v1 seal sketches"),
            session: derive("ibid v1 seal session"),
            prune_log: derive("ibid v1 seal prune log"),
            checkpoint: derive("ibid v1 seal checkpoint"),
            writer: derive("ibid v1 seal writer"),
            records: derive("ibid v1 seal records"),
            run: derive("ibid v1 seal run"),
            parties: None,
        }))
    }

    /// Returns the id of the repository.
    pub fn repository(&self) -> FileId {
        self.0.repository
    }

    /// Whether seals encrypt.
    pub fn is_encrypted(&self) -> bool {
        self.0.encrypted
    }

    /// Returns the master key, to seal it in another key slot.
    pub fn master(&self) -> &MasterKey {
        &self.0.master
    }

    /// Returns the id of the chunk with these bytes: 32 bytes of keyed BLAKE3.
    /// [`Fingerprinter`](crate::Fingerprinter) computes many at once.
    pub fn chunk_id(&self, data: &[u8]) -> ChunkId {
        ChunkId(*blake3::keyed_hash(&self.0.chunk_id, data).as_bytes())
    }

    /// Returns a hasher for the id of a chunk whose bytes come in parts.
    pub fn chunk_hasher(&self) -> ChunkHasher {
        ChunkHasher(blake3::Hasher::new_keyed(&self.0.chunk_id))
    }

    /// Returns the key of chunk ids.
    pub(crate) fn chunk_key(&self) -> &[u8; 32] {
        &self.0.chunk_id
    }

    /// Appends the seal of `plaintext` to `out`: [`SEAL_OVERHEAD`](crate::SEAL_OVERHEAD) bytes more
    /// than the plaintext has.
    ///
    /// `position` is the offset in the file `file` at which the seal will be written.
    ///
    /// # Panics
    ///
    /// If the operating system provides no random bytes.
    pub fn seal(&self, kind: SealKind, file: FileId, position: u64, plaintext: &[u8], out: &mut Vec<u8>) {
        if self.0.encrypted {
            self.seal_parts(kind, file, position, &[plaintext], out);
        } else {
            seal::check_append(self.key_of(kind), &self.place(kind, file, position), plaintext, out);
        }
    }

    /// Does what [`seal`](Self::seal) does for a plaintext that is given in parts.
    pub(crate) fn seal_parts(
        &self,
        kind: SealKind,
        file: FileId,
        position: u64,
        plaintext: &[&[u8]],
        out: &mut Vec<u8>,
    ) {
        if !self.0.encrypted {
            return self.seal(kind, file, position, &plaintext.concat(), out);
        }
        let place = self.place(kind, file, position);
        let of_file = |parties: &Parties| parties.key_to_seal(self.0.repository, kind.file_kind(), file);
        let of_file = self.parties().and_then(of_file);
        let key = of_file.as_ref().map_or(self.key_of(kind), |of_file| &of_file.key);
        seal::encrypt(key, &self.nonce(&place), &place, &[], plaintext, out);
    }

    /// Opens a seal in place and returns its plaintext, [`SEAL_OVERHEAD`](crate::SEAL_OVERHEAD) bytes
    /// shorter.
    ///
    /// # Errors
    ///
    /// [`Error::Seal`] if a byte, the length, the kind, the file, the position or the repository
    /// differs from when it was sealed. [`Error::WriteOnly`] if these are the keys of a writer, and the file is for
    /// keepers.
    pub fn open<'a>(
        &self,
        kind: SealKind,
        file: FileId,
        position: u64,
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], Error> {
        let place = self.place(kind, file, position);
        let of_file = self
            .parties()
            .map(|parties| parties.key_to_open(kind.file_kind(), file));
        let opened = if self.0.encrypted {
            let key = match &of_file {
                None | Some(Lookup::Shared) => self.key_of(kind),
                Some(Lookup::Known(key)) => key,
                Some(Lookup::Unknown) => return Err(place.damaged()),
                Some(Lookup::NotForWriters) => return Err(Error::WriteOnly { kind }),
            };
            seal::decrypt(key, &place, &[], sealed)
        } else {
            seal::check_verify(self.key_of(kind), &place, sealed)
        };
        opened.ok_or(place.damaged())
    }

    /// Returns the offset of the plaintext within a seal, bytes.
    pub(crate) fn plaintext_offset(&self) -> usize {
        if self.0.encrypted { NONCE } else { 0 }
    }

    pub(crate) fn place(&self, kind: SealKind, file: FileId, position: u64) -> Place {
        Place {
            kind,
            repository: self.0.repository,
            file,
            position,
        }
    }

    /// Returns the nonce of a new seal, random except in the worked examples.
    pub(crate) fn nonce(&self, place: &Place) -> [u8; NONCE] {
        match self.0.nonces {
            Nonces::Random => random(),
            Nonces::Place => {
                let mut nonce = [0; NONCE];
                nonce[..16].copy_from_slice(&place.file.0);
                nonce[16..].copy_from_slice(&place.position.to_le_bytes());
                nonce
            }
        }
    }

    fn key_of(&self, kind: SealKind) -> &[u8; 32] {
        match kind.file_kind() {
            FileKind::Config => &self.0.config,
            FileKind::Key => &self.0.key,
            FileKind::Pack => &self.0.pack,
            FileKind::Index => &self.0.index,
            FileKind::Snapshot => &self.0.snapshot,
            FileKind::Sketches => &self.0.sketches,
            FileKind::Session => &self.0.session,
            FileKind::PruneLog => &self.0.prune_log,
            FileKind::Checkpoint => &self.0.checkpoint,
            FileKind::Writer | FileKind::Revocation | FileKind::Seen => &self.0.writer,
            FileKind::Records => &self.0.records,
            // Headers are signed, and what opened a repository must be read without its keys: these are not sealed.
            FileKind::Run | FileKind::SketchRun | FileKind::Complete | FileKind::Opened | FileKind::Signed => {
                &self.0.run
            }
        }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("repository", &self.0.repository)
            .field("encrypted", &self.0.encrypted)
            .finish_non_exhaustive()
    }
}
