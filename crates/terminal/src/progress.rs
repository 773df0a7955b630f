//! Progress: a bar on a terminal, otherwise nothing.

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::message::{message, set_bar};
use crate::number::{counted, duration, size};

const REDRAW: Duration = Duration::from_millis(100);
/// Longest part of a name that is shown, characters: the end of it.
const NAME_MAX: usize = 48;
/// Approximate seconds over which the shown rate is averaged.
const MEMORY_S: f64 = 8.0;

/// The unit that is counted besides bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Files.
    Files,
    /// Records.
    Records,
}

/// The state of the work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Bytes that are done, read or skipped.
    pub bytes: u64,
    /// Bytes of these that did not need to be read.
    pub bytes_skipped: u64,
    /// Bytes of all the work, once they are known.
    pub bytes_total: Option<u64>,
    /// Files or records that are done.
    pub count: u64,
    /// Name of what is worked on, escaped.
    pub name: Option<String>,
    /// What is done now, if it is another step than the first, such as `verifying`.
    pub step: Option<&'static str>,
}

/// Shows the progress on standard error until it is dropped, if that is a terminal.
#[derive(Debug)]
pub struct Progress {
    thread: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Whether progress is shown: only on a terminal.
    pub fn is_shown() -> bool {
        std::io::stderr().is_terminal()
    }

    /// Starts to show the result of `state`, which is called about ten times a second.
    pub fn start(unit: Unit, state: impl Fn() -> State + Send + 'static) -> Progress {
        if !Progress::is_shown() {
            return Progress { thread: None };
        }
        let (stop, stopped) = mpsc::channel();
        let show = move || draw(&state, unit, &stopped);
        // If the thread can't be started, no progress is shown.
        let thread = std::thread::Builder::new().spawn(show).ok();
        Progress {
            thread: thread.map(|thread| (stop, thread)),
        }
    }

