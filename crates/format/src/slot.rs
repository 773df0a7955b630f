//! `keys/<id>`: the master key, sealed by a password.
//!
//! Each file is one way to open an encrypted repository. Its parameters are authenticated with the
//! sealed key, so that no attacker can make the password's next use cheaper to guess; they are checked
//! against the caller's limit before any memory is taken.
//!
//! A checksum that needs no password tells damage from a wrong password. It is no protection against anyone
//! who changes a file on purpose: the seals are.

use argon2::{Algorithm, Argon2, Block, Params, Version};
use zeroize::Zeroizing;

use crate::error::{equal, in_range};
use crate::magic::MAGIC;
use crate::wire::{self, Reader};
use crate::{Error, FileId, FileKind, Keys, MasterKey, SEAL_OVERHEAD, SealKind, random, seal};

/// Length of the fields before the sealed master key, bytes.
const HEADER: usize = 52;
/// Length of a sealed master key, bytes.
const SEALED_KEY: usize = 32 + SEAL_OVERHEAD;
/// Offset of the sealed note.
const NOTE_AT: usize = HEADER + SEALED_KEY;
/// Length of a note with its padding, bytes.
pub(crate) const NOTE: usize = 512;
/// Offset of the checksum.
const CHECK_AT: usize = NOTE_AT + NOTE + SEAL_OVERHEAD;
/// Length of the checksum, bytes.
const CHECK: usize = 8;
/// Length of every key file, bytes. Never read more of one.
pub const LIMIT: u64 = (CHECK_AT + CHECK) as u64;
/// Most memory that a slot can ask for, KiB (4 GiB).
pub const MEMORY_KIB_MAX: u32 = 4 << 20;
/// Most memory that a caller should allow a slot, and that a new slot may ask for, KiB (1 GiB). A
/// hostile slot must not exhaust the machine, and no user should make a slot that cannot be opened.
pub const MEMORY_KIB_ALLOWED: u32 = 1 << 20;
/// Most passes.
pub const PASSES_MAX: u32 = 64;
/// Most lanes.
pub const LANES_MAX: u32 = 64;

/// The cost of one guess at the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argon2Cost {
    /// Memory, KiB: 8 for each lane to [`MEMORY_KIB_MAX`].
    pub memory_kib: u32,
    /// Passes over the memory: 1 to [`PASSES_MAX`].
    pub passes: u32,
    /// Lanes that could be filled at the same time: 1 to [`LANES_MAX`].
    pub lanes: u32,
}

impl Default for Argon2Cost {
    /// 46 MiB, 1 pass, 1 lane: OWASP's first recommendation for Argon2id. It is below the second of
    /// RFC 9106 (64 MiB, 3 passes), since every command pays it. Choose more
    /// to guard against costlier guessing.
    fn default() -> Self {
        Argon2Cost {
            memory_kib: 46 << 10,
            passes: 1,
            lanes: 1,
        }
    }
}

impl Argon2Cost {
    /// Checks that the format allows it.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`], naming the first value that is not allowed.
    pub fn check(&self) -> Result<(), Error> {
        let lanes = in_range("Argon2id lanes", self.lanes.into(), 1, LANES_MAX.into())?;
        in_range("Argon2id passes", self.passes.into(), 1, PASSES_MAX.into())?;
        in_range(
            "Argon2id memory, KiB",
            self.memory_kib.into(),
            8 * lanes,
            MEMORY_KIB_MAX.into(),
        )?;
        Ok(())
    }

    /// Checks that a new slot may cost so much: the format allows it, and it needs no more memory
    /// than a reader will allow.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`], [`Error::TooExpensive`].
    pub fn check_new(&self) -> Result<(), Error> {
        self.check()?;
        self.check_memory(MEMORY_KIB_ALLOWED)
    }

    /// Whether guessing costs less than any of OWASP's recommendations for Argon2id: at least 7
    /// MiB, and 32 MiB times passes.
    pub fn is_cheap(&self) -> bool {
        self.memory_kib < 7 << 10 || u64::from(self.memory_kib) * u64::from(self.passes) < 32 << 10
    }

    fn check_memory(&self, limit: u32) -> Result<(), Error> {
        match self.memory_kib <= limit {
            true => Ok(()),
            false => Err(Error::TooExpensive {
                limit,
                found: self.memory_kib,
            }),
        }
    }

