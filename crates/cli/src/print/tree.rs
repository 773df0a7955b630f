//! Prints `ls`.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ibid_format::tree::{EntryKind, TreeEntry};
use ibid_repo::{Result, SnapshotInfo};
use ibid_terminal::json::JsonPath;
use ibid_terminal::number::size;
use ibid_terminal::{escape, path_text};
use serde::Serialize;

use super::json::{JsonEntry, JsonSnapshot};
use super::time::local;
use super::{About, Out, json};

#[derive(Serialize)]
struct JsonListed {
    #[serde(flatten)]
    path: JsonPath,
    #[serde(flatten)]
    entry: JsonEntry,
}

#[derive(Serialize)]
struct JsonEnd {
    entries: u64,
}

/// What `ls` shows of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// Attributes, too.
    pub(crate) long: bool,
    /// Its path as it is, and a NUL byte.
    pub(crate) null: bool,
}

/// Prints `ls`.
pub(crate) struct LsPrinter<'a> {
    out: &'a mut Out,
    info: &'a SnapshotInfo,
    format: Format,
    entries: u64,
}

impl<'a> LsPrinter<'a> {
    pub(crate) fn begin(
        out: &'a mut Out,
        about: About,
        info: &'a SnapshotInfo,
        format: Format,
    ) -> Result<LsPrinter<'a>> {
        if out.json {
            out.begin("ls", about)?;
            out.item("snapshot", JsonSnapshot::new(info))?;
        }
        Ok(LsPrinter {
            out,
            info,
            format,
            entries: 0,
        })
    }

    pub(crate) fn entry(&mut self, path: &Path, entry: &TreeEntry) -> Result<()> {
        self.entries += 1;
        if self.out.json {
            let path = from_root(path);
            return self.out.item(
                "entry",
                JsonListed {
                    path,
                    entry: JsonEntry::new(entry),
                },
            );
        }
        if self.format.null {
            return self.out.null_path(path);
        }
        let name = shown(path, entry);
        if !self.format.long {
            return self.out.line(name);
        }
        let owner = |names: &[(u32, Vec<u8>)], id: u32| match names.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(at) => escape(&names[at].1),
            Err(_) => id.to_string(),
        };
        let (user, group) = (
            owner(&self.info.snapshot.users, entry.uid),
            owner(&self.info.snapshot.groups, entry.gid),
        );
        let size = match &entry.kind {
            EntryKind::CharDevice { major, minor } | EntryKind::BlockDevice { major, minor } => {
                format!("{major}, {minor}")
            }
            _ => json::size(entry).map_or_else(|| "-".to_owned(), size),
        };
        let target = match &entry.kind {
            EntryKind::Symlink(target) => format!(" -> {}", escape(target)),
            _ => String::new(),
        };
        let flaw = if entry.changed_while_read {
            "  (changed while it was read)"
        } else {
            ""
        };
        let flags = match entry.inode_flags {
            flags if flags.is_empty() => String::new(),
            flags => format!("  (chattr +{flags})"),
        };
        self.out.line(format!(
            "{}  {user:<8} {group:<8} {size:>10}  {}  {name}{target}{flags}{flaw}",
            mode(entry),
            local(entry.mtime)
        ))
    }

    pub(crate) fn end(self) -> Result<()> {
        if self.out.json {
            self.out.item("end", JsonEnd { entries: self.entries })
        } else {
            Ok(())
        }
    }
}

/// Returns a path in a snapshot, from the root on, for JSON.
pub(super) fn from_root(path: &Path) -> JsonPath {
    JsonPath::new(&[b"/", path.as_os_str().as_bytes()].concat())
}

/// Returns a path in a snapshot, from the root on, with a slash after folders.
pub(super) fn shown(path: &Path, entry: &TreeEntry) -> String {
    format!("/{}", relative(path, entry))
}

/// Returns a path as it is, with a slash after folders.
pub(super) fn relative(path: &Path, entry: &TreeEntry) -> String {
    let slash = if matches!(entry.kind, EntryKind::Directory(_)) {
        "/"
    } else {
        ""
    };
    format!("{}{slash}", path_text(path))
}

/// Returns a mode as `ls` shows it: `drwxr-xr-x`.
pub(super) fn mode(entry: &TreeEntry) -> String {
    let kind = match entry.kind {
        EntryKind::File(_) => '-',
        EntryKind::Directory(_) => 'd',
        EntryKind::Symlink(_) => 'l',
        EntryKind::Fifo => 'p',
        EntryKind::Socket => 's',
        EntryKind::CharDevice { .. } => 'c',
        EntryKind::BlockDevice { .. } => 'b',
    };
    let mut text = String::from(kind);
    // setuid belongs to the user, setgid to the group, sticky to others.
    for (shift, special, mark) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = entry.mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, entry.mode & special != 0) {
            (true, true) => mark,
            (false, true) => mark.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_look_as_ls_shows_them() {
        let expected = [
            (0o755, "srwxr-xr-x"),
            (0o4755, "srwsr-xr-x"),
            (0o6640, "srwSr-S---"),
            (0o1777, "srwxrwxrwt"),
            (0o1770, "srwxrwx--T"),
        ];
        for (bits, text) in expected {
            let entry = TreeEntry {
                name: b"x".to_vec(),
                kind: EntryKind::Socket,
                mode: bits,
                uid: 0,
                gid: 0,
                mtime: Default::default(),
                ctime: Default::default(),
                inode: 1,
                changed_while_read: false,
                hard_link_device: None,
                inode_flags: Default::default(),
                xattrs: Vec::new(),
            };
            assert_eq!(mode(&entry), text);
        }
    }
}
