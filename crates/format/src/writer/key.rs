//! The key of a writer, and its text.

use std::fmt;

use ed25519_dalek::{SigningKey, VerifyingKey};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::{Zeroize, Zeroizing};

use super::parties::{Parties, Role};
use crate::{Error, FileId, Keys, MasterKey};

/// The word with which the line of a key begins. Its number is that of the format.
const WORD: &str = "ibid-writer-1";
/// Longest text of a key, bytes. Never read more of one.
pub const TEXT_MAX: u64 = 4096;
/// Length of repository, writer, secret and the two public keys, bytes.
const FIELDS: usize = 16 + 16 + 32 + 32 + 32;
/// Length of the checksum, bytes.
const CHECK: usize = 8;

/// What a writer has: a secret of its own, and the public keys of the keepers. Erased from memory when dropped.
#[derive(Clone)]
pub struct WriterKey {
    repository: FileId,
    id: FileId,
    secret: [u8; 32],
    recipient: [u8; 32],
    keeper: [u8; 32],
}

impl Drop for WriterKey {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

impl fmt::Debug for WriterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterKey")
            .field("repository", &self.repository)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// What keepers alone derive from the master key, for one writer.
struct KeeperSecrets {
    recipient: StaticSecret,
    signing: SigningKey,
}

impl KeeperSecrets {
    fn derive(master: &MasterKey, writer: FileId) -> KeeperSecrets {
        let recipient = of_writer(master, "ibid v1 writer recipient", writer);
        let signing = of_writer(master, "ibid v1 writer keeper signature", writer);
        KeeperSecrets {
            recipient: StaticSecret::from(*recipient),
            signing: SigningKey::from_bytes(&signing),
        }
    }
}

/// Returns a secret that the repository has for one writer.
fn of_writer(master: &MasterKey, context: &str, writer: FileId) -> Zeroizing<[u8; 32]> {
    let key = Zeroizing::new(blake3::derive_key(context, master.bytes()));
    Zeroizing::new(*blake3::keyed_hash(&key, &writer.0).as_bytes())
}

/// Returns the keys that the writer and the keepers share, and the key with which the writer signs.
fn of_secret(writer: FileId, secret: &[u8; 32]) -> (Keys, SigningKey) {
    let mut master = blake3::derive_key("ibid v1 writer master", secret);
    let keys = Keys::encrypted(writer, &MasterKey::from_bytes(master));
    master.zeroize();
    let signing = Zeroizing::new(blake3::derive_key("ibid v1 writer signature", secret));
    (keys, SigningKey::from_bytes(&signing))
}

impl WriterKey {
    /// Returns the key of the writer with this id, made from the keys of a repository: the same ones each time.
    ///
    /// # Errors
    ///
    /// [`Error::Encryption`] for a repository without encryption: all can read it.
    pub fn derive(repository: &Keys, id: FileId) -> Result<WriterKey, Error> {
        encrypted(repository)?;
        let keeper = KeeperSecrets::derive(repository.master(), id);
        Ok(WriterKey {
            repository: repository.repository(),
            id,
            secret: *of_writer(repository.master(), "ibid v1 writer secret", id),
            recipient: PublicKey::from(&keeper.recipient).to_bytes(),
            keeper: keeper.signing.verifying_key().to_bytes(),
        })
    }

    /// Returns the id of the repository.
    pub fn repository(&self) -> FileId {
        self.repository
    }

    /// Returns the id of the writer.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Returns the keys with which the writer writes.
    pub fn keys(&self) -> Keys {
        let (keys, signing) = of_secret(self.id, &self.secret);
        let parties = Parties::new(
            Role::Writer,
            PublicKey::from(self.recipient),
            signing.verifying_key(),
            self.keeper(),
            signing,
        );
        keys.with_parties(parties)
    }

    fn keeper(&self) -> VerifyingKey {
        VerifyingKey::from_bytes(&self.keeper).expect("checked when the key was made")
    }

