//! `ibid find`.

use super::open::Context;
use super::watch::Watch;
use crate::args::FindArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{FindPrinter, Verb};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ibid_repo::{SnapshotInfo, Visit};
use std::path::Path;

pub(crate) fn run(context: &mut Context, args: &FindArgs) -> Result<Outcome> {
    let patterns = Patterns::new(&args.patterns, args.ignore_case)?;
    let opened = context.open()?;
    let mut places: Vec<(SnapshotInfo, &[u8])> = Vec::new();
    let mut outcome = Outcome::Done;
    if args.snapshot.is_empty() {
        let snapshots;
        (snapshots, outcome) = opened.snapshots(&args.select)?;
        places.extend(snapshots.into_iter().map(|info| (info, &b""[..])));
    } else {
        for address in &args.snapshot {
            places.push((opened.snapshot(&address.snapshot, &args.select)?, &address.path));
        }
        places.sort_by_key(|(info, _)| (info.snapshot.time, info.id));
    }
    let watch = Watch::silent(Verb::Look)?;
    let mut printer = FindPrinter::begin(&mut context.out, opened.about)?;
    for (info, path) in &places {
        opened
            .repository
            .visit(info, path, &watch.monitor, &mut |path, entry| {
                if patterns.match_path(path) {
                    printer.found(info, path, entry)?;
                }
                Ok(Visit::Descend)
            })?;
    }
    printer.end()?;
    Ok(outcome)
}

/// Patterns for names and patterns for paths.
struct Patterns {
    names: GlobSet,
    paths: GlobSet,
}

impl Patterns {
    fn new(patterns: &[String], ignore_case: bool) -> Result<Patterns> {
        let mut names = GlobSetBuilder::new();
        let mut paths = GlobSetBuilder::new();
        for pattern in patterns {
            let bad = |error: globset::Error| Failure::Usage(format!("pattern {pattern:?}: {}", error.kind()));
            let (set, glob) = match pattern.strip_prefix('/') {
                Some(whole) => (&mut paths, whole.to_owned()),
                None if pattern.contains('/') => (&mut paths, format!("**/{pattern}")),
                None => (&mut names, pattern.clone()),
            };
            let glob = GlobBuilder::new(glob.trim_end_matches('/'))
                .literal_separator(true)
                .case_insensitive(ignore_case)
                .build();
            set.add(glob.map_err(bad)?);
        }
        let build = |set: GlobSetBuilder| {
            set.build()
                .map_err(|error| Failure::Usage(format!("patterns: {error}")))
        };
        Ok(Patterns {
            names: build(names)?,
            paths: build(paths)?,
        })
    }

    fn match_path(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| self.names.is_match(name)) || self.paths.is_match(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_makes_a_pattern_one_of_paths() {
        let expected = [
            ("*.txt", "home/me/a.txt", true),
            ("*.txt", "home/a.txt/b", false),
            ("me/*.txt", "home/me/a.txt", true),
            ("me/*.txt", "home/me/deep/a.txt", false),
            ("me/**/*.txt", "home/me/deep/a.txt", true),
            ("/home/*", "home/me", true),
            ("/me/*", "home/me/a.txt", false),
            ("me/", "home/me", true),
            ("A.TXT", "home/me/a.txt", false),
            ("{a,b}.txt", "b.txt", true),
        ];
        for (pattern, path, matches) in expected {
            let patterns = Patterns::new(&[pattern.to_owned()], false).unwrap();
            assert_eq!(patterns.match_path(Path::new(path)), matches, "{pattern} {path}");
        }
        assert!(
            Patterns::new(&["A.TXT".to_owned()], true)
                .unwrap()
                .match_path(Path::new("x/a.txt"))
        );
        assert!(Patterns::new(&["[a".to_owned()], false).is_err());
    }
}
