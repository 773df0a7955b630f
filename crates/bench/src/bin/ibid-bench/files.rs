//! Operations on files and folders: copying, summing, comparing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};

/// What the operating system counts occupied space in, whatever the file system's blocks are.
const BLOCK_BYTES: u64 = 512;

/// An entry below a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    File,
    Folder,
    Link,
}

/// Returns all entries below a folder, in the order of the paths, which begin with the folder.
fn entries(folder: &Path) -> Result<Vec<(PathBuf, Entry)>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("reading the folder {}", folder.display()))? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                folders.push(path.clone());
                found.push((path, Entry::Folder));
            } else if kind.is_file() {
                found.push((path, Entry::File));
            } else if kind.is_symlink() {
                found.push((path, Entry::Link));
            } else {
                bail!("{} is neither file nor folder nor link", path.display());
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// Returns the bytes of all files below a folder.
pub(crate) fn folder_bytes(folder: &Path) -> Result<u64> {
    let found = entries(folder)?;
    let of_files = found.iter().filter(|(_, kind)| *kind == Entry::File);
    of_files.map(|(path, _)| Ok(path.metadata()?.len())).sum()
}

/// Returns what all files below a folder take of the disk while a program is writing to them, bytes: without the holes
/// that some databases leave at the end of a file. What is removed meanwhile counts as nothing, and so do sockets.
pub(crate) fn occupied_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Some(inside) = if_there(std::fs::read_dir(&folder))? else {
            continue;
        };
        for entry in inside {
            let entry = entry?;
            match if_there(entry.metadata())? {
                Some(found) if found.is_dir() => folders.push(entry.path()),
                Some(found) if found.is_file() => bytes += BLOCK_BYTES * found.blocks(),
                Some(_) | None => {}
            }
        }
    }
    Ok(bytes)
}

fn if_there<T>(found: std::io::Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the number of files below a folder.
pub(crate) fn count(folder: &Path) -> Result<u64> {
    Ok(names(folder)?.len() as u64)
}

/// Returns the paths of all files below a folder, relative to it and in order.
pub(crate) fn names(folder: &Path) -> Result<Vec<PathBuf>> {
    let found = entries(folder)?;
    let of_files = found.iter().filter(|(_, kind)| *kind == Entry::File);
    of_files
        .map(|(path, _)| Ok(path.strip_prefix(folder)?.to_owned()))
        .collect()
}

/// What tells a file from a later one of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) bytes: u64,
    modified: SystemTime,
    inode: u64,
}

/// Returns the stamps of all files below a folder.
pub(crate) fn stamps(folder: &Path) -> Result<BTreeMap<PathBuf, Stamp>> {
    let stamp = |name: PathBuf| {
        let found = folder.join(&name).metadata()?;
        let stamp = Stamp {
            bytes: found.len(),
            modified: found.modified()?,
            inode: found.ino(),
        };
        Ok((name, stamp))
    };
    names(folder)?.into_iter().map(stamp).collect()
}

/// Removes a file, or a folder with its contents, if it exists.
pub(crate) fn remove(path: &Path) -> Result<()> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.with_context(|| format!("removing {}", path.display()))
}

/// Copies a file, or a folder with its contents; the copies have new times.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    let copy_file = |from: &Path, to: &Path| -> Result<()> {
        std::fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
        Ok(())
    };
    if !from.is_dir() {
        return copy_file(from, to);
    }
    std::fs::create_dir(to)?;
    for (path, kind) in entries(from)? {
        let target = to.join(path.strip_prefix(from)?);
        match kind {
            Entry::File => copy_file(&path, &target)?,
            Entry::Folder => std::fs::create_dir(&target)?,
            Entry::Link => std::os::unix::fs::symlink(std::fs::read_link(&path)?, &target)?,
        }
    }
    Ok(())
}

/// Fails unless `folder` has the same contents as `original`: one file with its bytes, or the
/// files, folders and links of a folder. Tools restore into folders named like the original's path;
/// these are ignored.
pub(crate) fn check_restored(folder: &Path, original: &Path) -> Result<()> {
    let found = entries(folder)?;
    if !original.is_dir() {
        let mut files = found.iter().filter(|(_, kind)| *kind != Entry::Folder);
        let (Some((file, Entry::File)), None) = (files.next(), files.next()) else {
            bail!("one file was to be restored");
        };
        return check_file(file, original);
    }
    let expected = entries(original)?;
    let root = restored_root(folder, &found, original, &expected)?;
    // Leaves out the root and the folders above it.
    let found: Vec<_> = found.iter().filter(|(path, _)| !root.starts_with(path)).collect();
    ensure!(
        found.len() == expected.len(),
        "{} files, folders and links were to be restored, found {}",
        expected.len(),
        found.len()
    );
    for ((path, kind), (original_path, original_kind)) in found.into_iter().zip(&expected) {
        let name = original_path.strip_prefix(original)?;
        ensure!(
            path.strip_prefix(&root).ok() == Some(name) && kind == original_kind,
            "{} was to be restored as {original_kind:?}, found {} as {kind:?}",
            name.display(),
            path.display()
        );
        match kind {
            Entry::File => check_file(path, original_path).with_context(|| name.display().to_string())?,
            Entry::Folder => {}
            Entry::Link => ensure!(
                std::fs::read_link(path)? == std::fs::read_link(original_path)?,
                "{} points to elsewhere",
                name.display()
            ),
        }
    }
    Ok(())
}

