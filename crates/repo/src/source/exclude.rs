//! What is left out of a backup.

use std::path::{Path, PathBuf};

use crate::options::setters;
use crate::pattern::PatternsBuilder;
use crate::{Patterns, Result};

/// What to leave out, as asked for.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Excludes {
    /// [`Patterns`]: `*.o`, `target/` and `me/cache` match at any depth, `/home/*/cache` only there,
    /// and `!keep.o` takes back.
    pub patterns: Vec<String>,
    /// Files of such patterns, one a line. They come before [`patterns`](Excludes::patterns), which
    /// can take back what they exclude.
    pub files: Vec<PathBuf>,
    /// Leave out what lies in folders with a valid `CACHEDIR.TAG` (the folder and the tag are
    /// kept).
    pub caches: bool,
    /// Leave out files larger than this, bytes.
    pub larger_than: Option<u64>,
    /// Do not descend into other file systems.
    pub one_file_system: bool,
}

setters!(Excludes {
    caches: bool,
    larger_than: Option<u64>,
    one_file_system: bool,
} into {
    patterns: Vec<String>,
    files: Vec<PathBuf>,
});

/// The excludes, ready to be asked.
pub(crate) struct Filter {
    patterns: Patterns,
    pub(crate) caches: bool,
    pub(crate) larger_than: Option<u64>,
    pub(crate) one_file_system: bool,
}

impl Filter {
    pub(crate) fn new(excludes: &Excludes) -> Result<Filter> {
        let mut builder = PatternsBuilder::new(false);
        for file in &excludes.files {
            builder.add_file(file)?;
        }
        for pattern in &excludes.patterns {
            builder.add(pattern)?;
        }
        Ok(Filter {
            patterns: builder.build()?,
            caches: excludes.caches,
            larger_than: excludes.larger_than,
            one_file_system: excludes.one_file_system,
        })
    }

    /// Whether a pattern leaves out the file at `path` (absolute).
    pub(crate) fn leaves_out(&self, path: &Path, is_directory: bool) -> bool {
        self.patterns.matches(path, is_directory)
    }
}
