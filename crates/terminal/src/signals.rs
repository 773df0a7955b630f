//! SIGINT, SIGTERM and SIGHUP: the first asks the program to stop, the second ends it.

use std::io::Result;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::Progress;

/// Calls `stop` when the user asks the program to stop, and reports it. A second signal ends the
/// program with exit code 130.
///
/// Signals that were ignored when the program started stay ignored, as `nohup` and shells require.
///
/// # Errors
/// The signal handlers or their thread can't be set up.
pub fn on_stop_signal(stop: impl Fn() + Send + 'static) -> Result<()> {
    let ignored = std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| ignored_signals(&status));
    // If the kernel does not tell which signals are ignored, SIGHUP keeps its disposition: `nohup`
    // ignores it, and otherwise it ends the program.
    let is_taken = |signal: &i32| ignored.map_or(*signal != SIGHUP, |ignored| ignored >> (signal - 1) & 1 == 0);
    let signals: Vec<i32> = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(is_taken).collect();
    let asked = Arc::new(AtomicBool::new(false));
    for &signal in &signals {
        // The order matters: the first registered handler runs first, and finds the flag as the
        // signal before left it.
        signal_hook::flag::register_conditional_shutdown(signal, 130, asked.clone())?;
        signal_hook::flag::register(signal, asked.clone())?;
    }
    let mut signals = signal_hook::iterator::Signals::new(signals)?;
    let listen = move || {
        for _ in signals.forever() {
            stop();
            Progress::stopping();
        }
    };
    std::thread::Builder::new().spawn(listen).map(drop)
}

/// Returns the signals that a process ignores, one bit each, given the kernel's status of it.
fn ignored_signals(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_kernel() {
        let status = "Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert_eq!(ignored_signals(status), Some(0x1001));
        assert_eq!(ignored_signals("Name:\tx\n"), None);
    }
}
