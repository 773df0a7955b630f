//! `config`: the settings of a repository, written once when it is created.

use zeroize::Zeroizing;

use crate::error::in_range;
use crate::magic::MAGIC;
use crate::wire::{self, Reader};
use crate::{ChunkKey, Error, FileId, FileKind, Keys, MasterKey, SealKind};

/// Longest `config` file, bytes.
pub const LIMIT: u64 = 4096;
/// Most words of chunker settings.
pub const CHUNKER_WORDS_MAX: usize = 16;
/// Allowed target sizes of a frame, bytes of chunk data.
pub const FRAME_SIZE: std::ops::RangeInclusive<u32> = 4 << 10..=8 << 20;
/// Allowed target sizes of a pack, bytes.
pub const PACK_SIZE: std::ops::RangeInclusive<u32> = 1 << 20..=64 << 20;

/// Allowed days of a lock.
pub const LOCK_DAYS: std::ops::RangeInclusive<u32> = 1..=36_500;
/// Bytes of a lock.
const LOCK: usize = 1 + 4;

/// How the files of a repository are locked in their storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    /// Whether no one at all can end it: what services call compliance mode, and otherwise governance mode.
    pub is_compliance: bool,
    /// For how many days at least, within [`LOCK_DAYS`].
    pub days: u32,
}

/// The settings that all writers of a repository share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// When the repository was made, seconds since 1970.
    pub created: i64,
    /// The chunking algorithm: its number in `ibid_chunk::Settings`.
    pub chunker_number: u16,
    /// The words of the chunker's settings, at most [`CHUNKER_WORDS_MAX`].
    pub chunker_words: Vec<u32>,
    /// Bytes of chunk data that a frame aims at, within [`FRAME_SIZE`].
    pub frame_size: u32,
    /// Bytes that a pack aims at, within [`PACK_SIZE`].
    pub pack_size: u32,
    /// The key of chunk ids, if it is that of another repository and not derived from the master key.
    pub chunk_key: Option<ChunkKey>,
    /// How its files are locked, if they are.
    pub lock: Option<Lock>,
}

/// The part of a `config` that is readable without keys.
///
/// Nothing here is authenticated yet: [`open`] does that. An attacker who controls the storage can put an
/// unencrypted `config` in the place of an encrypted one, so a caller that expects encryption
/// checks [`encrypted`](Header::encrypted) before it writes.
#[derive(Debug)]
pub struct Header {
    /// Whether a master key is needed.
    pub encrypted: bool,
    /// The repository's identity.
    pub repository: FileId,
    /// The master key, in an unencrypted repository.
    pub master: Option<MasterKey>,
}

impl Config {
    /// Checks that all values are within the limits of the format.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`], naming the first value that is not.
    pub fn check(&self) -> Result<(), Error> {
        in_range(
            "chunker words",
            self.chunker_words.len() as u64,
            0,
            CHUNKER_WORDS_MAX as u64,
        )?;
        let sizes = [
            ("frame size", self.frame_size, FRAME_SIZE),
            ("pack size", self.pack_size, PACK_SIZE),
        ];
        for (field, size, range) in sizes {
            in_range(field, size.into(), (*range.start()).into(), (*range.end()).into())?;
        }
        if let Some(lock) = self.lock {
            let (least, most) = (*LOCK_DAYS.start(), *LOCK_DAYS.end());
            in_range("days of a lock", lock.days.into(), least.into(), most.into())?;
        }
        Ok(())
    }
}

