//! The writer and the keepers: who signs, and which keys the files have that keepers alone can open.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::{FileId, FileKind, random};

/// Who signed a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signer {
    /// The writer.
    Writer,
    /// Someone with a password of the repository.
    Keeper,
}

impl Signer {
    /// Returns whether files of this kind count that this party has signed. What decides over other files is for
    /// keepers: a writer's key that was stolen must not delete what the writer had stored.
    pub(super) fn may_sign(self, kind: FileKind) -> bool {
        match self {
            Signer::Keeper => true,
            Signer::Writer => matches!(
                kind,
                FileKind::Pack | FileKind::Index | FileKind::Snapshot | FileKind::Session
            ),
        }
    }
}

/// Returns whether files of this kind have contents or names in them, and so a key each that a writer forgets.
pub(super) fn is_for_keepers(kind: FileKind) -> bool {
    matches!(
        kind,
        FileKind::Pack | FileKind::Snapshot | FileKind::Sketches | FileKind::Checkpoint
    )
}

/// The key of a file that keepers alone can open, and the public key from which they find it.
#[derive(Clone)]
pub(crate) struct FileKey {
    pub(crate) share: [u8; 32],
    pub(crate) key: Zeroizing<[u8; 32]>,
}

/// Keys of files, by kind and id.
type Known = HashMap<(FileKind, FileId), FileKey>;

/// The part that the holder of keys plays.
pub(super) enum Role {
    Writer,
    Keeper {
        secret: StaticSecret,
        /// The keys of files that were written, or of which the header was read.
        known: Mutex<Known>,
        /// Who signed the files whose headers were written or read.
        signers: Mutex<HashMap<(FileKind, FileId), Signer>>,
    },
}

impl Role {
    pub(super) fn keeper(secret: StaticSecret) -> Role {
        Role::Keeper {
            secret,
            known: Mutex::default(),
            signers: Mutex::default(),
        }
    }
}

/// What a writer and the keepers have beside the keys that they share.
pub(crate) struct Parties {
    role: Role,
    recipient: PublicKey,
    writer: VerifyingKey,
    keeper: VerifyingKey,
    signing: SigningKey,
    /// From this follow the secrets of the files that are written with these keys. It is never stored, so a writer that
    /// has ended can open none of them.
    run: Zeroizing<[u8; 32]>,
}

impl Parties {
    pub(super) fn new(
        role: Role,
        recipient: PublicKey,
        writer: VerifyingKey,
        keeper: VerifyingKey,
        signing: SigningKey,
    ) -> Parties {
        Parties {
            role,
            recipient,
            writer,
            keeper,
            signing,
            run: Zeroizing::new(random()),
        }
    }

    /// Returns the same with file keys that are predictable, for the worked example.
    pub(crate) fn with_example_run(&self) -> Parties {
        let role = match &self.role {
            Role::Writer => Role::Writer,
            Role::Keeper { secret, .. } => Role::keeper(secret.clone()),
        };
        Parties {
            role,
            recipient: self.recipient,
            writer: self.writer,
            keeper: self.keeper,
            signing: self.signing.clone(),
            run: Zeroizing::new([0; 32]),
        }
    }

    /// Returns the part that the holder of these keys plays.
    pub(super) fn role(&self) -> Signer {
        match self.role {
            Role::Writer => Signer::Writer,
            Role::Keeper { .. } => Signer::Keeper,
        }
    }

    pub(crate) fn is_write_only(&self) -> bool {
        self.role() == Signer::Writer
    }

    /// Returns the key of a file to write; `None` if its kind needs none of its own.
    pub(crate) fn key_to_seal(&self, writer: FileId, kind: FileKind, file: FileId) -> Option<FileKey> {
        if !is_for_keepers(kind) {
            return None;
        }
        let make = || {
            let mut seed = blake3::Hasher::new_keyed(&self.run);
            seed.update(&kind.magic()).update(&file.0);
            let secret = StaticSecret::from(*seed.finalize().as_bytes());
            let share = PublicKey::from(&secret);
            let agreed = secret.diffie_hellman(&self.recipient);
            self.file_key(writer, kind, file, share, agreed.as_bytes())
        };
        Some(match &self.role {
            Role::Writer => make(),
            Role::Keeper { known, .. } => lock(known).entry((kind, file)).or_insert_with(make).clone(),
        })
    }

    /// Returns the key of a file to read, if it is known.
    pub(crate) fn key_to_open(&self, kind: FileKind, file: FileId) -> Lookup {
        match &self.role {
            _ if !is_for_keepers(kind) => Lookup::Shared,
            Role::Writer => Lookup::NotForWriters,
            Role::Keeper { known, .. } => match lock(known).get(&(kind, file)) {
                Some(found) => Lookup::Known(found.key.clone()),
                None => Lookup::Unknown,
            },
        }
    }

    /// Remembers the key of a file whose header has this share. Returns whether the share is one.
    pub(super) fn learn(&self, writer: FileId, kind: FileKind, file: FileId, share: [u8; 32]) -> bool {
        let Role::Keeper { secret, known, .. } = &self.role else {
            return true;
        };
        let share = PublicKey::from(share);
        let agreed = secret.diffie_hellman(&share);
        // Of a share of low order everyone knows what is agreed.
        if !agreed.was_contributory() {
            return false;
        }
        let key = self.file_key(writer, kind, file, share, agreed.as_bytes());
        lock(known).insert((kind, file), key);
        true
    }

    fn file_key(&self, writer: FileId, kind: FileKind, file: FileId, share: PublicKey, agreed: &[u8; 32]) -> FileKey {
        let mut hasher = blake3::Hasher::new_derive_key("ibid v1 writer file key");
        hasher.update(agreed);
        hasher.update(share.as_bytes()).update(self.recipient.as_bytes());
        hasher.update(&writer.0).update(&kind.magic()).update(&file.0);
        FileKey {
            share: share.to_bytes(),
            key: Zeroizing::new(*hasher.finalize().as_bytes()),
        }
    }

    /// Remembers who signed a file, for keepers.
    pub(super) fn note_signer(&self, kind: FileKind, file: FileId, signer: Signer) {
        // Of these alone both may sign some, and it matters who did.
        let matters = matches!(kind, FileKind::Pack | FileKind::Index | FileKind::Snapshot);
        if let (Role::Keeper { signers, .. }, true) = (&self.role, matters) {
            lock(signers).insert((kind, file), signer);
        }
    }

    /// Returns who signed a file, if its header was written or read.
    pub(crate) fn signer_of(&self, kind: FileKind, file: FileId) -> Option<Signer> {
        match &self.role {
            Role::Writer => None,
            Role::Keeper { signers, .. } => lock(signers).get(&(kind, file)).copied(),
        }
    }

    pub(super) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.signing.sign(message).to_bytes()
    }

    pub(super) fn verify(&self, signer: Signer, message: &[u8], signature: &[u8; 64]) -> bool {
        let key = match signer {
            Signer::Writer => &self.writer,
            Signer::Keeper => &self.keeper,
        };
        key.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}

/// What is known of the key of a file.
pub(crate) enum Lookup {
    /// Files of this kind are sealed with the keys that a writer has, too.
    Shared,
    Known(Zeroizing<[u8; 32]>),
    /// The header of the file was not read.
    Unknown,
    NotForWriters,
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