    /// Returns the slot key: Argon2id of password and salt.
    fn slot_key(&self, password: &[u8], salt: &[u8; 16]) -> Result<Zeroizing<[u8; 32]>, Error> {
        let mut key = Zeroizing::new([0; 32]);
        let params = Params::new(self.memory_kib, self.passes, self.lanes, Some(key.len()))
            .map_err(|_| Error::OutOfMemory { found: self.memory_kib })?;
        let no_memory = || Error::OutOfMemory { found: self.memory_kib };
        let mut memory = WorkingMemory::new(params.block_count()).ok_or_else(no_memory)?;
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into_with_memory(password, salt, &mut *key, memory.blocks())
            // Parameters and lengths were checked, so the only remaining cause is a lack of memory.
            .map_err(|_| no_memory())?;
        Ok(key)
    }
}

/// The memory that Argon2 fills, mapped all at once: page faults for single pages take a quarter of
/// the time of one pass. (Huge pages are faster if some are free, but take three times as long if
/// the system first has to make room for them.)
struct WorkingMemory(memmap2::MmapMut);

impl WorkingMemory {
    /// Returns zeroed memory for so many blocks, or `None` if there is not enough.
    fn new(blocks: usize) -> Option<WorkingMemory> {
        let memory = memmap2::MmapMut::map_anon(blocks.checked_mul(Block::SIZE)?).ok()?;
        // This is advice: without it the pages are mapped one by one.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::PopulateWrite);
        Some(WorkingMemory(memory))
    }

    #[allow(unsafe_code, reason = "views mapped memory as Argon2's blocks without copying it")]
    fn blocks(&mut self) -> &mut [Block] {
        // SAFETY: a block is an array of integers, for which all bytes are valid.
        let (before, blocks, after) = unsafe { self.0.align_to_mut() };
        debug_assert!(
            before.is_empty() && after.is_empty(),
            "pages are aligned, and blocks fill them"
        );
        blocks
    }
}

/// The origin of a slot, shown when slots are listed. Sealed under the repository's keys, not the
/// password.
///
/// The three strings take 497 bytes together at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// When it was made, seconds since 1970.
    pub created: i64,
    /// The user's name for it.
    pub label: String,
    /// The machine on which it was made.
    pub host: String,
    /// The user who made it.
    pub user: String,
}

impl Note {
    pub(crate) fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(NOTE);
        wire::put_zigzag(&mut out, self.created);
        for text in [&self.label, &self.host, &self.user] {
            wire::put_bytes(&mut out, text.as_bytes());
        }
        in_range("note", out.len() as u64, 0, NOTE as u64)?;
        out.resize(NOTE, 0);
        Ok(out)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Note, Error> {
        let mut reader = Reader::new(bytes);
        let created = reader.zigzag("note: created")?;
        let label = reader.text("note: label", NOTE)?.to_owned();
        let host = reader.text("note: host", NOTE)?.to_owned();
        let user = reader.text("note: user", NOTE)?.to_owned();
        reader.zeros("note: padding")?;
        Ok(Note {
            created,
            label,
            host,
            user,
        })
    }
}

/// Returns the key file named `id`, with which `password` opens the repository of `keys`. Takes as
/// long as [`Slot::unlock`].
///
/// # Errors
///
/// [`Error::OutOfRange`] for a cost or a note beyond the limits, [`Error::TooExpensive`] for more
/// memory than [`MEMORY_KIB_ALLOWED`], [`Error::Encryption`] for keys of an unencrypted repository
/// (it has no key files), [`Error::OutOfMemory`].
pub fn create(id: FileId, keys: &Keys, password: &[u8], cost: Argon2Cost, note: &Note) -> Result<Vec<u8>, Error> {
    create_with_salt(id, keys, password, cost, note, random())
}

/// Does the same with a given salt, for the worked examples of the format document only. **Do not
/// use it for anything else.**
#[doc(hidden)]
pub fn create_with_salt(
    id: FileId,
    keys: &Keys,
    password: &[u8],
    cost: Argon2Cost,
    note: &Note,
    salt: [u8; 16],
) -> Result<Vec<u8>, Error> {
    if !keys.is_encrypted() {
        return Err(Error::Encryption {
            expected: true,
            found: false,
        });
    }
    cost.check_new()?;
    let note = note.encode()?;
    let mut out = Vec::with_capacity(LIMIT as usize);
    out.extend_from_slice(&FileKind::Key.magic());
    out.extend_from_slice(&keys.repository().0);
    for number in [cost.memory_kib, cost.passes, cost.lanes] {
        wire::put_u32(&mut out, number);
    }
    out.extend_from_slice(&salt);

    let slot_key = cost.slot_key(password, &salt)?;
    let place = keys.place(SealKind::Key, id, HEADER as u64);
    let header = out.clone();
    seal::encrypt(
        &slot_key,
        &keys.nonce(&place),
        &place,
        &header,
        &[keys.master().bytes()],
        &mut out,
    );
    keys.seal(SealKind::Key, id, NOTE_AT as u64, &note, &mut out);
    let check = checksum(&out);
    wire::put_u64(&mut out, check);
    Ok(out)
}

