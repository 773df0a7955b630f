//! What the system says of processes, so that others on this machine can tell whether one still runs.

use std::os::unix::fs::MetadataExt;

use ibid_format::session::Process;

/// Returns what the system says of this process.
pub(crate) fn this_process() -> Process {
    let pid = std::process::id().into();
    Process {
        machine: read_line("/etc/machine-id"),
        boot: read_line("/proc/sys/kernel/random/boot_id"),
        namespace: namespace(),
        pid,
        started: process_started(pid).unwrap_or(0),
    }
}

fn read_line(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.trim().chars().take(256).collect()
}

/// Returns the number of the namespace of process ids, 0 if it can't be had.
fn namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino())
}

/// Returns when a process started, in ticks since the machine did.
pub(crate) fn process_started(pid: u64) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, which may have spaces and brackets, ends with the last bracket.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // A zombie has ended.
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    (state != "Z").then_some(started)
}
