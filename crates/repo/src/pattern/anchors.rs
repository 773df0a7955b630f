//! The folders below which patterns can match: a search leaves out the others.

use super::lower_case;

/// Most bytes that are kept of patterns; beyond them, any folder may have matches.
const BYTES_MAX: usize = 64 << 10;
/// Characters that stand for others in a pattern. An escape is treated as if it could, too.
const SPECIAL: &[char] = &['*', '?', '[', ']', '{', '}', ',', '\\'];

/// The whole paths that the patterns of a list begin with.
#[derive(Clone, Debug)]
pub(super) struct Anchors {
    /// `None` if a pattern matches in any folder, or if there are too many.
    paths: Option<Vec<Anchor>>,
    bytes: usize,
}

/// How the paths begin that a pattern matches.
#[derive(Clone, Debug)]
struct Anchor {
    /// The names that all of them begin with.
    names: Vec<Vec<u8>>,
    /// How many names they have, if all have the same number.
    count: Option<usize>,
}

impl Default for Anchors {
    fn default() -> Anchors {
        Anchors {
            paths: Some(Vec::new()),
            bytes: 0,
        }
    }
}

impl Anchors {
    /// Adds a pattern that is not negated, without double slashes and without one at its end.
    pub(super) fn add(&mut self, glob: &str, ignore_case: bool) {
        let Some(paths) = &mut self.paths else { return };
        self.bytes += glob.len() + 64;
        let Some(path) = glob.strip_prefix('/').filter(|_| self.bytes <= BYTES_MAX) else {
            self.paths = None;
            return;
        };
        let all: Vec<&str> = path.split('/').collect();
        let plain = all.iter().take_while(|name| !name.contains(SPECIAL)).count();
        // A wildcard in a folder's name may match several names with their slashes, or none. So may all but these
        // in the last name.
        let is_of_one_name = |name: &str| !name.contains("**") && !name.contains(['[', '{', '\\']);
        let count = match all.len() - plain {
            0 => Some(all.len()),
            1 if is_of_one_name(all[plain]) => Some(all.len()),
            _ => None,
        };
        let name = |name: &&str| match ignore_case {
            true => lower_case(name.as_bytes()),
            false => name.as_bytes().to_vec(),
        };
        paths.push(Anchor {
            names: all[..plain].iter().map(name).collect(),
            count,
        });
    }

    /// Returns whether a pattern can match something below a folder. Its path is in lower case if case is ignored,
    /// and without a leading slash.
    pub(super) fn may_be_below(&self, folder: &[u8]) -> bool {
        let Some(paths) = &self.paths else { return true };
        let names = || folder.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let depth = names().count();
        paths.iter().any(|anchor| {
            let agrees = names().zip(&anchor.names).all(|(name, expected)| name == expected);
            agrees && anchor.count.is_none_or(|count| depth < count)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Patterns;

    #[test]
    fn only_folders_on_the_way_to_a_whole_path_may_have_matches() {
        let may = |patterns: &[&str], ignore_case, folder: &str| {
            Patterns::new(patterns, ignore_case)
                .unwrap()
                .may_match_below(Path::new(folder))
        };
        let expected = [
            ("/home/me/a.txt", "", true),
            ("/home/me/a.txt", "home", true),
            ("/home/me/a.txt", "/home/me", true),
            ("/home/me/a.txt", "home/me/a.txt", false),
            ("/home/me/a.txt", "home/you", false),
            ("/home/me/a.txt", "etc", false),
            ("/home/me/*.txt", "home/me", true),
            ("/home/me/*.txt", "home/me/deep", false),
            ("/home/me/**", "home/me/deep/down", true),
            ("/home/me/**/a", "home/me/deep/down", true),
            ("/home/**/a", "etc", false),
            ("/home/*/a", "home/me", true),
            ("/home/*/a", "etc", false),
            ("/home/[!x]y", "home/a", true),
            ("/{home/me,etc}/a", "home/me", true),
            ("/home/{me/a,b}", "home/me", true),
            ("/home/me\\*", "home/x", true),
            ("/home/me/", "home", true),
            ("/home/me/", "home/me", false),
            ("//home//me", "home", true),
            ("a.txt", "etc", true),
            ("home/a.txt", "etc", true),
            ("!a.txt", "etc", false),
        ];
        for (pattern, folder, is_possible) in expected {
            assert_eq!(may(&[pattern], false, folder), is_possible, "{pattern} {folder}");
        }
        assert!(may(&["/Home/ME/a"], true, "hOME/me") && !may(&["/Home/me/a"], false, "home"));
        assert!(may(&["/etc/a", "/home/b"], false, "home") && !may(&["/etc/a", "/home/b"], false, "usr"));
        let many: Vec<String> = (0..5000).map(|number| format!("/a/{number}/and-so-on")).collect();
        assert!(
            Patterns::new(&many, false).unwrap().may_match_below(Path::new("b")),
            "too many to look at"
        );
    }
}
