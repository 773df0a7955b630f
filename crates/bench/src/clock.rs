//! Clocks for measurements.

use std::time::Instant;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Processor time of this thread. It stands still while other processes have the processor, so they
/// disturb a measurement only by the caches that they use.
pub(crate) struct ThreadClock(Timespec);

impl ThreadClock {
    pub(crate) fn start() -> ThreadClock {
        ThreadClock(clock_gettime(ClockId::ThreadCPUTime))
    }

    pub(crate) fn seconds(&self) -> f64 {
        since(self.0, clock_gettime(ClockId::ThreadCPUTime))
    }
}

/// Elapsed time, and processor time of the whole process.
pub(crate) struct ProcessClock {
    wall: Instant,
    cpu: Timespec,
}

impl ProcessClock {
    pub(crate) fn start() -> ProcessClock {
        ProcessClock {
            wall: Instant::now(),
            cpu: clock_gettime(ClockId::ProcessCPUTime),
        }
    }

    /// Returns the seconds that passed, and the seconds of processor time.
    pub(crate) fn seconds(&self) -> (f64, f64) {
        let cpu = since(self.cpu, clock_gettime(ClockId::ProcessCPUTime));
        (self.wall.elapsed().as_secs_f64(), cpu)
    }
}

fn since(start: Timespec, now: Timespec) -> f64 {
    (now.tv_sec - start.tv_sec) as f64 + (now.tv_nsec - start.tv_nsec) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_takes_no_processor_time() {
        let (thread, process) = (ThreadClock::start(), ProcessClock::start());
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(thread.seconds() < 0.04 && process.seconds().0 > 0.04);
        let begin = Instant::now();
        while thread.seconds() < 0.02 {
            assert!(begin.elapsed().as_secs() < 60, "it never advances");
        }
        assert!(process.seconds().1 > 0.015);
    }
}
