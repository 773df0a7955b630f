//! The processes that a program has started, and those that these have started in turn.
//!
//! A process group of their own would say the same, but processes of another group can't ask for a password on the
//! terminal, and what ends the group of ibid (`timeout`, a supervisor) would not end them.

use std::collections::HashMap;

use rustix::process::{Pid, Signal, kill_process};

/// A process, told from a later one with the same number by when it started.
#[derive(Clone, Copy)]
pub(super) struct Process {
    pid: i32,
    started: u64,
}

/// Returns all processes that this one has started, and those have, and so on. One whose parent has ended is not found.
pub(super) fn descendants(of: u32) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    let names = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for (parent, process) in pids.filter_map(running) {
        children.entry(parent).or_default().push(process);
    }
    let mut found = children.remove(&(of as i32)).unwrap_or_default();
    let mut at = 0;
    while let Some(process) = found.get(at) {
        found.extend(children.remove(&process.pid).unwrap_or_default());
        at += 1;
    }
    found
}

impl Process {
    /// Returns whether it still runs. One that has ended, and that its parent has not noticed yet, does not.
    pub(super) fn is_running(self) -> bool {
        running(self.pid).is_some_and(|(_, now)| now.started == self.started)
    }

    /// Sends it a signal, if it still runs.
    pub(super) fn send(self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.is_running()) {
            // It may have ended just now, or belong to another user, as with `sudo`, which passes the signal on.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Returns a process that runs, and the number of its parent.
fn running(pid: i32) -> Option<(i32, Process)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, which may have spaces and brackets, ends with the last bracket.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some((parent, Process { pid, started }))
}
