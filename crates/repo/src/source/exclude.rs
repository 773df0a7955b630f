//! Exclude rules of a backup.

use std::path::{Path, PathBuf};

use crate::options::setters;
use crate::pattern::PatternsBuilder;
use crate::{Patterns, Result};

/// Exclude rules, as requested.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Excludes {
    /// [`Patterns`]: `*.o`, `target/` and `me/cache` match at any depth, `/home/*/cache` only from
    /// the root, and `!keep.o` includes again.
    pub patterns: Vec<String>,
    /// Files of patterns, one per line. They come before [`patterns`](Excludes::patterns), which
    /// can include again what they exclude.
    pub files: Vec<PathBuf>,
    /// Leave out the contents of directories with a valid `CACHEDIR.TAG`; the directory and the tag
    /// are kept.
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

/// Exclude rules, compiled.
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
            patterns: builder.build(),
            caches: excludes.caches,
            larger_than: excludes.larger_than,
            one_file_system: excludes.one_file_system,
        })
    }

    /// Returns the memory that the rules take, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.patterns.bytes() as u64
    }

    /// Returns whether a pattern excludes the file at the absolute `path`.
    pub(crate) fn leaves_out(&self, path: &Path, is_directory: bool) -> bool {
        self.patterns.matches(path, is_directory)
    }
}
