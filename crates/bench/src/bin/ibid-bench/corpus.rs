//! Versions of one file or folder.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};

use crate::files;

/// A corpus: its name and its versions, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Corpus {
    pub(crate) name: String,
    pub(crate) versions: Vec<Version>,
}

/// One version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    /// The name of its file or folder.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Bytes of the file, or of all files in the folder.
    pub(crate) bytes: u64,
}

impl Corpus {
    /// Returns the bytes of all versions.
    pub(crate) fn bytes(&self) -> u64 {
        self.versions.iter().map(|version| version.bytes).sum()
    }
}

impl FromStr for Corpus {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Corpus> {
        let (name, folder) = text
            .split_once('=')
            .with_context(|| format!("expected NAME=DIR, found {text:?}"))?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        ensure!(
            !name.is_empty() && name.chars().all(plain),
            "a corpus is named by letters, digits, - and _, not {name:?}"
        );
        let mut versions = Vec::new();
        for entry in std::fs::read_dir(folder).with_context(|| format!("reading the folder {folder}"))? {
            let entry = entry?;
            let file = entry.file_name().to_string_lossy().into_owned();
            // Symlinks are followed.
            let metadata = std::fs::metadata(entry.path())?;
            if file.starts_with('v') && (metadata.is_file() || metadata.is_dir()) {
                let bytes = if metadata.is_dir() {
                    files::folder_bytes(&entry.path())?
                } else {
                    metadata.len()
                };
                versions.push(Version {
                    name: file,
                    path: entry.path(),
                    bytes,
                });
            }
        }
        ensure!(
            !versions.is_empty(),
            "no file or folder in {folder} has a name that begins with v"
        );
        let folders = versions.iter().filter(|version| version.path.is_dir()).count();
        ensure!(
            folders == 0 || folders == versions.len(),
            "of the versions in {folder}, some are files and some are folders"
        );
        versions.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Corpus {
            name: name.to_owned(),
            versions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_files_that_begin_with_v_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in [("v10.tar", 3), ("v02.tar", 2), ("MANIFEST", 1)] {
            std::fs::write(folder.path().join(name), vec![0; bytes]).unwrap();
        }
        std::fs::create_dir(folder.path().join("other")).unwrap();
        let corpus: Corpus = format!("lnx={}", folder.path().display()).parse().unwrap();
        let names: Vec<_> = corpus.versions.iter().map(|version| version.name.as_str()).collect();
        assert_eq!((corpus.name.as_str(), names), ("lnx", vec!["v02.tar", "v10.tar"]));
        assert_eq!(corpus.bytes(), 5);
    }

    #[test]
    fn versions_can_be_folders_but_not_both() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["v2/top", "v1/top", "v1/more"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("file"), b"abc").unwrap();
        }
        let text = format!("tree={}", folder.path().display());
        let corpus: Corpus = text.parse().unwrap();
        let bytes: Vec<_> = corpus.versions.iter().map(|version| version.bytes).collect();
        assert_eq!(bytes, [6, 3]);
        std::fs::write(folder.path().join("v3"), b"abc").unwrap();
        assert!(text.parse::<Corpus>().is_err());
    }

    #[test]
    fn folders_without_versions_are_refused() {
        let empty = tempfile::tempdir().unwrap();
        for text in ["lnx", "=.", "../a=.", "lnx=/no/such/folder"] {
            assert!(text.parse::<Corpus>().is_err(), "{text}");
        }
        assert!(format!("a={}", empty.path().display()).parse::<Corpus>().is_err());
    }
}
