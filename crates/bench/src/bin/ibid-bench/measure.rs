//! The costs of child processes.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wait4::Wait4;

/// The cost of one process, with the children that it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cost {
    pub(crate) wall_s: f64,
    /// User and system time, seconds.
    pub(crate) cpu_s: f64,
    /// The most resident memory. It is at least that of this program when it started the process,
    /// because the kernel counts from before the exec.
    pub(crate) rss_bytes: u64,
}

/// Runs a command to its end. Its output is discarded, but shown if it fails.
///
/// Syncs earlier writes to the disk first, so that no command pays for the writes of another.
pub(crate) fn run(command: &mut Command, shown: &str, work: &Path) -> Result<Cost> {
    run_fed(command, shown, work, |_| Ok(()))
}

/// Does the same, and has `feed` write its standard input.
pub(crate) fn run_fed(
    command: &mut Command,
    shown: &str,
    work: &Path,
    feed: impl FnOnce(&mut ChildStdin) -> std::io::Result<()>,
) -> Result<Cost> {
    run_with(command, shown, work, Stdio::null(), feed)
}

/// Does the same as [`run`], and returns what the command printed.
pub(crate) fn run_printing(command: &mut Command, shown: &str, work: &Path) -> Result<(Cost, String)> {
    let printed = work.join("stdout");
    let out = File::create(&printed)?;
    let cost = run_with(command, shown, work, out.into(), |_| Ok(()))?;
    let text = std::fs::read(&printed).with_context(|| format!("reading what {shown} printed"))?;
    Ok((cost, String::from_utf8_lossy(&text).into_owned()))
}

/// Runs a hidden command of this program in a process of its own, with an order that it finds in a file. Returns what
/// it has written into the file `answer`.
pub(crate) fn run_stage<T: DeserializeOwned>(
    stage: &str,
    order: &impl Serialize,
    answer: &Path,
    work: &Path,
) -> Result<(Cost, T)> {
    let file = work.join("order");
    write_json(&file, order)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(stage).arg(file);
    let cost = run(&mut command, stage, work)?;
    Ok((cost, read_json(answer)?))
}

/// Writes an order or an answer.
pub(crate) fn write_json(path: &Path, what: &impl Serialize) -> Result<()> {
    std::fs::write(path, serde_json::to_vec(what)?).with_context(|| format!("writing {}", path.display()))
}

/// Reads an order or an answer.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(serde_json::from_slice(&text)?)
}

fn run_with(
    command: &mut Command,
    shown: &str,
    work: &Path,
    out: Stdio,
    feed: impl FnOnce(&mut ChildStdin) -> std::io::Result<()>,
) -> Result<Cost> {
    let said = work.join("stderr");
    rustix::fs::syncfs(File::open(work)?).context("flushing the file system")?;
    command.stdin(Stdio::piped()).stdout(out).stderr(File::create(&said)?);
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("starting {shown}"))?;
    let mut input = child.stdin.take().expect("it is piped");
    let fed = feed(&mut input).and_then(|()| input.flush());
    drop(input);
    let used = child.wait4().with_context(|| format!("waiting for {shown}"))?;
    let wall_s = start.elapsed().as_secs_f64();
    if !used.status.success() {
        let said = std::fs::read_to_string(&said).unwrap_or_default();
        bail!("{shown}: {}\n{}", used.status, said.trim_end());
    }
    match fed {
        // A process need not read its input.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error).context(format!("feeding {shown}")),
        _ => {}
    }
    Ok(Cost {
        wall_s,
        cpu_s: (used.rusage.utime + used.rusage.stime).as_secs_f64(),
        rss_bytes: used.rusage.maxrss,
    })
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
}