/// Returns the root of the restored folder, somewhere below `folder`: the folder that has the first
/// entry of the original, reached through folders that are alone in theirs.
fn restored_root(
    folder: &Path,
    found: &[(PathBuf, Entry)],
    original: &Path,
    expected: &[(PathBuf, Entry)],
) -> Result<PathBuf> {
    let (first, _) = expected.first().context("the original folder is empty")?;
    let name = first.strip_prefix(original)?;
    // Descends while there is only one folder that is not the first entry itself.
    let mut root = folder.to_owned();
    loop {
        if found.iter().any(|(path, _)| *path == root.join(name)) {
            return Ok(root);
        }
        let inside: Vec<_> = found.iter().filter(|(path, _)| path.parent() == Some(&root)).collect();
        match inside[..] {
            [(only, Entry::Folder)] => root.clone_from(only),
            _ => bail!("{} was not restored", name.display()),
        }
    }
}

/// Fails unless two files have the same bytes.
fn check_file(file: &Path, original: &Path) -> Result<()> {
    if let Some(at) = first_difference(file, original)? {
        bail!("the restored file differs from the original from byte {at} on");
    }
    Ok(())
}

/// Returns the offset of the first difference of two files; if one is longer, the end of the other.
fn first_difference(a: &Path, b: &Path) -> Result<Option<u64>> {
    // Small, because this program's memory is a lower limit of the memory that it measures of
    // others.
    const PIECE: u64 = 64 << 10;
    let open = |path: &Path| File::open(path).with_context(|| format!("opening {}", path.display()));
    let (mut a, mut b) = (open(a)?, open(b)?);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    let mut at = 0;
    loop {
        left.clear();
        right.clear();
        a.by_ref().take(PIECE).read_to_end(&mut left)?;
        b.by_ref().take(PIECE).read_to_end(&mut right)?;
        if left != right {
            let same = left.iter().zip(&right).take_while(|(x, y)| x == y).count();
            return Ok(Some(at + same as u64));
        }
        if left.is_empty() {
            return Ok(None);
        }
        at += left.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_summed_at_every_depth() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::fs::write(folder.path().join("one"), [0; 10]).unwrap();
        std::fs::write(folder.path().join("a/b/two"), [0; 32]).unwrap();
        assert_eq!(folder_bytes(folder.path()).unwrap(), 42);
        let occupied = occupied_bytes(folder.path()).unwrap();
        assert!((42..100_000).contains(&occupied), "{occupied}");
        assert_eq!(occupied_bytes(&folder.path().join("removed")).unwrap(), 0);
    }

    #[test]
    fn every_difference_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let original = folder.path().join("original");
        let restored = folder.path().join("restored");
        std::fs::create_dir(&restored).unwrap();
        let data: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(&original, &data).unwrap();
        let check = |bytes: &[u8]| {
            std::fs::write(restored.join("file"), bytes).unwrap();
            check_restored(&restored, &original).map_err(|error| error.to_string())
        };
        assert_eq!(check(&data), Ok(()));
        let mut other = data.clone();
        other[150_000] ^= 1;
        let differs = |at| Err(format!("the restored file differs from the original from byte {at} on"));
        assert_eq!(check(&other), differs(150_000));
        assert_eq!(check(&data[..131_072]), differs(131_072));
        assert_eq!(check(&[&data[..], b"x"].concat()), differs(200_000));
        std::fs::write(restored.join("another"), b"").unwrap();
        assert!(check(&data).is_err(), "two files");
    }
    #[test]
    fn folders_are_compared_whole() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("v1/top/empty")).unwrap();
        std::fs::write(at("v1/top/a"), b"one").unwrap();
        // As text, this name sorts between a folder and its contents.
        std::fs::write(at("v1/top.txt"), b"two").unwrap();
        std::os::unix::fs::symlink("a", at("v1/top/link")).unwrap();
        let restored = at("restored/home/current");
        let check = |change: &dyn Fn(&Path)| {
            remove(&at("restored")).unwrap();
            std::fs::create_dir_all(at("restored/home")).unwrap();
            copy(&at("v1"), &restored).unwrap();
            change(&restored);
            check_restored(&at("restored"), &at("v1")).is_ok()
        };
        assert!(check(&|_| {}));
        assert!(!check(&|root| std::fs::write(root.join("top/a"), b"0ne").unwrap()));
        assert!(!check(&|root| std::fs::write(root.join("top/b"), b"").unwrap()));
        assert!(!check(&|root| std::fs::remove_file(root.join("top.txt")).unwrap()));
        assert!(!check(&|root| std::fs::remove_dir(root.join("top/empty")).unwrap()));
        assert!(!check(&|root| remove(&root.join("top")).unwrap()));
        assert!(!check(&|root| {
            std::fs::remove_file(root.join("top/link")).unwrap();
            std::os::unix::fs::symlink("../top.txt", root.join("top/link")).unwrap();
        }));
        assert!(!check(&|root| {
            std::fs::remove_file(root.join("top/link")).unwrap();
            std::fs::write(root.join("top/link"), b"one").unwrap();
        }));
        // There is an extra file beside the restored ones.
        assert!(!check(&|root| std::fs::write(root.with_file_name("more"), b"").unwrap()));
        // The files are directly in the folder.
        assert!(check_restored(&at("v1"), &at("v1")).is_ok());
        assert_eq!(folder_bytes(&at("v1")).unwrap(), 6);
    }
}