    /// Returns the key as a line of text, with comments before it that say what it is.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(FIELDS + CHECK));
        for id in [self.repository, self.id] {
            bytes.extend_from_slice(&id.0);
        }
        for key in [&self.secret, &self.recipient, &self.keeper] {
            bytes.extend_from_slice(key);
        }
        let check = checksum(&bytes);
        bytes.extend_from_slice(&check);
        // Made in one piece, so that no copies of it stay in memory when it grows.
        let mut text = Zeroizing::new(String::with_capacity(TEXT_MAX as usize));
        text.push_str(
            "# The key of a writer of an ibid repository: with it you can store snapshots there, and read none.\n",
        );
        text.push_str("# Keep it as you keep a private key of SSH.\n");
        text.push_str(WORD);
        text.push(' ');
        for byte in bytes.iter() {
            for half in [byte >> 4, byte & 15] {
                text.push(char::from_digit(half.into(), 16).expect("half a byte"));
            }
        }
        text.push('\n');
        text
    }

    /// Reads the text of a key: one line that is neither empty nor begins with `#`.
    ///
    /// # Errors
    ///
    /// [`Error::WriterKey`] says what is wrong with it.
    pub fn parse(text: &str) -> Result<WriterKey, Error> {
        let wrong = |fault| Error::WriterKey { fault };
        let mut lines = text.lines().map(str::trim);
        let mut content = lines.by_ref().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let line = content
            .next()
            .ok_or(wrong("it has no line that begins with ibid-writer-1"))?;
        if content.next().is_some() {
            return Err(wrong("it has more than one line that is no comment"));
        }
        let digits = match line.split_once(' ') {
            Some((WORD, digits)) => digits.trim_start(),
            Some((other, _)) if other.starts_with("ibid-writer-") => return Err(wrong("a newer ibid has made it")),
            _ => return Err(wrong("it has no line that begins with ibid-writer-1")),
        };
        let bytes = hex(digits).ok_or(wrong("it does not have 272 hexadecimal digits"))?;
        let (fields, check) = bytes.split_at(FIELDS);
        if check != checksum(fields) {
            return Err(wrong("its checksum is wrong, so digits have changed"));
        }
        let mut reader = crate::wire::Reader::new(fields);
        let key = WriterKey {
            repository: FileId(reader.array("repository id")?),
            id: FileId(reader.array("writer id")?),
            secret: reader.array("secret")?,
            recipient: reader.array("public key of the repository")?,
            keeper: reader.array("public key of the keepers")?,
        };
        match VerifyingKey::from_bytes(&key.keeper) {
            Ok(keeper) if !keeper.is_weak() => Ok(key),
            _ => Err(wrong("the public key of the keepers is none")),
        }
    }
}

impl Keys {
    /// Returns the keys with which a keeper of this repository reads and writes the files of a writer.
    ///
    /// # Errors
    ///
    /// [`Error::Encryption`] for a repository without encryption.
    pub fn of_writer(&self, writer: FileId) -> Result<Keys, Error> {
        encrypted(self)?;
        let keeper = KeeperSecrets::derive(self.master(), writer);
        let secret = of_writer(self.master(), "ibid v1 writer secret", writer);
        let (keys, signing) = of_secret(writer, &secret);
        let recipient = PublicKey::from(&keeper.recipient);
        let parties = Parties::new(
            Role::keeper(keeper.recipient),
            recipient,
            signing.verifying_key(),
            keeper.signing.verifying_key(),
            keeper.signing,
        );
        Ok(keys.with_parties(parties))
    }
}

fn encrypted(keys: &Keys) -> Result<(), Error> {
    match keys.is_encrypted() {
        true => Ok(()),
        false => Err(Error::Encryption {
            expected: true,
            found: false,
        }),
    }
}

/// Returns the first bytes of the BLAKE3 hash of the fields. It finds what was copied wrongly.
fn checksum(fields: &[u8]) -> [u8; CHECK] {
    let hash = blake3::hash(fields);
    *hash.as_bytes().first_chunk().expect("it has 32 bytes")
}

fn hex(digits: &str) -> Option<Zeroizing<[u8; FIELDS + CHECK]>> {
    let mut bytes = Zeroizing::new([0; FIELDS + CHECK]);
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    if digits.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}
