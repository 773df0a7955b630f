//! Exclude rules of a backup.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use ibid_format::tree::check_name;

use crate::options::setters;
use crate::pattern::PatternsBuilder;
use crate::{Error, Patterns, Result};

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
    /// Patterns that ignore the difference between upper and lower case. They are a list of their
    /// own: `!keep.o` here takes back nothing that [`patterns`](Excludes::patterns) exclude, nor the
    /// other way round.
    pub any_case: Vec<String>,
    /// Leave out the contents of directories that have an entry with one of these names, whatever its
    /// type; the directory and that entry are kept.
    pub if_present: Vec<OsString>,
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
    any_case: Vec<String>,
    if_present: Vec<OsString>,
});

/// Exclude rules, compiled.
pub(crate) struct Filter {
    patterns: Patterns,
    any_case: Patterns,
    /// Names whose presence excludes the contents of a directory.
    pub(crate) tags: Vec<Vec<u8>>,
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
        let mut tags = Vec::new();
        for name in &excludes.if_present {
            let name = name.clone().into_vec();
            check_name(&name).map_err(|source| Error::BadTagName {
                name: String::from_utf8_lossy(&name).into_owned(),
                source,
            })?;
            tags.push(name);
        }
        Ok(Filter {
            patterns: builder.build(),
            any_case: Patterns::new(&excludes.any_case, true)?,
            tags,
            caches: excludes.caches,
            larger_than: excludes.larger_than,
            one_file_system: excludes.one_file_system,
        })
    }

    /// Returns the memory that the rules take, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.patterns.bytes() + self.any_case.bytes()) as u64
    }

    /// Returns whether a pattern excludes the file at the absolute `path`.
    pub(crate) fn leaves_out(&self, path: &Path, is_directory: bool) -> bool {
        self.patterns.matches(path, is_directory) || self.any_case.matches(path, is_directory)
    }
}
