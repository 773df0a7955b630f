//! Entries of a directory's listing.
//!
//! A listing is its entries one after the other, ascending by name. It is cut into chunks like any
//! file, so entries are read from a stream ([`TreeEntry::decode_prefix`]). The reader checks that the
//! names of successive entries ascend.

use crate::content::Content;
use crate::error::in_range;
pub use crate::inode_flags::InodeFlags;
use crate::wire::{self, Reader};
use crate::{Error, NameFault};

/// Longest entry without the length in front of it, bytes.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;
/// Longest name, bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest target of a symbolic link, bytes.
pub const TARGET_BYTES_MAX: usize = 64 << 10;
/// All bits that a mode may have: permissions, setuid, setgid, sticky.
pub const MODE_MAX: u32 = 0o7777;

const NANOS_MAX: u64 = 999_999_999;
/// Flags.
const CHANGED: u64 = 1;
const HARD_LINK: u64 = 2;
const INODE_FLAGS: u64 = 4;

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Seconds since 1970, UTC; negative before.
    pub seconds: i64,
    /// Nanoseconds after that: below 10⁹.
    pub nanos: u32,
}

impl Time {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        wire::put_zigzag(out, self.seconds);
        wire::put_varint(out, self.nanos.into());
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Time, Error> {
        let seconds = reader.zigzag("seconds")?;
        let nanos = reader.varint_in("nanoseconds", 0, NANOS_MAX)? as u32;
        Ok(Time { seconds, nanos })
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        in_range("nanoseconds", self.nanos.into(), 0, NANOS_MAX).map(drop)
    }
}

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A file, and what it contains.
    File(Content),
    /// A directory, and what its listing is made of.
    Directory(Content),
    /// A symbolic link, and where it points: [`TARGET_BYTES_MAX`] at most.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice {
        /// The driver's number.
        major: u32,
        /// The device's number within the driver.
        minor: u32,
    },
    /// A block device.
    BlockDevice {
        /// The driver's number.
        major: u32,
        /// The device's number within the driver.
        minor: u32,
    },
}

impl EntryKind {
    /// Returns what a message calls it, with the article: "a file".
    pub fn description(&self) -> &'static str {
        match self {
            EntryKind::File(_) => "a file",
            EntryKind::Directory(_) => "a directory",
            EntryKind::Symlink(_) => "a symlink",
            EntryKind::Fifo => "a FIFO",
            EntryKind::Socket => "a socket",
            EntryKind::CharDevice { .. } => "a character device",
            EntryKind::BlockDevice { .. } => "a block device",
        }
    }

    fn number(&self) -> u8 {
        match self {
            EntryKind::File(_) => 0,
            EntryKind::Directory(_) => 1,
            EntryKind::Symlink(_) => 2,
            EntryKind::Fifo => 3,
            EntryKind::Socket => 4,
            EntryKind::CharDevice { .. } => 5,
            EntryKind::BlockDevice { .. } => 6,
        }
    }

    fn may_have_inode_flags(&self) -> bool {
        matches!(self, EntryKind::File(_) | EntryKind::Directory(_))
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            EntryKind::File(content) | EntryKind::Directory(content) => content.encode(out),
            EntryKind::Symlink(target) => wire::put_bytes(out, target),
            EntryKind::Fifo | EntryKind::Socket => {}
            EntryKind::CharDevice { major, minor } | EntryKind::BlockDevice { major, minor } => {
                wire::put_varint(out, (*major).into());
                wire::put_varint(out, (*minor).into());
            }
        }
    }

    fn read(number: u8, reader: &mut Reader<'_>) -> Result<EntryKind, Error> {
        Ok(match number {
            0 => EntryKind::File(Content::decode(reader)?),
            1 => EntryKind::Directory(Content::decode(reader)?),
            2 => EntryKind::Symlink(reader.bytes("target of a symlink", TARGET_BYTES_MAX)?.to_vec()),
            3 => EntryKind::Fifo,
            4 => EntryKind::Socket,
            5 => EntryKind::CharDevice {
                major: reader.varint_u32("major")?,
                minor: reader.varint_u32("minor")?,
            },
            6 => EntryKind::BlockDevice {
                major: reader.varint_u32("major")?,
                minor: reader.varint_u32("minor")?,
            },
            other => {
                return Err(Error::Unknown {
                    field: "entry type",
                    found: other.into(),
                });
            }
        })
    }

    fn check(&self) -> Result<(), Error> {
        match self {
            EntryKind::File(content) | EntryKind::Directory(content) => content.check(),
            EntryKind::Symlink(target) => {
                in_range("target of a symlink", target.len() as u64, 0, TARGET_BYTES_MAX as u64).map(drop)
            }
            _ => Ok(()),
        }
    }
}

