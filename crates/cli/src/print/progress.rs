//! How far it is: a bar on a terminal, now and then a line elsewhere.

use super::numbers::{count, duration, size};
use super::talk;
use ibid_repo::{Counters, Monitor};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const REDRAW: Duration = Duration::from_millis(100);
const LINE: Duration = Duration::from_secs(10);
/// The rate shown is that of about the last so many seconds.
const MEMORY_S: f64 = 8.0;

/// Shows what a [`Monitor`] counts until it is dropped.
pub(crate) struct Progress {
    thread: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    pub(crate) fn start(monitor: &Arc<Monitor>, quiet: bool) -> Progress {
        if quiet {
            return Progress { thread: None };
        }
        let (stop, stopped) = mpsc::channel();
        let monitor = monitor.clone();
        let thread = std::thread::spawn(move || {
            if std::io::stderr().is_terminal() {
                draw(&monitor.counters, &stopped);
            } else {
                tell(&monitor.counters, &stopped);
            }
        });
        Progress {
            thread: Some((stop, thread)),
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

fn draw(counters: &Counters, stopped: &mpsc::Receiver<()>) {
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
                bar.set_style(style("{spinner} [{bar:24}] {percent:>3}%  {wide_msg}").progress_chars("=> "));
            }
        }
        bar.set_position(done);
        bar.set_message(describe(counters, pace.update(done)));
        bar.tick();
    }
    talk::set_bar(None);
    bar.finish_and_clear();
}

fn tell(counters: &Counters, stopped: &mpsc::Receiver<()>) {
    let mut pace = Pace::new();
    while goes_on(stopped, LINE) {
        talk::line(&describe(counters, pace.update(counters.bytes.load(Relaxed))));
    }
}

fn total(counters: &Counters) -> Option<u64> {
    counters
        .totals_final
        .load(Relaxed)
        .then(|| counters.bytes_total.load(Relaxed))
}

fn describe(counters: &Counters, rate: f64) -> String {
    let done = counters.bytes.load(Relaxed);
    let mut text = size(done);
    if total(counters).is_some_and(|total| total > 0 && done >= total) {
        // All is read; what was read may still have to be compressed and stored.
        text += ", finishing";
    } else if let Some(total) = total(counters) {
        text += &format!(" of {}", size(total));
        text += &format!(", {}/s", size(rate as u64));
        if rate >= 1.0 && total > done {
            text += &format!(", {} left", duration(((total - done) as f64 / rate * 1000.0) as u64));
        }
    } else {
        text += &format!(", {}/s", size(rate as u64));
    }
    let files = counters.files.load(Relaxed);
    if files > 0 {
        text += &format!(", {} files", count(files));
    }
    text
}

/// Bytes a second, smoothed.
struct Pace {
    at: Instant,
    done: u64,
    rate: Option<f64>,
}

impl Pace {
    fn new() -> Pace {
        Pace {
            at: Instant::now(),
            done: 0,
            rate: None,
        }
    }

    fn update(&mut self, done: u64) -> f64 {
        let seconds = self.at.elapsed().as_secs_f64().max(1e-6);
        let now = done.saturating_sub(self.done) as f64 / seconds;
        let weight = 1.0 - (-seconds / MEMORY_S).exp();
        let rate = self.rate.map_or(now, |rate| rate + (now - rate) * weight);
        *self = Pace {
            at: Instant::now(),
            done,
            rate: Some(rate),
        };
        rate
    }
}
