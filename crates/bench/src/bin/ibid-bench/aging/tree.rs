//! A tree of real files that changes every day: edited lines, files that come, go and move, and a
//! dump of records of which some change.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use ibid_bench::Random;

use crate::files;

/// The share of files that are edited on a day: one of so many.
const EDITED: usize = 50;
/// The share of files that come, that go and that move on a day, each.
const MOVED: usize = 500;
/// The share of records of the dump that change on a day.
const CHANGED_RECORDS: usize = 100;
/// Records of the dump have about so many bytes.
const RECORD: usize = 200;
/// The name of the dump.
const DUMP: &str = "dump.sql";

/// The files of which a tree is made.
pub(super) struct Original {
    folder: PathBuf,
    /// Paths below the folder, in order.
    names: Vec<PathBuf>,
    dump_size: u64,
}

/// The tree on one day.
pub(super) struct Tree {
    folder: PathBuf,
    seed: u64,
    day: u32,
    names: Vec<PathBuf>,
    records: Vec<String>,
}

impl Original {
    /// Chooses files of a folder by a seed, until they have so many bytes.
    pub(super) fn choose(folder: &Path, bytes: u64, dump_size: u64, seed: u64) -> Result<Original> {
        let mut all = files::names(folder)?;
        let mut random = Random::stream(seed, 0);
        let (mut names, mut chosen) = (Vec::new(), 0);
        while chosen < bytes && !all.is_empty() {
            let name = all.swap_remove(random.below(all.len() as u64) as usize);
            let found = folder.join(&name).metadata()?.len();
            // A single large file would be most of the tree.
            if found <= bytes / 8 {
                chosen += found;
                names.push(name);
            }
        }
        ensure!(!names.is_empty(), "{} has no files to choose from", folder.display());
        names.sort();
        Ok(Original {
            folder: folder.to_owned(),
            names,
            dump_size,
        })
    }
}

impl Tree {
    /// Copies the files into a folder, which exists and is empty.
    pub(super) fn begin(original: &Original, folder: &Path, seed: u64) -> Result<Tree> {
        for name in &original.names {
            let to = folder.join(name);
            make_parent(&to)?;
            // Not `copy`, which would copy the permission too: a file may be read-only.
            let from = original.folder.join(name);
            let data = std::fs::read(&from).with_context(|| format!("reading {}", from.display()))?;
            std::fs::write(&to, data)?;
        }
        let mut random = Random::stream(seed, 0);
        let records = (0..original.dump_size / RECORD as u64).map(|number| record(number, &mut random));
        let tree = Tree {
            folder: folder.to_owned(),
            seed,
            day: 0,
            names: original.names.clone(),
            records: records.collect(),
        };
        tree.write_dump()?;
        Ok(tree)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn become_day(&mut self, day: u32) -> Result<()> {
        while self.day < day {
            self.day += 1;
            self.next_day()?;
        }
        Ok(())
    }

    fn next_day(&mut self) -> Result<()> {
        let mut random = Random::stream(self.seed, u64::from(self.day));
        for _ in 0..self.names.len().div_ceil(EDITED) {
            let path = self.folder.join(self.any(&mut random));
            let edited = edit_lines(&std::fs::read(&path)?, &mut random);
            std::fs::write(&path, edited)?;
        }
        for number in 0..self.names.len().div_ceil(MOVED) {
            self.add(number, &mut random)?;
            self.rename(number, &mut random)?;
            let at = random.below(self.names.len() as u64) as usize;
            let gone = self.names.swap_remove(at);
            std::fs::remove_file(self.folder.join(gone))?;
        }
        for _ in 0..self.records.len() / CHANGED_RECORDS {
            let at = random.below(self.records.len() as u64);
            self.records[at as usize] = record(at, &mut random);
        }
        self.write_dump()
    }

    /// Adds a file: now and then one that resembles another.
    fn add(&mut self, number: usize, random: &mut Random) -> Result<()> {
        let beside = self.any(random).to_owned();
        let data = if random.below(2) == 0 {
            edit_lines(&std::fs::read(self.folder.join(&beside))?, random)
        } else {
            let lines = 50 + random.below(200);
            (0..lines).flat_map(|_| line(random).into_bytes()).collect()
        };
        let name = beside.with_file_name(format!("new-{}-{number}", self.day));
        std::fs::write(self.folder.join(&name), data)?;
        self.names.push(name);
        Ok(())
    }

    fn rename(&mut self, number: usize, random: &mut Random) -> Result<()> {
        let at = random.below(self.names.len() as u64) as usize;
        let beside = self.any(random);
        let name = beside.with_file_name(format!("moved-{}-{number}", self.day));
        std::fs::rename(self.folder.join(&self.names[at]), self.folder.join(&name))?;
        self.names[at] = name;
        Ok(())
    }

    fn any(&self, random: &mut Random) -> &Path {
        &self.names[random.below(self.names.len() as u64) as usize]
    }

    fn write_dump(&self) -> Result<()> {
        if self.records.is_empty() {
            return Ok(());
        }
        std::fs::write(self.folder.join(DUMP), self.records.concat())?;
        Ok(())
    }
}

fn make_parent(path: &Path) -> Result<()> {
    path.parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .with_context(|| format!("making the folder of {}", path.display()))
}

/// Returns a text of which up to four lines were replaced, or others put before them.
fn edit_lines(data: &[u8], random: &mut Random) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = data
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    for _ in 0..=random.below(4) {
        let at = random.below(lines.len() as u64 + 1) as usize;
        let new = line(random).into_bytes();
        match lines.get_mut(at) {
            Some(old) if random.below(2) == 0 => *old = new,
            _ => lines.insert(at, new),
        }
    }
    lines.concat()
}

/// Returns a line of words; short ones are frequent.
fn line(random: &mut Random) -> String {
    let mut line = String::new();
    for _ in 0..=random.below(12) {
        let word = random.below(1 << 12) * random.below(1 << 4);
        line.push_str(&format!("{word:x} "));
    }
    line + "\n"
}

/// Returns a row of the dump.
fn record(number: u64, random: &mut Random) -> String {
    let head = format!("INSERT INTO entries VALUES ({number}, '{:016x}', '", random.number());
    let mut text = head;
    while text.len() < RECORD - 20 {
        text.push_str(line(random).trim_end());
        text.push(' ');
    }
    text.truncate(RECORD - 4);
    text + "');\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_days_come_again_and_each_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from");
        for number in 0..40 {
            let path = from.join(format!("{}/{number}.h", number % 3));
            make_parent(&path).unwrap();
            std::fs::write(path, format!("line {number}\n").repeat(50)).unwrap();
        }
        let original = Original::choose(&from, 10_000, 4000, 1).unwrap();
        assert!((20..40).contains(&original.names.len()), "{}", original.names.len());
        let tree = |name: &str, days: &[u32], seed: u64| {
            let to = folder.path().join(name);
            std::fs::create_dir(&to).unwrap();
            let mut tree = Tree::begin(&original, &to, seed).unwrap();
            days.iter().for_each(|day| tree.become_day(*day).unwrap());
            to
        };
        let (a, b) = (tree("a", &[1, 2, 3], 1), tree("b", &[3], 1));
        files::check_restored(&a, &b).unwrap();
        for other in [tree("c", &[1, 2], 1), tree("d", &[3], 2)] {
            assert!(files::check_restored(&other, &a).is_err());
        }
    }
}
