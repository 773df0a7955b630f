//! Path patterns, with the same rules for excluding files from a backup, selecting files to
//! restore, and searching.
//!
//! The syntax is that of `.gitignore` with one difference: only a leading slash anchors a pattern,
//! at the root of the file system or of the snapshot. Any other pattern matches the end of a path,
//! in any directory.

use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::{Error, Result};

/// A list of patterns.
///
/// ```
/// use ibid_repo::Patterns;
/// let patterns = Patterns::new(&["*.o", "!keep.o", "target/", "me/notes", "/tmp"], false)?;
/// let matches = |path: &str| patterns.matches(path.as_ref(), false);
/// assert!(matches("home/me/src/a.o") && !matches("home/me/keep.o"));
/// assert!(matches("/home/me/notes") && !matches("/home/notes"), "the end of a path");
/// assert!(matches("/tmp") && !matches("/var/tmp"), "a whole path");
/// assert!(!matches("target") && patterns.matches("src/target".as_ref(), true), "only folders");
/// # Ok::<(), ibid_repo::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Patterns(Gitignore);

impl Patterns {
    /// Parses patterns. If several match a path, the last of them decides; a leading `!` negates a
    /// pattern.
    ///
    /// # Errors
    /// [`Error::BadPattern`] if a pattern has a syntax error or can't match anything.
    pub fn new(patterns: &[impl AsRef<str>], ignore_case: bool) -> Result<Patterns> {
        let mut builder = PatternsBuilder::new(ignore_case);
        for pattern in patterns {
            builder.add(pattern.as_ref())?;
        }
        builder.build()
    }

    /// Returns whether the patterns match a path from the root. They match a directory but not its
    /// contents: test the parents too.
    pub fn matches(&self, path: &Path, is_directory: bool) -> bool {
        !self.0.is_empty() && matches!(self.0.matched(path, is_directory), Match::Ignore(_))
    }
}

/// Builder of [`Patterns`].
pub(crate) struct PatternsBuilder(GitignoreBuilder);

impl PatternsBuilder {
    pub(crate) fn new(ignore_case: bool) -> PatternsBuilder {
        let mut builder = GitignoreBuilder::new("/");
        // An unclosed bracket is more often a typing error than part of a name.
        builder.allow_unclosed_class(false);
        builder.case_insensitive(ignore_case).expect("it has no way of failing");
        PatternsBuilder(builder)
    }

    pub(crate) fn add(&mut self, pattern: &str) -> Result<()> {
        self.add_from(pattern, String::new())
    }

    /// Adds the patterns of a file, one per line. Empty lines and lines that start with `#` are
    /// ignored.
    pub(crate) fn add_file(&mut self, file: &Path) -> Result<()> {
        let bytes = std::fs::read(file).map_err(|source| Error::local("read", file, source))?;
        let lines = bytes
            .strip_prefix(b"\xEF\xBB\xBF")
            .unwrap_or(&bytes)
            .split(|&byte| byte == b'\n');
        for (line, number) in lines.zip(1..) {
            let place = format!(" in line {number} of {file:?}");
            let Ok(text) = std::str::from_utf8(line) else {
                return Err(Error::BadPattern {
                    pattern: String::from_utf8_lossy(line).into_owned(),
                    place,
                    reason:
                        "it is not UTF-8, and patterns have to be; `*` stands for any part of a name, whatever it is"
                            .into(),
                });
            };
            if !text.trim().is_empty() && !text.starts_with('#') {
                self.add_from(text.trim_end_matches('\r'), place)?;
            }
        }
        Ok(())
    }

    fn add_from(&mut self, pattern: &str, place: String) -> Result<()> {
        self.add_line(pattern).map_err(|reason| Error::BadPattern {
            pattern: pattern.to_owned(),
            place,
            reason,
        })
    }