/// Returns the `config` file of a repository with these settings and keys.
///
/// # Errors
///
/// As [`Config::check`].
pub fn encode(config: &Config, keys: &Keys) -> Result<Vec<u8>, Error> {
    config.check()?;
    let mut out = FileKind::Config.magic().to_vec();
    out.push(keys.is_encrypted().into());
    out.extend_from_slice(&keys.repository().0);
    if !keys.is_encrypted() {
        out.extend_from_slice(keys.master().bytes());
    }
    let mut body = Zeroizing::new(Vec::new());
    wire::put_zigzag(&mut body, config.created);
    wire::put_u16(&mut body, config.chunker_number);
    body.push(config.chunker_words.len() as u8);
    for &word in &config.chunker_words {
        wire::put_u32(&mut body, word);
    }
    wire::put_u32(&mut body, config.frame_size);
    wire::put_u32(&mut body, config.pack_size);
    if let Some(key) = &config.chunk_key {
        body.extend_from_slice(key.bytes());
    }
    if let Some(lock) = config.lock {
        body.push(if lock.is_compliance { 2 } else { 1 });
        wire::put_u32(&mut body, lock.days);
    }
    let position = out.len() as u64;
    keys.seal(SealKind::Config, FileId::ZERO, position, &body, &mut out);
    Ok(out)
}

/// Reads the part that needs no keys.
///
/// # Errors
///
/// If it is not a `config`, of another version, cut off or longer than [`LIMIT`].
pub fn header(bytes: &[u8]) -> Result<Header, Error> {
    read_header(bytes).map(|(header, _)| header)
}

/// The header and its length, which is where the sealed body begins.
fn read_header(bytes: &[u8]) -> Result<(Header, usize), Error> {
    in_range("config file", bytes.len() as u64, MAGIC as u64, LIMIT)?;
    FileKind::Config.check(bytes)?;
    let mut reader = Reader::new(bytes);
    reader.take("magic", MAGIC)?;
    let encrypted = match reader.u8("encrypted")? {
        0 => false,
        1 => true,
        other => {
            return Err(Error::Unknown {
                field: "encrypted",
                found: other.into(),
            });
        }
    };
    let repository = FileId(reader.array("repository id")?);
    let master = match encrypted {
        true => None,
        false => Some(MasterKey::from_bytes(reader.array("master key")?)),
    };
    Ok((
        Header {
            encrypted,
            repository,
            master,
        },
        reader.position(),
    ))
}

/// Reads a whole `config`.
///
/// # Errors
///
/// As [`header`]; [`Error::Repository`] or [`Error::Encryption`] if the keys are for another
/// repository; [`Error::Seal`] if they don't open it; or the fault in the values.
pub fn open(bytes: &[u8], keys: &Keys) -> Result<Config, Error> {
    let (header, position) = read_header(bytes)?;
    if header.repository != keys.repository() {
        return Err(Error::Repository {
            expected: keys.repository(),
            found: header.repository,
        });
    }
    if header.encrypted != keys.is_encrypted() {
        return Err(Error::Encryption {
            expected: keys.is_encrypted(),
            found: header.encrypted,
        });
    }
    let mut sealed = Zeroizing::new(bytes[position..].to_vec());
    let body = keys.open(SealKind::Config, FileId::ZERO, position as u64, &mut sealed)?;
    let mut reader = Reader::new(body);
    let created = reader.zigzag("created")?;
    let chunker_number = reader.u16("chunker number")?;
    let count = in_range(
        "chunker words",
        reader.u8("chunker words")?.into(),
        0,
        CHUNKER_WORDS_MAX as u64,
    )?;
    let chunker_words = (0..count)
        .map(|_| reader.u32("chunker word"))
        .collect::<Result<_, _>>()?;
    let frame_size = reader.u32("frame size")?;
    let pack_size = reader.u32("pack size")?;
    let chunk_key = match reader.remaining() {
        0 | LOCK => None,
        _ => Some(ChunkKey::from_bytes(reader.array("key of chunk ids")?)),
    };
    let lock = match reader.remaining() {
        0 => None,
        _ => Some(Lock {
            is_compliance: match reader.u8("mode of the lock")? {
                1 => false,
                2 => true,
                other => {
                    return Err(Error::Unknown {
                        field: "mode of the lock",
                        found: other.into(),
                    });
                }
            },
            days: reader.u32("days of a lock")?,
        }),
    };
    reader.finish("config")?;
    let config = Config {
        created,
        chunker_number,
        chunker_words,
        frame_size,
        pack_size,
        chunk_key,
        lock,
    };
    config.check()?;
    Ok(config)
}
