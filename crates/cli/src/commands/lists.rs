//! Lists of paths to back up: `--files-from` and `--files-from0`.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use ibid_terminal::{input, path_text};

use crate::args::BackupArgs;
use crate::failure::{Failure, Result};

/// Longest path in a list, bytes: no system call takes a longer one.
const PATH_MAX: usize = 4095;
/// Most bytes of paths and of their places in memory that a command takes from lists.
const LISTS_MAX: usize = 256 << 20;

/// Takes the paths to back up out of the command line: those it names, and those in its lists.
///
/// # Errors
/// A list that can't be read, has a path that is none, or is too long; no path at all.
pub(super) fn paths(args: &mut BackupArgs) -> Result<Vec<PathBuf>> {
    let mut paths = std::mem::take(&mut args.paths);
    let lines = args.files_from.iter().map(|file| (file, b'\n'));
    let lists: Vec<_> = lines.chain(args.files_from0.iter().map(|file| (file, b'\0'))).collect();
    let is_map = args.changed_blocks.iter();
    if lists
        .iter()
        .map(|(file, _)| *file)
        .chain(is_map)
        .filter(|file| input::is_stdin(file))
        .count()
        > 1
    {
        return Err(Failure::Usage(
            "only one option can read standard input: give `-` once".into(),
        ));
    }
    let mut room = LISTS_MAX;
    for (file, end) in &lists {
        read(file, *end, &mut room, &mut paths)?;
    }
    if paths.is_empty() && !lists.is_empty() {
        let files: Vec<_> = lists.iter().map(|(file, _)| path_text(file)).collect();
        return Err(Failure::Fatal(format!(
            "nothing to back up: there is no path in {}",
            files.join(", ")
        )));
    }
    Ok(paths)
}

/// Adds the paths of one list, each of which ends in `end` or at the end of the file. Empty ones are
/// ignored, and all other bytes belong to the paths.
fn read(file: &Path, end: u8, room: &mut usize, paths: &mut Vec<PathBuf>) -> Result<()> {
    let mut list = BufReader::new(input::open(file)?);
    let what = if end == 0 { "entry" } else { "line" };
    for number in 1u64.. {
        let bad = |problem: &str| {
            let file = path_text(file);
            Failure::Usage(format!("{what} {number} of {file} is not a path: {problem}"))
        };
        let mut path = Vec::new();
        let limit = PATH_MAX as u64 + 2;
        let taken = list.by_ref().take(limit).read_until(end, &mut path);
        if taken.map_err(|source| Failure::local("read", file, source))? == 0 {
            break;
        }
        path.pop_if(|last| *last == end);
        if path.is_empty() {
            continue;
        }
        if path.len() > PATH_MAX {
            return Err(bad(&format!("it has more than {PATH_MAX} bytes")));
        }
        if path.contains(&0) {
            return Err(bad(
                "it has a NUL byte in it. Lists that `find -print0` makes need --files-from0",
            ));
        }
        *room = room
            .checked_sub(path.len() + size_of::<PathBuf>())
            .ok_or_else(|| Failure::Fatal(format!("lists of paths take more than {} MiB", LISTS_MAX >> 20)))?;
        path.shrink_to_fit();
        paths.push(OsString::from_vec(path).into());
    }
    Ok(())
}
