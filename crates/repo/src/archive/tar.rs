//! Tar archives as POSIX.1-2001 has them: ustar headers, and pax records for what does not fit.
//!
//! Extended attributes are records `SCHILY.xattr.NAME`, as GNU tar, bsdtar and star write and read
//! them. With these records, `tar --xattrs --xattrs-include='*' -xpf` gives all that a restore gives, but for inode
//! flags: these are in a record `SCHILY.fflags`, which bsdtar writes and reads, and GNU tar ignores.

use std::io::{Result as IoResult, Write};

use ibid_format::snapshot::Snapshot;
use ibid_format::tree::{EntryKind, InodeFlags, Time, TreeEntry};
use tar::{Builder, EntryType, Header};

use super::contents::Contents;
use super::{Unwritten, owner_name, with_slash};

/// Largest number in the fields of an owner.
const OWNER_MAX: u32 = 0o777_7777;
/// Largest number in the fields of a size and of a time.
const SIZE_MAX: u64 = 0o777_7777_7777;

pub(super) struct TarWriter<'a>(Builder<Gate<'a>>);

/// The output. The builder writes the end of the archive when it is dropped, which must not happen to
/// an archive that is not complete: only [`finish`](TarWriter::finish) lets that pass.
struct Gate<'a> {
    out: &'a mut dyn Write,
    is_open: bool,
}

impl Write for Gate<'_> {
    fn write(&mut self, buffer: &[u8]) -> IoResult<usize> {
        match self.is_open {
            true => self.out.write(buffer),
            false => Ok(buffer.len()),
        }
    }

    fn flush(&mut self) -> IoResult<()> {
        self.out.flush()
    }
}

/// Keys and values of pax records.
#[derive(Default)]
struct Records(Vec<(String, Vec<u8>)>);

impl Records {
    fn add(&mut self, key: impl Into<String>, value: impl Into<Vec<u8>>) {
        self.0.push((key.into(), value.into()));
    }

    /// Adds a name. Those that are not text need a record that says so, before the first of them.
    fn add_name(&mut self, key: &str, name: &[u8]) {
        if std::str::from_utf8(name).is_err() && !self.0.iter().any(|(key, _)| key == "hdrcharset") {
            self.add("hdrcharset", "BINARY");
        }
        self.add(key, name);
    }
}

impl<'a> TarWriter<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> TarWriter<'a> {
        TarWriter(Builder::new(Gate { out, is_open: false }))
    }

    /// Writes an entry; one with a `first` name as a hard link to that.
    pub(super) fn add(
        &mut self,
        name: &[u8],
        entry: &TreeEntry,
        snapshot: &Snapshot,
        first: Option<&[u8]>,
        contents: Option<&mut Contents<'_>>,
    ) -> Result<(), Unwritten> {
        let mut header = Header::new_ustar();
        let mut records = Records::default();
        let contents = contents.filter(|_| first.is_none());
        header.set_entry_type(entry_type(entry, first.is_some())?);
        name_field(
            &mut header.as_old_mut().name,
            "path",
            &with_slash(name, entry),
            &mut records,
        );
        let target = match (&entry.kind, first) {
            (_, Some(first)) => first,
            (EntryKind::Symlink(target), None) => target,
            _ => b"",
        };
        name_field(&mut header.as_old_mut().linkname, "linkpath", target, &mut records);
        header.set_mode(entry.mode);
        owners(&mut header, entry, snapshot, &mut records)?;
        let size = contents.as_ref().map_or(0, |contents| contents.length);
        header.set_size(size.min(SIZE_MAX));
        if size > SIZE_MAX {
            records.add("size", size.to_string());
        }
        header.set_mtime((entry.mtime.seconds.max(0) as u64).min(SIZE_MAX));
        if entry.mtime.nanos > 0 || !(0..=SIZE_MAX as i64).contains(&entry.mtime.seconds) {
            records.add("mtime", decimal(entry.mtime));
        }
        if let EntryKind::CharDevice { major, minor } | EntryKind::BlockDevice { major, minor } = entry.kind {
            header.set_device_major(major)?;
            header.set_device_minor(minor)?;
        }
        if first.is_none() {
            let flags = flag_names(entry.inode_flags);
            if !flags.is_empty() {
                records.add("SCHILY.fflags", flags);
            }
            for (name, value) in &entry.xattrs {
                records.add(xattr_key(name)?, value.clone());
            }
        }
        header.set_cksum();
        let Self(builder) = self;
        builder.get_mut().is_open = true;
        let records = records.0.iter().map(|(key, value)| (key.as_str(), value.as_slice()));
        let written = builder.append_pax_extensions(records).and_then(|()| match contents {
            Some(contents) => builder.append(&header, contents),
            None => builder.append(&header, std::io::empty()),
        });
        builder.get_mut().is_open = false;
        Ok(written?)
    }

    /// Writes the end of the archive.
    pub(super) fn finish(mut self) -> IoResult<()> {
        self.0.get_mut().is_open = true;
        self.0.finish()
    }
}