    /// Reports once that a signal stops the work.
    pub(crate) fn stopping() {
        static ONCE: OnceLock<()> = OnceLock::new();
        ONCE.get_or_init(|| message("stopping; press Ctrl-C again to stop at once"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

fn goes_on(stopped: &mpsc::Receiver<()>, wait: Duration) -> bool {
    stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout)
}

fn draw(state: &dyn Fn() -> State, unit: Unit, stopped: &mpsc::Receiver<()>) {
    let style = |template| ProgressStyle::with_template(template).expect("a valid template");
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(style("{spinner} {prefix}\n  {wide_msg}"));
    set_bar(Some(bar.clone()));
    let mut pace = Pace::new();
    let mut has_total = false;
    while goes_on(stopped, REDRAW) {
        let state = state();
        if let Some(total) = state.bytes_total {
            bar.set_length(total.max(state.bytes));
            if !has_total {
                has_total = true;
                bar.set_style(
                    style("{spinner} [{bar:12}] {percent:>3}%  {prefix}\n  {wide_msg}").progress_chars("=> "),
                );
            }
        }
        bar.set_position(state.bytes);
        bar.set_prefix(describe(&state, pace.update(&state)));
        bar.set_message(done(&state, unit));
        bar.tick();
    }
    set_bar(None);
    bar.finish_and_clear();
}

/// Returns how many things are done, and the end of the name of one that is worked on.
fn done(state: &State, unit: Unit) -> String {
    let mut text = match unit {
        Unit::Files => counted(state.count, "file", "files"),
        Unit::Records => counted(state.count, "record", "records"),
    };
    if let Some(name) = &state.name {
        let length = name.chars().count();
        let end: String = name.chars().skip(length.saturating_sub(NAME_MAX)).collect();
        let cut = if length > NAME_MAX { "…" } else { "" };
        text += &format!("  {cut}{end}");
    }
    text
}

fn describe(state: &State, pace: Rates) -> String {
    let done = state.bytes;
    let mut text = String::new();
    if let Some(step) = state.step {
        text += &format!("{step}: ");
    }
    text += &size(done);
    let rate = size(pace.read as u64);
    match state.bytes_total {
        // Everything is read, but not everything is compressed and stored.
        Some(total) if total > 0 && done >= total => text += ", finishing",
        Some(total) => {
            text += &format!(" of {}, {rate}/s", size(total));
            if pace.done >= 1.0 {
                text += &format!(
                    ", {} left",
                    duration((total.saturating_sub(done) as f64 / pace.done * 1000.0) as u64)
                );
            }
        }
        None => text += &format!(", {rate}/s"),
    }
    text
}

/// Bytes a second.
#[derive(Clone, Copy, Default)]
struct Rates {
    /// Bytes that are done, including holes and unchanged files.
    done: f64,
    /// Bytes that were read.
    read: f64,
}

/// Measures smoothed rates.
struct Pace {
    at: Instant,
    done: u64,
    read: u64,
    rates: Option<Rates>,
}

impl Pace {
    fn new() -> Pace {
        Pace {
            at: Instant::now(),
            done: 0,
            read: 0,
            rates: None,
        }
    }

    fn update(&mut self, state: &State) -> Rates {
        let done = state.bytes;
        let read = done.saturating_sub(state.bytes_skipped);
        let seconds = self.at.elapsed().as_secs_f64().max(1e-6);
        let weight = 1.0 - (-seconds / MEMORY_S).exp();
        let smooth = |before: Option<f64>, more: u64| {
            let now = more as f64 / seconds;
            before.map_or(now, |rate| rate + (now - rate) * weight)
        };
        let rates = Rates {
            done: smooth(self.rates.map(|rates| rates.done), done.saturating_sub(self.done)),
            read: smooth(self.rates.map(|rates| rates.read), read.saturating_sub(self.read)),
        };
        *self = Pace {
            at: Instant::now(),
            done,
            read,
            rates: Some(rates),
        };
        rates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_of_what_was_read_and_the_time_left_of_what_was_done() {
        let state = State {
            bytes: 100 << 30,
            bytes_skipped: (100 << 30) - (1 << 20),
            ..State::default()
        };
        let mut pace = Pace::new();
        std::thread::sleep(Duration::from_millis(20));
        let rates = pace.update(&state);
        assert!(rates.read > 0.0 && rates.read < (60 << 20) as f64, "{}", rates.read);
        assert!(rates.done > rates.read * 1000.0, "{}", rates.done);
    }

    #[test]
    fn files_done_and_the_end_of_a_name_are_shown() {
        let state = |count, name: &str| State {
            count,
            name: Some(name.to_owned()),
            ..State::default()
        };
        assert_eq!(done(&state(1, "/home/me/a.txt"), Unit::Files), "1 file  /home/me/a.txt");
        let long = format!("/{}/ünd.txt", "x".repeat(100));
        let shown = done(&state(123_456_789, &long), Unit::Files);
        assert!(shown.contains(" files  …") && shown.ends_with("x/ünd.txt"), "{shown}");
        assert!(shown.chars().count() <= 78, "{shown}");
        assert_eq!(done(&State::default(), Unit::Records), "0 records");
    }

    /// Bar and percentage take 23 columns.
    #[test]
    fn more_may_be_done_than_was_expected() {
        let state = |bytes_total| State {
            bytes: 5 << 20,
            bytes_total: Some(bytes_total),
            step: Some("encoding"),
            ..State::default()
        };
        let rates = Rates {
            done: 1000.0,
            read: 1000.0,
        };
        assert_eq!(describe(&state(4 << 20), rates), "encoding: 5.0 MiB, finishing");
        assert_eq!(
            describe(&state(0), rates),
            "encoding: 5.0 MiB of 0 B, 1000 B/s, 0 ms left"
        );
    }

    #[test]
    fn the_longest_line_fits_on_80_columns() {
        let state = State {
            bytes: 1000 << 30,
            count: 123_456_789,
            ..State::default()
        };
        let rate = (1000 << 20) as f64;
        let rates = Rates {
            done: rate / 3.0,
            read: rate,
        };
        let without_total = describe(&state, rates);
        let state = State {
            bytes_total: Some(1020 << 30),
            ..state
        };
        let with_total = describe(&state, rates);
        for line in [without_total, with_total] {
            assert!(line.len() <= 80 - 23, "{line}");
        }
    }
}
