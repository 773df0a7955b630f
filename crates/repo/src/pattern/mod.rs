//! Path patterns, with the same rules for excluding files from a backup, selecting files to
//! restore, and searching.
//!
//! The syntax is that of `.gitignore` with one difference: only a leading slash anchors a pattern,
//! at the root of the file system or of the snapshot. Any other pattern matches the end of a path,
//! in any directory. `tests/patterns.rs` compares them with the crate `ignore`, which is ripgrep's
//! reading of `.gitignore`.
//!
//! Lists of files may be given as patterns, so there may be many: each takes little more memory
//! than its text ([`program`]), and a path is compared with few of them ([`table`]).

mod anchors;
mod parse;
mod program;
mod table;

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use self::anchors::Anchors;
use self::parse::compile;
use self::table::{Meaning, Table};
use crate::{Error, Result};

/// A result whose error is the reason why a pattern is none.
type Parsed<T> = std::result::Result<T, String>;

/// Longest pattern, and longest line of a file of patterns, bytes. The longest path that Linux
/// takes has a quarter of it.
const PATTERN_MAX: usize = 16 << 10;
/// Most memory that the patterns of one list take, bytes.
const MEMORY_MAX: usize = 32 << 20;
/// Bytes of a pattern that an error shows.
const SHOWN_MAX: usize = 100;

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
pub struct Patterns {
    table: Table,
    anchors: Anchors,
    ignore_case: bool,
}

impl Patterns {
    /// Parses patterns. If several match a path, the last of them decides; a leading `!` negates a
    /// pattern.
    ///
    /// # Errors
    /// [`Error::BadPattern`] if a pattern has a syntax error, can't match anything, or is longer than
    /// 16 KiB, or if all patterns together take more than 32 MiB of memory.
    pub fn new(patterns: &[impl AsRef<str>], ignore_case: bool) -> Result<Patterns> {
        let mut builder = PatternsBuilder::new(ignore_case);
        for pattern in patterns {
            builder.add(pattern.as_ref())?;
        }
        Ok(builder.build())
    }

    /// Returns whether the patterns match a path from the root. They match a directory but not its
    /// contents: test the parents too.
    pub fn matches(&self, path: &Path, is_directory: bool) -> bool {
        if self.table.is_empty() {
            return false;
        }
        let mut path = Cow::Borrowed(from_root(path.as_os_str().as_bytes()));
        if self.ignore_case {
            path = Cow::Owned(lower_case(&path));
        }
        let decides = self.table.last_match(&path, is_directory);
        decides.is_some_and(|meaning| !meaning.negates)
    }

    /// Returns whether the patterns may match something below a folder, at a path from the root: only if not is it
    /// certain.
    pub fn may_match_below(&self, folder: &Path) -> bool {
        let mut path = Cow::Borrowed(from_root(folder.as_os_str().as_bytes()));
        if self.ignore_case {
            path = Cow::Owned(lower_case(&path));
        }
        self.anchors.may_be_below(&path)
    }

    /// Returns the memory that the patterns take, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes()
    }
}

/// Returns a path in lower case. Bytes that are not text stay as they are.
fn lower_case(path: &[u8]) -> Vec<u8> {
    if path.is_ascii() {
        return path.to_ascii_lowercase();
    }
    let mut lower = Vec::with_capacity(path.len());
    for part in path.utf8_chunks() {
        let mut utf8 = [0; 4];
        for c in part.valid().chars() {
            lower.extend_from_slice(lower_char(c).encode_utf8(&mut utf8).as_bytes());
        }
        lower.extend_from_slice(part.invalid());
    }
    lower
}

/// Returns the small letter of a letter, if that is one character; else the character itself. So
/// `ß` stays, and does not match `SS`.
fn lower_char(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        _ if c.is_ascii() => c.to_ascii_lowercase(),
        // Sigma has two small forms, and one of them only ends words.
        (Some('ς'), None) => 'σ',
        (Some(lower), None) => lower,
        _ => c,
    }
}

/// Returns a path without `./` or a slash at its start.
fn from_root(path: &[u8]) -> &[u8] {
    let path = path.strip_prefix(b"./").unwrap_or(path);
    match path.strip_prefix(b"/") {
        Some(path) => path.strip_prefix(b"/").unwrap_or(path),
        None => path,
    }
}

/// Builder of [`Patterns`].
pub(crate) struct PatternsBuilder(Patterns);

impl PatternsBuilder {
    pub(crate) fn new(ignore_case: bool) -> PatternsBuilder {
        PatternsBuilder(Patterns {
            table: Table::default(),
            anchors: Anchors::default(),
            ignore_case,
        })
    }

    pub(crate) fn add(&mut self, pattern: &str) -> Result<()> {
        self.add_line(pattern)
            .map_err(|reason| bad(pattern.as_bytes(), String::new(), reason))
    }

    /// Adds the patterns of a file, one per line. Empty lines and lines that start with `#` are
    /// ignored. Memory for one line is all that the file itself takes.
    pub(crate) fn add_file(&mut self, file: &Path) -> Result<()> {
        let failed = |source| Error::local("read", file, source);
        let mut lines = BufReader::new(File::open(file).map_err(failed)?);
        let mut line = Vec::new();
        for number in 1u64.. {
            line.clear();
            // One byte more than a line may have, to tell a longer one.
            let limit = PATTERN_MAX as u64 + 1;
            let read = lines.by_ref().take(limit).read_until(b'\n', &mut line);
            if read.map_err(failed)? == 0 {
                break;
            }
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            check_length(text)
                .and_then(|()| self.add_file_line(text, number == 1))
                .map_err(|reason| bad(text, format!(" in line {number} of {file:?}"), reason))?;
        }
        Ok(())
    }