/// An extended attribute: name and value.
pub type Xattr = (Vec<u8>, Vec<u8>);

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Its name, as [`check_name`] allows.
    pub name: Vec<u8>,
    /// Its kind.
    pub kind: EntryKind,
    /// Permission bits with setuid, setgid and sticky: [`MODE_MAX`] at most.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// When its content changed.
    pub mtime: Time,
    /// When anything of it changed.
    pub ctime: Time,
    /// Its inode number.
    pub inode: u64,
    /// Whether it changed while it was read: its content may mix several states.
    pub changed_while_read: bool,
    /// The device, if it had several names: those with the same device and inode are one file.
    pub hard_link_device: Option<u64>,
    /// Its inode flags. Only files and directories have any.
    pub inode_flags: InodeFlags,
    /// Extended attributes: names and values, strictly ascending by name.
    pub xattrs: Vec<Xattr>,
}

impl TreeEntry {
    /// Appends the entry.
    ///
    /// # Errors
    ///
    /// If a reader would refuse it: a name, mode, time, target or content that is out of bounds,
    /// attributes out of order, or an entry longer than [`ENTRY_BYTES_MAX`]. `out` is then as
    /// it was.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.check()?;
        let start = out.len();
        self.put(out);
        let length = out.len() - start;
        if let Err(error) = in_range("entry", length as u64, 0, ENTRY_BYTES_MAX as u64) {
            out.truncate(start);
            return Err(error);
        }
        // The length goes in front, and is known only now: written behind and rotated there, no second
        // buffer is needed.
        wire::put_varint(out, length as u64);
        out[start..].rotate_right(wire::varint_len(length as u64));
        Ok(())
    }

    /// Reads an entry from the beginning of `bytes`, and returns it with its encoded length, bytes;
    /// `None` if `bytes` end before it does.
    ///
    /// # Errors
    ///
    /// If no further bytes could make a valid entry.
    pub fn decode_prefix(bytes: &[u8]) -> Result<Option<(TreeEntry, usize)>, Error> {
        let mut reader = Reader::new(bytes);
        let length = match reader.varint_in("entry", 0, ENTRY_BYTES_MAX as u64) {
            Ok(length) => length as usize,
            Err(Error::Truncated { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        if reader.remaining() < length {
            return Ok(None);
        }
        let entry = TreeEntry::read(Reader::new(reader.take("entry", length)?))?;
        Ok(Some((entry, reader.position())))
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.kind.number());
        wire::put_bytes(out, &self.name);
        for number in [self.mode, self.uid, self.gid] {
            wire::put_varint(out, number.into());
        }
        self.mtime.put(out);
        self.ctime.put(out);
        wire::put_varint(out, self.inode);
        let changed = if self.changed_while_read { CHANGED } else { 0 };
        let linked = if self.hard_link_device.is_some() { HARD_LINK } else { 0 };
        let flagged = if self.inode_flags.is_empty() { 0 } else { INODE_FLAGS };
        wire::put_varint(out, changed | linked | flagged);
        if let Some(device) = self.hard_link_device {
            wire::put_varint(out, device);
        }
        if flagged != 0 {
            wire::put_varint(out, self.inode_flags.bits().into());
        }
        wire::put_varint(out, self.xattrs.len() as u64);
        for (name, value) in &self.xattrs {
            wire::put_bytes(out, name);
            wire::put_bytes(out, value);
        }
        self.kind.put(out);
    }

    fn read(mut reader: Reader<'_>) -> Result<TreeEntry, Error> {
        let number = reader.u8("entry type")?;
        let name = reader.bytes("name", NAME_BYTES_MAX)?;
        check_name(name)?;
        let mode = reader.varint_in("mode", 0, MODE_MAX.into())? as u32;
        let uid = reader.varint_u32("uid")?;
        let gid = reader.varint_u32("gid")?;
        let mtime = Time::read(&mut reader)?;
        let ctime = Time::read(&mut reader)?;
        let inode = reader.varint("inode")?;
        let flags = reader.varint_in("entry flags", 0, CHANGED | HARD_LINK | INODE_FLAGS)?;
        let hard_link_device = match flags & HARD_LINK {
            0 => None,
            _ => Some(reader.varint("device")?),
        };
        let inode_flags = match flags & INODE_FLAGS {
            0 => InodeFlags::default(),
            _ => InodeFlags::read(&mut reader)?,
        };
        let xattrs = read_xattrs(&mut reader)?;
        let kind = EntryKind::read(number, &mut reader)?;
        reader.finish("entry")?;
        check_inode_flags(inode_flags, &kind)?;
        let changed_while_read = flags & CHANGED != 0;
        let name = name.to_vec();
        Ok(TreeEntry {
            name,
            kind,
            mode,
            uid,
            gid,
            mtime,
            ctime,
            inode,
            changed_while_read,
            hard_link_device,
            inode_flags,
            xattrs,
        })
    }

    fn check(&self) -> Result<(), Error> {
        check_name(&self.name)?;
        in_range("mode", self.mode.into(), 0, MODE_MAX.into())?;
        self.mtime.check()?;
        self.ctime.check()?;
        check_inode_flags(self.inode_flags, &self.kind)?;
        check_xattrs(&self.xattrs)?;
        self.kind.check()
    }
}

fn check_inode_flags(flags: InodeFlags, kind: &EntryKind) -> Result<(), Error> {
    match flags.is_empty() || kind.may_have_inode_flags() {
        true => Ok(()),
        // Another kind has none that could be set.
        false => Err(Error::Unknown {
            field: "inode flags",
            found: flags.bits().into(),
        }),
    }
}

fn read_xattrs(reader: &mut Reader<'_>) -> Result<Vec<Xattr>, Error> {
    let count = reader.count("extended attributes", ENTRY_BYTES_MAX as u64, 2)?;
    let mut xattrs: Vec<Xattr> = Vec::new();
    for position in 0..count {
        let name = reader.bytes("name of an extended attribute", ENTRY_BYTES_MAX)?;
        // Here and not at the end: thousands of empty ones in a small entry would take memory first.
        if xattrs.last().is_some_and(|(before, _)| before.as_slice() >= name) {
            return Err(Error::Unordered {
                field: "extended attributes",
                position: position as u64,
            });
        }
        let value = reader.bytes("value of an extended attribute", ENTRY_BYTES_MAX)?;
        xattrs.push((name.to_vec(), value.to_vec()));
    }
    Ok(xattrs)
}

fn check_xattrs(xattrs: &[Xattr]) -> Result<(), Error> {
    match xattrs.windows(2).position(|pair| pair[0].0 >= pair[1].0) {
        None => Ok(()),
        Some(position) => Err(Error::Unordered {
            field: "extended attributes",
            position: position as u64 + 1,
        }),
    }
}

/// Whether a directory entry can have this name: 1 to 255 bytes, neither `.` nor `..`, no slash and
/// no NUL. A restore joins names to paths, so this is what keeps it inside its target.
///
/// ```
/// use ibid_format::tree::check_name;
///
/// assert!(check_name(b"notes.txt").is_ok());
/// assert!(check_name(b"../../etc/passwd").is_err());
/// ```
///
/// # Errors
///
/// [`Error::Name`].
pub fn check_name(name: &[u8]) -> Result<(), Error> {
    let fault = |fault| Err(Error::Name { fault });
    match name {
        [] => fault(NameFault::Empty),
        b"." | b".." => fault(NameFault::Dots),
        _ if name.len() > NAME_BYTES_MAX => fault(NameFault::TooLong {
            found: name.len() as u64,
        }),
        _ => match name.iter().position(|byte| matches!(byte, b'/' | 0)) {
            None => Ok(()),
            Some(position) if name[position] == b'/' => fault(NameFault::Slash {
                position: position as u64,
            }),
            Some(position) => fault(NameFault::Nul {
                position: position as u64,
            }),
        },
    }
}