    fn add_line(&mut self, pattern: &str) -> std::result::Result<(), String> {
        let (takes_back, path) = match pattern.strip_prefix('!') {
            Some(path) => ("!", path),
            None => ("", pattern),
        };
        // Collapse double slashes: `$HOME/…` has one if `$HOME` ends in a slash.
        let mut path: Vec<char> = path.chars().collect();
        path.dedup_by(|a, b| (*a, *b) == ('/', '/'));
        let path: String = path.into_iter().collect();
        let whole = path.starts_with('/');
        let names = path.trim_end();
        let names = names.strip_suffix('/').unwrap_or(names);
        let names = names.strip_prefix('/').unwrap_or(names);
        if names.split('/').any(|name| matches!(name, "" | "." | "..")) {
            return Err("no path is empty or has `.` or `..` in it, so this matches nothing; \
                 give the end of a path, or a whole one that begins with a slash"
                .into());
        }
        let anywhere = if whole { "" } else { "**/" };
        match self.0.add_line(None, &format!("{takes_back}{anywhere}{path}")) {
            Ok(_) => Ok(()),
            Err(ignore::Error::Glob { err, .. }) => Err(err),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(crate) fn build(self) -> Result<Patterns> {
        let built = self.0.build().map_err(|error| Error::BadPattern {
            pattern: String::new(),
            place: String::new(),
            reason: error.to_string(),
        })?;
        Ok(Patterns(built))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_slash_at_the_beginning_ties_a_pattern_to_a_place() {
        let expected = [
            ("*.txt", "home/me/a.txt", true),
            ("*.txt", "home/a.txt/b", false),
            ("me/*.txt", "home/me/a.txt", true),
            ("me/*.txt", "home/some/a.txt", false),
            ("me/*.txt", "home/me/deep/a.txt", false),
            ("me/**/*.txt", "home/me/deep/a.txt", true),
            ("**/a.txt", "home/a.txt", true),
            ("home/me", "home/me", true),
            ("/home/*", "home/me", true),
            ("/home/*", "home/me/a", false),
            ("/me/*", "home/me/a.txt", false),
            ("me/", "home/me", false),
            ("A.TXT", "home/me/a.txt", false),
            ("{a,b}.txt", "b.txt", true),
            ("#a#", "home/#a#", true),
            ("\\!a", "home/!a", true),
            ("//home//me", "home/me", true),
        ];
        for (pattern, path, matches) in expected {
            let patterns = Patterns::new(&[pattern], false).unwrap();
            assert_eq!(patterns.matches(Path::new(path), false), matches, "{pattern} {path}");
            let path = Path::new("/").join(path);
            assert_eq!(patterns.matches(&path, false), matches, "{pattern} {path:?}");
        }
        let folders = Patterns::new(&["me/"], false).unwrap();
        assert!(folders.matches(Path::new("home/me"), true));
        let any_case = Patterns::new(&["A.TXT"], true).unwrap();
        assert!(any_case.matches(Path::new("x/a.txt"), false));
    }

    #[test]
    fn a_pattern_that_means_nothing_is_refused() {
        for pattern in ["[", "[a", "a/{b", "", " ", "/", "!", "./a", "../a", "a/./b", "//"] {
            let refused = Patterns::new(&[pattern], false).unwrap_err();
            assert!(matches!(refused, Error::BadPattern { .. }), "{pattern}: {refused}");
        }
    }

    #[test]
    fn a_file_of_patterns_may_come_from_any_editor_and_errors_name_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("patterns");
        let read = |text: &[u8]| {
            std::fs::write(&file, text).unwrap();
            let mut builder = PatternsBuilder::new(false);
            builder.add_file(&file)?;
            builder.build()
        };
        let patterns = read(b"\xEF\xBB\xBF*.o\r\n# a comment\r\n\r\n  \r\n/tmp/\r\n").unwrap();
        assert!(patterns.matches(Path::new("src/a.o"), false) && patterns.matches(Path::new("tmp"), true));
        for (text, line) in [(&b"*.o\n\nfine\xFF\n"[..], 3), (b"\xEF\xBB\xBF[", 1), (b"a\n./b\n", 2)] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(&format!("in line {line} of {file:?}")), "{error}");
        }
    }
}
