//! Bursts of writes: figure 11b.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use ibid_record::{Encoding, Namespace, NamespaceStatistics, Store};

use super::stores::in_a_store;
use super::{Bursts, BurstsRun, RecordsPlan};
use crate::{Error, Observer, Result};

/// Slices of a burst.
const SLICES: u32 = 10;
/// The longest time between two checks of whether to stop.
const NAP: Duration = Duration::from_millis(20);

/// Returns the bytes that the bursts count as in the progress, close to the bytes that they store,
/// so that progress is even.
pub(super) fn expected(bursts: Bursts, bytes: u64) -> u64 {
    u64::from(bursts.count.min(1)) * bytes
}

/// Runs the bursts on a store of their own. They count as `expected` bytes.
pub(super) fn run(
    plan: &RecordsPlan,
    write_back: bool,
    expected: u64,
    observer: &mut dyn Observer,
) -> Result<BurstsRun> {
    let usual = Encoding::default();
    let at_once = usual.with_write_back_bytes(0).with_lossy(false);
    let encoding = if write_back { usual } else { at_once };
    in_a_store(plan, encoding, |store, space| {
        play(plan, store, space, write_back, expected, observer)
    })
}

fn play(
    plan: &RecordsPlan,
    store: &Store,
    space: &Namespace,
    write_back: bool,
    expected: u64,
    observer: &mut dyn Observer,
) -> Result<BurstsRun> {
    let Bursts { count, busy, idle } = plan.bursts;
    let slice = (busy / SLICES).max(Duration::from_millis(1));
    let period = busy + idle;
    let all = period * count;
    let mut slices = vec![0; all.div_duration_f64(slice).ceil() as usize];
    let mut done = 0;
    // Progress is measured in time.
    let mut go_on = |at: Duration| {
        let due = (at.div_duration_f64(all).min(1.0) * expected as f64) as u64;
        let more = due.saturating_sub(done);
        done += more;
        if observer.advance(more) {
            Ok(())
        } else {
            Err(Error::Stopped)
        }
    };
    let mut records = Endless::new(plan);
    let start = Instant::now();
    for burst in 0..count {
        let begins = period * burst;
        let last = begins + busy - Duration::from_nanos(1);
        // A burst stores at least one record, however late its thread wakes up.
        loop {
            let at = start.elapsed();
            let (key, body) = records.next();
            space.put(&key, body)?;
            // A record counts in the slice in which its write began: the last write of a burst may
            // end after the burst.
            if let Some(slice) = slices.get_mut(at.min(last).div_duration_f64(slice) as usize) {
                *slice += 1;
            }
            go_on(at)?;
            if start.elapsed() > last {
                break;
            }
        }
        let ends = begins + period;
        while let Some(left) = ends.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
            std::thread::sleep(left.min(NAP));
            go_on(start.elapsed())?;
        }
    }
    go_on(all)?;
    let found = store.statistics(&mut |_| ControlFlow::Continue(()))?;
    let of = |figure: fn(&NamespaceStatistics) -> u64| found.namespaces.first().map_or(0, figure);
    Ok(BurstsRun {
        write_back,
        slice_seconds: slice.as_secs_f64(),
        slices,
        bytes: of(|space| space.records.bytes),
        stored_bytes: of(NamespaceStatistics::stored_bytes),
        dropped: found.encoding.dropped,
    })
}

/// All records, over and over, under other keys in each round.
struct Endless<'p> {
    records: &'p [(Vec<u8>, Vec<u8>)],
    next: usize,
    round: u64,
}

impl<'p> Endless<'p> {
    /// The plan must have records.
    fn new(plan: &'p RecordsPlan) -> Endless<'p> {
        Endless {
            records: &plan.records,
            next: 0,
            round: 0,
        }
    }

    fn next(&mut self) -> (Vec<u8>, &'p [u8]) {
        if self.next == self.records.len() {
            (self.next, self.round) = (0, self.round + 1);
        }
        let (key, body) = &self.records[self.next];
        self.next += 1;
        let mut key = key.clone();
        if self.round > 0 {
            key.extend(format!("/{}", self.round).into_bytes());
        }
        (key, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unobserved;

    fn plan(folder: &std::path::Path) -> RecordsPlan {
        let body = |version: u32| format!("{version} {}", "in the same place ".repeat(40)).into_bytes();
        RecordsPlan {
            records: (0..50).map(|version| (b"ibid".to_vec(), body(version))).collect(),
            folder: folder.to_owned(),
            traces: Vec::new(),
            bursts: Bursts {
                count: 2,
                busy: Duration::from_millis(20),
                idle: Duration::from_millis(30),
            },
        }
    }

    #[test]
    fn nothing_is_stored_between_bursts() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(folder.path());
        for write_back in [true, false] {
            let found = run(&plan, write_back, 1000, &mut Unobserved).unwrap();
            assert_eq!((found.slices.len(), found.write_back), (50, write_back));
            let stored = |slices: &[u64]| slices.iter().sum::<u64>();
            let parts = [0..10, 10..25, 25..35, 35..50].map(|part| stored(&found.slices[part]) > 0);
            assert_eq!(parts, [true, false, true, false], "{:?}", found.slices);
            assert!(found.bytes > 0 && found.stored_bytes <= found.bytes);
        }
    }

    #[test]
    fn rounds_have_keys_of_their_own() {
        let plan = plan(std::path::Path::new("nowhere"));
        let mut records = Endless::new(&plan);
        let keys: Vec<Vec<u8>> = std::iter::repeat_with(|| records.next().0).take(101).collect();
        assert_eq!(
            (&keys[49][..], &keys[50][..], &keys[100][..]),
            (&b"ibid"[..], &b"ibid/1"[..], &b"ibid/2"[..])
        );
    }
}
