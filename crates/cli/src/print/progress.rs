//! How far it is: a bar on a terminal, now and then a line elsewhere.

use std::io::IsTerminal;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ibid_repo::{Counters, Monitor};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::numbers::{count, duration, size};
use super::talk;

const REDRAW: Duration = Duration::from_millis(100);
const LINE: Duration = Duration::from_secs(10);
/// The rate shown is that of about the last so many seconds.
const MEMORY_S: f64 = 8.0;

/// What is counted beside bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    Files,
    Records,
}

/// Shows what a [`Monitor`] counts until it is dropped.
pub(crate) struct Progress {
    thread: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    pub(crate) fn start(monitor: &Arc<Monitor>, unit: Unit, quiet: bool) -> Progress {
        if quiet {
            return Progress { thread: None };
        }
        let (stop, stopped) = mpsc::channel();
        let monitor = monitor.clone();
        let show = move || {
            if std::io::stderr().is_terminal() {
                draw(&monitor.counters, unit, &stopped);
            } else {
                tell(&monitor.counters, unit, &stopped);
            }
        };
        // The work does not need to be watched: where there is no thread for that, it goes on without.
        let thread = std::thread::Builder::new().spawn(show).ok();
        Progress {
            thread: thread.map(|thread| (stop, thread)),
        }
    }

    /// Says that the work is about to stop because somebody asked for it.
    pub(crate) fn stopping() {
        static ONCE: OnceLock<()> = OnceLock::new();
        ONCE.get_or_init(talk::stopping);
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

fn draw(counters: &Counters, unit: Unit, stopped: &mpsc::Receiver<()>) {
    let style = |template| ProgressStyle::with_template(template).expect("a valid template");
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(style("{spinner} {wide_msg}"));
    talk::set_bar(Some(bar.clone()));
    let mut pace = Pace::new();
    let mut has_total = false;
    while goes_on(stopped, REDRAW) {
        let (done, total) = (counters.bytes.load(Relaxed), total(counters));
        if let Some(total) = total {
            bar.set_length(total.max(done));
            if !has_total {
                has_total = true;
                bar.set_style(style("{spinner} [{bar:12}] {percent:>3}%  {wide_msg}").progress_chars("=> "));
            }
        }
        bar.set_position(done);
        bar.set_message(describe(counters, unit, pace.update(counters)));
        bar.tick();
    }
    talk::set_bar(None);
    bar.finish_and_clear();
}

fn tell(counters: &Counters, unit: Unit, stopped: &mpsc::Receiver<()>) {
    let mut pace = Pace::new();
    while goes_on(stopped, LINE) {
        talk::line(&describe(counters, unit, pace.update(counters)));
    }
}

fn total(counters: &Counters) -> Option<u64> {
    counters
        .totals_final
        .load(Relaxed)
        .then(|| counters.bytes_total.load(Relaxed))
}

fn describe(counters: &Counters, unit: Unit, pace: Rates) -> String {
    let done = counters.bytes.load(Relaxed);
    let mut text = String::new();
    if counters.verifying.load(Relaxed) {
        text += "verifying: ";
    }
    text += &size(done);
    let rate = size(pace.read as u64);
    let things = counters.files.load(Relaxed);
    let noun = match unit {
        Unit::Files => "files",
        Unit::Records => "records",
    };
    match total(counters) {
        // All is read; what was read may still have to be compressed and stored.
        Some(total) if total > 0 && done >= total => text += ", finishing",
        Some(total) => {
            text += &format!(" of {}, {rate}/s", size(total));
            if matches!(unit, Unit::Records) {
                text += &format!(", {} {noun}", count(things));
            }
            if pace.done >= 1.0 {
                text += &format!(
                    ", {} left",
                    duration(((total - done) as f64 / pace.done * 1000.0) as u64)
                );
            }
        }
        None => {
            text += &format!(", {rate}/s");
            if things > 0 {
                text += &format!(", {} {noun}", count(things));
            }
        }
    }
    text
}

/// Bytes a second.
#[derive(Clone, Copy, Default)]
struct Rates {
    /// As the work advances, with holes and unchanged files.
    done: f64,
    /// What is really read.
    read: f64,
}

/// Rates, smoothed.
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

    fn update(&mut self, counters: &Counters) -> Rates {
        let skipped = counters.skipped.load(Relaxed);
        let done = counters.bytes.load(Relaxed);
        let read = done.saturating_sub(skipped);
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
        let counters = Counters::default();
        counters.bytes.store(100 << 30, Relaxed);
        counters.skipped.store((100 << 30) - (1 << 20), Relaxed);
        let mut pace = Pace::new();
        std::thread::sleep(Duration::from_millis(20));
        let rates = pace.update(&counters);
        assert!(rates.read > 0.0 && rates.read < (60 << 20) as f64, "{}", rates.read);
        assert!(rates.done > rates.read * 1000.0, "{}", rates.done);
    }

    /// Beside the bar and the percentage, of which there are 23 columns.
    #[test]
    fn the_longest_line_fits_on_80_columns() {
        let counters = Counters::default();
        counters.bytes.store(1000 << 30, Relaxed);
        counters.files.store(123_456_789, Relaxed);
        let rate = (1000 << 20) as f64;
        let rates = Rates {
            done: rate / 3.0,
            read: rate,
        };
        let without_total = describe(&counters, Unit::Files, rates);
        counters.bytes_total.store(1020 << 30, Relaxed);
        counters.totals_final.store(true, Relaxed);
        let with_total = describe(&counters, Unit::Files, rates);
        for line in [without_total, with_total] {
            assert!(line.len() <= 80 - 23, "{line}");
        }
    }
}
