//! What is left out of a backup.

use crate::{Error, Result};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::path::{Path, PathBuf};

/// What to leave out, as asked for.
#[derive(Clone, Debug, Default)]
pub struct Excludes {
    /// Patterns as in `.gitignore`, relative to `/`: `*.o` and `target/` match at any depth, `/home/*/cache` only there, `!keep.o` takes back.
    pub patterns: Vec<String>,
    /// Files of such patterns, one a line. They come before [`patterns`](Excludes::patterns), which can take back what they exclude.
    pub files: Vec<PathBuf>,
    /// Leave out what lies in folders with a valid `CACHEDIR.TAG` (the folder and the tag are kept).
    pub caches: bool,
    /// Leave out files larger than this, bytes.
    pub larger_than: Option<u64>,
    /// Do not descend into other file systems.
    pub one_file_system: bool,
}

/// The excludes, ready to be asked.
pub(crate) struct Filter {
    patterns: Gitignore,
    pub(crate) caches: bool,
    pub(crate) larger_than: Option<u64>,
    pub(crate) one_file_system: bool,
}

impl Filter {
    pub(crate) fn new(excludes: &Excludes) -> Result<Filter> {
        let mut builder = GitignoreBuilder::new("/");
        for file in &excludes.files {
            let text = std::fs::read_to_string(file).map_err(|source| Error::local("read", file, source))?;
            for line in text.lines() {
                add(&mut builder, line)?;
            }
        }
        for pattern in &excludes.patterns {
            add(&mut builder, pattern)?;
        }
        let patterns = builder.build().map_err(|error| Error::BadPattern {
            pattern: String::new(),
            reason: error.to_string(),
        })?;
        Ok(Filter {
            patterns,
            caches: excludes.caches,
            larger_than: excludes.larger_than,
            one_file_system: excludes.one_file_system,
        })
    }

    /// Whether a pattern leaves out the file at `path` (absolute).
    pub(crate) fn leaves_out(&self, path: &Path, is_directory: bool) -> bool {
        !self.patterns.is_empty() && matches!(self.patterns.matched(path, is_directory), Match::Ignore(_))
    }
}

fn add(builder: &mut GitignoreBuilder, pattern: &str) -> Result<()> {
    let added = builder.add_line(None, pattern);
    added.map(|_| ()).map_err(|error| Error::BadPattern {
        pattern: pattern.to_owned(),
        reason: error.to_string(),
    })
}
