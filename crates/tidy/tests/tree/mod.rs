//! The files of this source tree.

use std::fs;
use std::path::{Path, PathBuf};

/// A text file.
pub(crate) struct File {
    /// From the root of the tree.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the files whose paths are wanted, in order, without those that a build makes.
pub(crate) fn files(wanted: impl Fn(&str) -> bool) -> Vec<File> {
    let mut files = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the tree") {
            let entry = entry.expect("an entry of a folder");
            let name = entry.file_name().into_string().expect("a name in UTF-8");
            let kind = entry.file_type().expect("the type of an entry");
            let path = entry.path().strip_prefix(root()).expect("inside the tree").to_owned();
            let path = path.to_string_lossy().into_owned();
            if kind.is_dir() && name != ".git" && !name.starts_with("target") {
                folders.push(entry.path());
            } else if kind.is_file() && wanted(&path) {
                let text = fs::read(entry.path()).expect("a file of the tree");
                let text = String::from_utf8_lossy(&text).into_owned();
                files.push(File { path, text });
            }
        }
    }
    assert!(!files.is_empty(), "no file was looked at");
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Fails with every complaint if there is one.
pub(crate) fn complain(complaints: impl IntoIterator<Item = String>) {
    let complaints: Vec<String> = complaints.into_iter().collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
