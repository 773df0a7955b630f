//! Whether a backup found what its parent has: [`BackupOptions::skip_if_unchanged`].
//!
//! The folders on the way to the paths that were backed up are in the tree, too. Their own attributes
//! do not count: the mtime of `/tmp` says nothing about `/tmp/work`.
//!
//! [`BackupOptions::skip_if_unchanged`]: super::BackupOptions#structfield.skip_if_unchanged

use std::collections::HashSet;

use ibid_format::content::Content;
use ibid_format::snapshot::Snapshot;
use ibid_format::tree::{EntryKind, Time, TreeEntry};

use super::build::Built;
use crate::read::ChunkReader;
use crate::tree::Entries;
use crate::{Repository, Result};

impl Repository {
    /// Returns whether the tree of a backup of `paths` is the same as that of its parent. The chunks of
    /// both must be in the repository.
    pub(super) fn is_unchanged(&self, parent: &Snapshot, built: &Built, paths: &[Vec<u8>]) -> Result<bool> {
        if (&parent.users, &parent.groups) != (&built.users, &built.groups) {
            return Ok(false);
        }
        if parent.root == built.root {
            return Ok(true);
        }
        let reader = self.tree_reader()?;
        let leading = leading(paths);
        same(&reader, &parent.root, &built.root, &leading)
    }
}

/// Returns the folders that are in the tree only because a path leads through them.
fn leading(paths: &[Vec<u8>]) -> HashSet<&[u8]> {
    let named: HashSet<&[u8]> = paths.iter().map(Vec::as_slice).collect();
    let mut leading = HashSet::new();
    if named.contains(&b"/"[..]) {
        return leading;
    }
    for path in paths {
        let slashes = path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
        // From the root on: what is in a folder that was named itself is not on the way to anything.
        for above in slashes
            .map(|(at, _)| &path[..at])
            .take_while(|above| !named.contains(above))
        {
            leading.insert(above);
        }
    }
    leading
}

/// A pair of listings of the same folder that are compared.
struct Level<'r> {
    old: Entries<'r>,
    new: Entries<'r>,
    /// Length of the folder's path, bytes.
    path_length: usize,
}

impl<'r> Level<'r> {
    fn new(reader: &'r ChunkReader<'r>, old: &Content, new: &Content, path_length: usize) -> Level<'r> {
        Level {
            old: Entries::new(reader, old),
            new: Entries::new(reader, new),
            path_length,
        }
    }
}

/// Returns whether two trees have the same entries, but for attributes of `leading` folders.
fn same(reader: &ChunkReader<'_>, old: &Content, new: &Content, leading: &HashSet<&[u8]>) -> Result<bool> {
    let mut path = Vec::new();
    let mut levels = vec![Level::new(reader, old, new, 0)];
    while let Some(top) = levels.last_mut() {
        path.truncate(top.path_length);
        let (before, entry) = match (top.old.next().transpose()?, top.new.next().transpose()?) {
            (Some(before), Some(entry)) if before == entry => continue,
            (Some(before), Some(entry)) if before.name == entry.name => (before, entry),
            (None, None) => {
                levels.pop();
                continue;
            }
            _ => return Ok(false),
        };
        path.push(b'/');
        path.extend_from_slice(&entry.name);
        if !leading.contains(path.as_slice()) && !is_same_apart_from_listing(&before, &entry) {
            return Ok(false);
        }
        match (&before.kind, &entry.kind) {
            (EntryKind::Directory(old), EntryKind::Directory(new)) if old != new => {
                levels.push(Level::new(reader, old, new, path.len()));
            }
            (EntryKind::Directory(_), EntryKind::Directory(_)) => {}
            (before, entry) if before == entry => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Returns whether two entries have the same attributes. A ctime of zero in the first says only that
/// the file had to be read again, and it was.
fn is_same_apart_from_listing(before: &TreeEntry, entry: &TreeEntry) -> bool {
    let TreeEntry {
        name,
        kind: _,
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
    } = entry;
    (
        &before.name,
        &before.mode,
        &before.uid,
        &before.gid,
        &before.mtime,
        &before.inode,
    ) == (name, mode, uid, gid, mtime, inode)
        && (before.ctime == *ctime || before.ctime == Time::default())
        && (&before.changed_while_read, &before.hard_link_device) == (changed_while_read, hard_link_device)
        && (&before.inode_flags, &before.xattrs) == (inode_flags, xattrs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_outside_of_what_was_named_are_on_the_way() {
        let paths = ["/home/me", "/home/me/deep/file", "/srv/a/b", "/x"].map(|path| path.as_bytes().to_vec());
        let mut found: Vec<_> = leading(&paths).into_iter().collect();
        found.sort_unstable();
        assert_eq!(found, [&b"/home"[..], b"/srv", b"/srv/a"]);
        assert!(
            leading(&[b"/".to_vec(), b"/home/me".to_vec()]).is_empty(),
            "all of it was named"
        );
    }
}
