//! What child processes cost, and what they left on the disk.

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use wait4::Wait4;

/// What one process cost, with the children it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cost {
    pub(crate) wall_s: f64,
    /// User and system.
    pub(crate) cpu_s: f64,
    /// The most memory that was resident at once. Never less than what this program had when it started the process:
    /// the kernel counts from before the exec.
    pub(crate) rss_bytes: u64,
}

/// Runs a command to its end. What it prints is dropped, but shown if it fails.
///
/// What was written before goes to the disk first, so that nobody pays for somebody else's writing.
pub(crate) fn run(command: &mut Command, shown: &str, work: &Path) -> Result<Cost> {
    let said = work.join("stderr");
    rustix::fs::syncfs(File::open(work)?).context("flushing the file system")?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&said)?);
    let start = Instant::now();
    let used = command
        .spawn()
        .with_context(|| format!("starting {shown}"))?
        .wait4()
        .with_context(|| format!("waiting for {shown}"))?;
    let wall_s = start.elapsed().as_secs_f64();
    if !used.status.success() {
        let said = std::fs::read_to_string(&said).unwrap_or_default();
        bail!("{shown}: {}\n{}", used.status, said.trim_end());
    }
    Ok(Cost {
        wall_s,
        cpu_s: (used.rusage.utime + used.rusage.stime).as_secs_f64(),
        rss_bytes: used.rusage.maxrss,
    })
}

/// All regular files below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("reading the folder {}", folder.display()))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            files(&entry.path(), found)?;
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// The sum of the sizes of all files below a folder.
pub(crate) fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut found = Vec::new();
    files(folder, &mut found)?;
    found.iter().map(|path| Ok(path.metadata()?.len())).sum()
}

/// Fails unless exactly one file is below `folder` and has the bytes of `original`.
pub(crate) fn check_restored(folder: &Path, original: &Path) -> Result<()> {
    let mut found = Vec::new();
    files(folder, &mut found)?;
    ensure!(found.len() == 1, "one file was to be restored, found {}", found.len());
    if let Some(at) = first_difference(&found[0], original)? {
        bail!("the restored file differs from the original from byte {at} on");
    }
    Ok(())
}

/// Where two files differ first; a file that goes on differs where the other ends.
fn first_difference(a: &Path, b: &Path) -> Result<Option<u64>> {
    // Small: this program's memory is a floor under what it measures of others.
    const PIECE: u64 = 64 << 10;
    let open = |path: &Path| File::open(path).with_context(|| format!("opening {}", path.display()));
    let (mut a, mut b) = (open(a)?, open(b)?);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    let mut at = 0;
    loop {
        left.clear();
        right.clear();
        a.by_ref().take(PIECE).read_to_end(&mut left)?;
        b.by_ref().take(PIECE).read_to_end(&mut right)?;
        if left != right {
            let same = left.iter().zip(&right).take_while(|(x, y)| x == y).count();
            return Ok(Some(at + same as u64));
        }
        if left.is_empty() {
            return Ok(None);
        }
        at += left.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_costs_something() {
        let work = tempfile::tempdir().unwrap();
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.05";
        let cost = run(Command::new("sh").args(["-c", script]), "sh", work.path()).unwrap();
        assert!(cost.wall_s >= 0.05, "{cost:?}");
        assert!(cost.cpu_s > 0.0 && cost.cpu_s < cost.wall_s + 1.0, "{cost:?}");
        assert!((100 << 10..1 << 30).contains(&cost.rss_bytes), "{cost:?}");
    }

    #[test]
    fn a_failure_says_what_the_process_said() {
        let work = tempfile::tempdir().unwrap();
        let error = run(
            Command::new("sh").args(["-c", "echo alas >&2; exit 3"]),
            "it",
            work.path(),
        )
        .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("it: exit status: 3") && text.contains("alas"), "{text}");
        assert!(run(&mut Command::new("/no/such/program"), "it", work.path()).is_err());
    }

    #[test]
    fn sizes_are_summed_at_every_depth() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::fs::write(folder.path().join("one"), [0; 10]).unwrap();
        std::fs::write(folder.path().join("a/b/two"), [0; 32]).unwrap();
        assert_eq!(folder_bytes(folder.path()).unwrap(), 42);
    }

    #[test]
    fn every_difference_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let original = folder.path().join("original");
        let restored = folder.path().join("restored");
        std::fs::create_dir(&restored).unwrap();
        let data: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(&original, &data).unwrap();
        let check = |bytes: &[u8]| {
            std::fs::write(restored.join("file"), bytes).unwrap();
            check_restored(&restored, &original).map_err(|error| error.to_string())
        };
        assert_eq!(check(&data), Ok(()));
        let mut other = data.clone();
        other[150_000] ^= 1;
        let differs = |at| Err(format!("the restored file differs from the original from byte {at} on"));
        assert_eq!(check(&other), differs(150_000));
        assert_eq!(check(&data[..131_072]), differs(131_072));
        assert_eq!(check(&[&data[..], b"x"].concat()), differs(200_000));
        std::fs::write(restored.join("another"), b"").unwrap();
        assert!(check(&data).is_err(), "two files");
    }
}