    fn add_file_line(&mut self, line: &[u8], is_first: bool) -> Parsed<()> {
        let line = match line.strip_prefix(b"\xEF\xBB\xBF") {
            Some(text) if is_first => text,
            _ => line,
        };
        let line = std::str::from_utf8(line).map_err(
            |_| "it is not UTF-8, and patterns have to be; `*` stands for any part of a name, whatever it is",
        )?;
        if line.trim().is_empty() || line.starts_with('#') {
            return Ok(());
        }
        self.add_line(line.trim_end_matches('\r'))
    }

    fn add_line(&mut self, pattern: &str) -> Parsed<()> {
        check_length(pattern.as_bytes())?;
        let (negates, path) = match pattern.strip_prefix('!') {
            Some(path) => (true, path),
            None => (false, pattern),
        };
        // Collapse double slashes: `$HOME/…` has one if `$HOME` ends in a slash.
        let mut path: Vec<char> = path.chars().collect();
        path.dedup_by(|a, b| (*a, *b) == ('/', '/'));
        let path: String = path.into_iter().collect();
        let names = path.trim_end();
        let names = names.strip_suffix('/').unwrap_or(names);
        let names = names.strip_prefix('/').unwrap_or(names);
        if names.split('/').any(|name| matches!(name, "" | "." | "..")) {
            return Err("no path is empty or has `.` or `..` in it, so this matches nothing; \
                 give the end of a path, or a whole one that begins with a slash"
                .into());
        }
        let Patterns {
            table,
            anchors,
            ignore_case,
        } = &mut self.0;
        if table.bytes() >= MEMORY_MAX {
            return Err(format!(
                "too many patterns: those before it take {} MiB of memory, which is the limit",
                MEMORY_MAX >> 20
            ));
        }
        // A space at the end counts if it is escaped.
        let glob = match path.ends_with("\\ ") {
            true => &path,
            false => path.trim_end(),
        };
        let (glob, only_directories) = match glob.strip_suffix('/') {
            Some(glob) => (glob.strip_suffix('\\').unwrap_or(glob), true),
            None => (glob, false),
        };
        if !negates {
            anchors.add(glob, *ignore_case);
        }
        let glob = match glob.strip_prefix('/') {
            Some(glob) => glob.to_owned(),
            None => format!("**/{glob}"),
        };
        let meaning = Meaning {
            negates,
            only_directories,
        };
        table.add(meaning, |program| compile(&glob, *ignore_case, program))
    }

    pub(crate) fn build(mut self) -> Patterns {
        self.0.table.finish();
        self.0
    }
}

fn check_length(pattern: &[u8]) -> Parsed<()> {
    match pattern.len() <= PATTERN_MAX {
        true => Ok(()),
        false => Err(format!(
            "it is longer than {} KiB, which is the limit",
            PATTERN_MAX >> 10
        )),
    }
}

/// Returns an error that shows the start of a pattern.
fn bad(pattern: &[u8], place: String, reason: String) -> Error {
    let mut shown = String::from_utf8_lossy(&pattern[..pattern.len().min(SHOWN_MAX)]).into_owned();
    if pattern.len() > SHOWN_MAX {
        shown.push('…');
    }
    Error::BadPattern {
        pattern: shown,
        place,
        reason,
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
    }

    #[test]
    fn case_is_ignored_in_all_scripts_and_bytes_that_are_not_text_stay() {
        use std::ffi::OsStr;
        let matches = |pattern: &str, path: &[u8]| {
            let patterns = Patterns::new(&[pattern], true).unwrap();
            patterns.matches(Path::new(OsStr::from_bytes(path)), false)
        };
        for (pattern, path) in [
            ("A.TXT", "x/a.txt"),
            ("a.txt", "x/A.TxT"),
            ("GRÜSSE.txt", "Grüsse.TXT"),
            ("письмо*", "ПИСЬМО.odt"),
            ("ΟΔΟΣ", "οδος"),
            ("οδος", "ΟΔΟΣ"),
            ("İ*", "İx"),
            ("[a-c]X", "Bx"),
        ] {
            assert!(matches(pattern, path.as_bytes()), "{pattern} {path}");
        }
        assert!(!matches("STRASSE", "straße".as_bytes()), "one letter is not two");
        assert!(matches("*.TXT", b"\xC3\x9C\xFF.txt") && !matches("*.TXT", b"\xFF.tx"));
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
            Ok::<_, Error>(builder.build())
        };
        let patterns = read(b"\xEF\xBB\xBF*.o\r\n# a comment\r\n\r\n  \r\n/tmp/\r\n").unwrap();
        assert!(patterns.matches(Path::new("src/a.o"), false) && patterns.matches(Path::new("tmp"), true));
        let longest = [b"/", [b'a'; PATTERN_MAX - 1].as_slice(), b"\n*.o"].concat();
        assert!(read(&longest).unwrap().matches(Path::new("a.o"), false));
        let too_long = [b"\xEF\xBB\xBF#", [b'a'; PATTERN_MAX].as_slice(), b"\n[\n"].concat();
        for (text, line) in [
            (&too_long[..], 1),
            (b"*.o\n\nfine\xFF\n", 3),
            (b"\xEF\xBB\xBF[", 1),
            (b"a\n./b\n", 2),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(&format!("in line {line} of {file:?}")), "{error}");
        }
    }
}
