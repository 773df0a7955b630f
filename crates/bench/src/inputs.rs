//! The files to measure.

use std::path::{Path, PathBuf};

use crate::{Error, Observer, Result};

/// Regular files, in the order in which they are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) files: Vec<Input>,
    /// Bytes of all of them when they were listed.
    pub(crate) bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    /// Whether the user named it, so that it must exist; otherwise it was found in a folder.
    pub(crate) is_named: bool,
}

impl Inputs {
    /// Lists the files that are named, and all regular files in the folders that are named. Below
    /// these folders, symlinks are not followed, and entries are listed in the order of their
    /// names, in which `v2` comes before `v10`. Entries that can't be read are reported to the
    /// observer and left out.
    pub(crate) fn list(paths: &[PathBuf], observer: &mut impl Observer) -> Result<Inputs> {
        let mut inputs = Inputs::default();
        for path in paths {
            // Follows a symlink, because it was named.
            let metadata = std::fs::metadata(path).map_err(Error::file("read", path))?;
            if metadata.is_dir() {
                let entries = sorted(path).map_err(Error::file("list", path))?;
                inputs.take(entries, observer);
            } else {
                inputs.push(path.clone(), true, metadata.len());
            }
        }
        match inputs.bytes {
            0 => Err(Error::OutOfRange {
                what: "bytes to measure with",
                expected: "files that are not empty".into(),
                found: "none".into(),
            }),
            _ => Ok(inputs),
        }
    }

    fn push(&mut self, path: PathBuf, is_named: bool, bytes: u64) {
        self.bytes += bytes;
        self.files.push(Input { path, is_named });
    }

    fn take(&mut self, entries: Vec<PathBuf>, observer: &mut impl Observer) {
        // The entries that are still to be listed, the next one last.
        let mut waiting: Vec<PathBuf> = entries.into_iter().rev().collect();
        while let Some(path) = waiting.pop() {
            let looked = path.symlink_metadata().and_then(|metadata| {
                if metadata.is_dir() {
                    waiting.extend(sorted(&path)?.into_iter().rev());
                } else if metadata.is_file() {
                    self.push(path.clone(), false, metadata.len());
                }
                Ok(())
            });
            if let Err(error) = looked {
                observer.problem(&path, &error);
            }
        }
    }
}

fn sorted(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut entries = entries.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by(|a, b| {
        let [a, b] = [a, b].map(|path| path.as_os_str().as_encoded_bytes());
        parts(a).cmp(parts(b)).then_with(|| a.cmp(b))
    });
    Ok(entries)
}

/// A part of a name: a number, in digits and without zeros in front, or a byte that is no digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NamePart<'a> {
    /// Ordered by the number of digits, then by the digits.
    Number(usize, &'a [u8]),
    Byte(u8),
}

/// Returns the parts by which names are sorted, so that versions come in order whatever the number
/// of digits.
fn parts(name: &[u8]) -> impl Iterator<Item = NamePart<'_>> {
    let mut rest = name;
    std::iter::from_fn(move || {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (part, after) = rest.split_at_checked(digits.max(1))?;
        rest = after;
        if digits == 0 {
            return Some(NamePart::Byte(part[0]));
        }
        let zeros = part.iter().take_while(|byte| **byte == b'0').count();
        Some(NamePart::Number(digits - zeros, &part[zeros..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_in_their_order_whatever_their_digits() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "a10b",
            "a2",
            "a2b",
            "a02",
            "b",
            "10",
            "9",
            "a",
            "a100000000000000000000000",
            "é",
        ];
        for name in names {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let sorted = sorted(folder.path()).unwrap();
        let found: Vec<&str> = sorted
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap())
            .collect();
        let expected = [
            "9",
            "10",
            "a",
            "a02",
            "a2",
            "a2b",
            "a10b",
            "a100000000000000000000000",
            "b",
            "é",
        ];
        assert_eq!(found, expected);
    }
}