/// Returns the checksum of the bytes before it: the first eight of their BLAKE3.
fn checksum(bytes: &[u8]) -> u64 {
    let hash = blake3::hash(bytes);
    let first = hash.as_bytes().first_chunk().expect("it has 32 bytes");
    u64::from_le_bytes(*first)
}

/// Replaces the id of the repository in the bytes of a key file, and makes the checksum fit. Does nothing to bytes
/// that are not as long as a key file.
pub fn set_repository(bytes: &mut [u8], repository: FileId) {
    if bytes.len() as u64 == LIMIT {
        bytes[MAGIC..MAGIC + 16].copy_from_slice(&repository.0);
        let (before, check) = bytes.split_at_mut(CHECK_AT);
        check.copy_from_slice(&checksum(before).to_le_bytes());
    }
}

/// A key file, parsed but not unlocked.
#[derive(Debug, Clone)]
pub struct Slot {
    id: FileId,
    repository: FileId,
    cost: Argon2Cost,
    salt: [u8; 16],
    bytes: Vec<u8>,
}

impl Slot {
    /// Parses the fields that need no password, and compares the checksum. They are not authenticated yet.
    ///
    /// # Errors
    ///
    /// If it is not a key file, has another version, is not [`LIMIT`] bytes long, or asks for a
    /// cost that the format does not allow; [`Error::Check`] if any other byte has changed.
    pub fn parse(id: FileId, bytes: &[u8]) -> Result<Slot, Error> {
        FileKind::Key.check(bytes)?;
        equal("key file", LIMIT, bytes.len() as u64)?;
        let mut reader = Reader::new(bytes);
        reader.take("magic", MAGIC)?;
        let repository = FileId(reader.array("repository id")?);
        let cost = Argon2Cost {
            memory_kib: reader.u32("Argon2id memory")?,
            passes: reader.u32("Argon2id passes")?,
            lanes: reader.u32("Argon2id lanes")?,
        };
        cost.check()?;
        let salt = reader.array("salt")?;
        let (before, check) = bytes.split_at(CHECK_AT);
        let expected = checksum(before);
        let found = Reader::new(check).u64("checksum of a key file")?;
        if found != expected {
            return Err(Error::Check {
                field: "key file",
                expected,
                found,
            });
        }
        Ok(Slot {
            id,
            repository,
            cost,
            salt,
            bytes: before.to_vec(),
        })
    }

    /// Returns the file's name.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Returns the repository that it claims to open.
    pub fn repository(&self) -> FileId {
        self.repository
    }

    /// Returns the cost of [`unlock`](Slot::unlock).
    pub fn cost(&self) -> Argon2Cost {
        self.cost
    }

    /// Returns the master key. Takes the time and memory of [`cost`](Slot::cost): some 30 ms and 46 MiB for
    /// the default.
    ///
    /// # Errors
    ///
    /// [`Error::TooExpensive`] before any memory is taken if the slot asks for more than
    /// `memory_limit_kib` ([`MEMORY_KIB_ALLOWED`] is the usual limit); [`Error::OutOfMemory`];
    /// [`Error::WrongPassword`], which is also what a file looks like that someone changed together with its
    /// checksum.
    pub fn unlock(&self, password: &[u8], memory_limit_kib: u32) -> Result<MasterKey, Error> {
        self.cost.check_memory(memory_limit_kib)?;
        let slot_key = self.cost.slot_key(password, &self.salt)?;
        let place = seal::Place {
            kind: SealKind::Key,
            repository: self.repository,
            file: self.id,
            position: HEADER as u64,
        };
        let mut sealed = Zeroizing::new([0; SEALED_KEY]);
        sealed.copy_from_slice(&self.bytes[HEADER..NOTE_AT]);
        let master = seal::decrypt(&slot_key, &place, &self.bytes[..HEADER], &mut *sealed);
        let master = master.ok_or(Error::WrongPassword)?;
        let mut key = [0; 32];
        key.copy_from_slice(master);
        Ok(MasterKey::from_bytes(key))
    }

    /// Returns the note about its origin.
    ///
    /// # Errors
    ///
    /// [`Error::Repository`] if the slot is for another repository than `keys`, [`Error::Seal`] if
    /// the note is damaged.
    pub fn note(&self, keys: &Keys) -> Result<Note, Error> {
        if self.repository != keys.repository() {
            return Err(Error::Repository {
                expected: keys.repository(),
                found: self.repository,
            });
        }
        let mut sealed = self.bytes[NOTE_AT..].to_vec();
        Note::decode(keys.open(SealKind::Key, self.id, NOTE_AT as u64, &mut sealed)?)
    }
}
