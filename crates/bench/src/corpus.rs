//! Versions of one file.

use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::str::FromStr;

/// A name and the versions, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Corpus {
    pub(crate) name: String,
    pub(crate) versions: Vec<Version>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    /// The name of its file.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

impl Corpus {
    /// Bytes of all versions.
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
            // Of what a link points to.
            let metadata = std::fs::metadata(entry.path())?;
            if file.starts_with('v') && metadata.is_file() {
                versions.push(Version {
                    name: file,
                    path: entry.path(),
                    bytes: metadata.len(),
                });
            }
        }
        ensure!(
            !versions.is_empty(),
            "no file in {folder} has a name that begins with v"
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
        std::fs::create_dir(folder.path().join("v03")).unwrap();
        let corpus: Corpus = format!("lnx={}", folder.path().display()).parse().unwrap();
        let names: Vec<_> = corpus.versions.iter().map(|version| version.name.as_str()).collect();
        assert_eq!((corpus.name.as_str(), names), ("lnx", vec!["v02.tar", "v10.tar"]));
        assert_eq!(corpus.bytes(), 5);
    }

    #[test]
    fn what_is_no_corpus_is_refused() {
        let empty = tempfile::tempdir().unwrap();
        for text in ["lnx", "=.", "../a=.", "lnx=/no/such/folder"] {
            assert!(text.parse::<Corpus>().is_err(), "{text}");
        }
        assert!(format!("a={}", empty.path().display()).parse::<Corpus>().is_err());
    }
}