fn entry_type(entry: &TreeEntry, is_link: bool) -> Result<EntryType, Unwritten> {
    Ok(match entry.kind {
        _ if is_link => EntryType::Link,
        EntryKind::File(_) => EntryType::Regular,
        EntryKind::Directory(_) => EntryType::Directory,
        EntryKind::Symlink(_) => EntryType::Symlink,
        EntryKind::Fifo => EntryType::Fifo,
        EntryKind::CharDevice { .. } => EntryType::Char,
        EntryKind::BlockDevice { .. } => EntryType::Block,
        EntryKind::Socket => return Err(Unwritten::NoForm("tar has no sockets")),
    })
}

/// Writes a name into a field of a header, and into a record if it is longer than the field.
fn name_field(field: &mut [u8; 100], key: &str, name: &[u8], records: &mut Records) {
    let length = name.len().min(field.len());
    field[..length].copy_from_slice(&name[..length]);
    if name.len() > field.len() {
        records.add_name(key, name);
    }
}

fn owners(header: &mut Header, entry: &TreeEntry, snapshot: &Snapshot, records: &mut Records) -> IoResult<()> {
    header.set_uid(entry.uid.min(OWNER_MAX).into());
    header.set_gid(entry.gid.min(OWNER_MAX).into());
    for (key, id) in [("uid", entry.uid), ("gid", entry.gid)] {
        if id > OWNER_MAX {
            records.add(key, id.to_string());
        }
    }
    let user = owner_name(&snapshot.users, entry.uid).unwrap_or_default();
    let group = owner_name(&snapshot.groups, entry.gid).unwrap_or_default();
    // The last byte of these fields is zero.
    match std::str::from_utf8(user) {
        Ok(name) if name.len() < 32 => header.set_username(name)?,
        _ => records.add_name("uname", user),
    }
    match std::str::from_utf8(group) {
        Ok(name) if name.len() < 32 => header.set_groupname(name)?,
        _ => records.add_name("gname", group),
    }
    Ok(())
}

/// Returns the names that bsdtar has for inode flags. It has none for `x` and `m`.
fn flag_names(flags: InodeFlags) -> String {
    const NAMES: [(char, &str); 13] = [
        ('s', "secdel"),
        ('u', "undel"),
        ('S', "sync"),
        ('D', "dirsync"),
        ('i', "schg"),
        ('a', "sappnd"),
        ('d', "nodump"),
        ('A', "noatime"),
        ('c', "compress"),
        ('j', "journal-data"),
        ('t', "notail"),
        ('T', "topdir"),
        ('C', "nocow"),
    ];
    let name = |letter| NAMES.iter().find(|(other, _)| *other == letter).map(|(_, name)| *name);
    let names: Vec<&str> = flags.each().filter_map(|(letter, _)| name(letter)).collect();
    names.join(",")
}

/// Returns the key of an extended attribute. A key ends at the first `=`, so GNU tar and this module
/// write that, and `%`, as `%3D` and `%25`.
fn xattr_key(name: &[u8]) -> Result<String, Unwritten> {
    let name = std::str::from_utf8(name)
        .map_err(|_| Unwritten::NoForm("the name of an extended attribute is not UTF-8, and tar has no others"))?;
    Ok(format!("SCHILY.xattr.{}", name.replace('%', "%25").replace('=', "%3D")))
}

/// Returns a time in seconds, as a decimal number: `-0.5` is half a second before 1970.
fn decimal(time: Time) -> String {
    let nanos = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    let sign = if nanos < 0 { "-" } else { "" };
    let (seconds, fraction) = (
        nanos.unsigned_abs() / 1_000_000_000,
        nanos.unsigned_abs() % 1_000_000_000,
    );
    let text = format!("{sign}{seconds}.{fraction:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inode_flags_have_the_names_of_bsdtar() {
        assert_eq!(flag_names(InodeFlags::of(0x50)), "schg,nodump");
        let all = flag_names(InodeFlags::ALL);
        assert_eq!(all.split(',').count(), InodeFlags::ALL.each().count() - 2, "{all}");
        assert_eq!(flag_names(InodeFlags::default()), "");
    }

    #[test]
    fn times_are_decimal_numbers_before_1970_too() {
        for (seconds, nanos, text) in [
            (0, 0, "0"),
            (1, 500_000_000, "1.5"),
            (-1, 500_000_000, "-0.5"),
            (-2, 0, "-2"),
            (-2, 999_999_999, "-1.000000001"),
            (10, 0, "10"),
            (i64::MAX, 1, "9223372036854775807.000000001"),
        ] {
            assert_eq!(decimal(Time { seconds, nanos }), text);
        }
    }
}
