//! The folder that is backed up, as it is on each day. The same seed gives the same days again.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ibid_bench::Random;

use super::tree::{Original, Tree};
use crate::corpus::Corpus;

/// Edits of a corpus on each day, and the most bytes of one.
const EDITS_A_DAY: usize = 8;
const EDIT_MOST: u64 = 4096;

/// A folder that changes from day to day.
pub(super) enum State {
    Tree(Tree),
    Versions(Versions),
}

/// A folder with one file, in which the versions of a corpus take turns.
pub(super) struct Versions {
    corpus: Corpus,
    folder: PathBuf,
    rounds: u32,
    seed: u64,
}

impl State {
    pub(super) fn tree(original: &Original, folder: &Path, seed: u64) -> Result<State> {
        Ok(State::Tree(Tree::begin(original, folder, seed)?))
    }

    pub(super) fn versions(corpus: Corpus, folder: &Path, rounds: u32, seed: u64) -> State {
        State::Versions(Versions {
            corpus,
            folder: folder.to_owned(),
            rounds,
            seed,
        })
    }

    pub(super) fn folder(&self) -> &Path {
        match self {
            State::Tree(tree) => tree.folder(),
            State::Versions(versions) => &versions.folder,
        }
    }

    /// Makes the folder what it is on a day, which must not be before the one that it is at.
    pub(super) fn become_day(&mut self, day: u32) -> Result<()> {
        match self {
            State::Tree(tree) => tree.become_day(day),
            State::Versions(versions) => versions.become_day(day),
        }
    }
}

impl Versions {
    /// Returns the number of the version that a day has: all of them, spread evenly.
    fn version_of(&self, day: u32) -> usize {
        let versions = self.corpus.versions.len() as u64;
        (u64::from(day) * versions).div_ceil(u64::from(self.rounds)) as usize - 1
    }

    fn become_day(&self, day: u32) -> Result<()> {
        let version = self.version_of(day);
        let path = &self.corpus.versions[version].path;
        let mut data = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        // The edits since the version came.
        for earlier in (1..=day).filter(|&earlier| self.version_of(earlier) == version) {
            edit(&mut data, &mut Random::stream(self.seed, u64::from(earlier)));
        }
        std::fs::write(self.folder.join("data"), data)?;
        Ok(())
    }
}

/// Overwrites, inserts and deletes some bytes.
fn edit(data: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..EDITS_A_DAY {
        let at = random.below(data.len() as u64) as usize;
        let length = 1 + random.below(EDIT_MOST) as usize;
        let end = (at + length).min(data.len());
        match random.below(4) {
            0 => drop(data.splice(at..at, random.bytes(length))),
            1 => drop(data.drain(at..end)),
            _ => random.fill(&mut data[at..end]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_spread_over_the_days_and_every_day_differs() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("corpus");
        std::fs::create_dir(&from).unwrap();
        for name in ["v1", "v2", "v3"] {
            std::fs::write(from.join(name), name.repeat(20_000)).unwrap();
        }
        let corpus: Corpus = format!("x={}", from.display()).parse().unwrap();
        let days = |to: &str| {
            let to = folder.path().join(to);
            std::fs::create_dir(&to).unwrap();
            let mut state = State::versions(corpus.clone(), &to, 7, 1);
            let day = |day| {
                state.become_day(day).unwrap();
                std::fs::read(to.join("data")).unwrap()
            };
            (1..=7).map(day).collect::<Vec<_>>()
        };
        let first = days("a");
        assert!(first.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(first, days("b"));
        let has = |day: &[u8], text: &[u8]| day.windows(2).filter(|two| *two == text).count() > 1000;
        let of: Vec<_> = first
            .iter()
            .map(|day| ["v1", "v2", "v3"].iter().position(|name| has(day, name.as_bytes())))
            .collect();
        assert_eq!(of, [0, 0, 1, 1, 2, 2, 2].map(Some));
    }
}
