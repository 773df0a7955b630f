//! Runs many writers, readers and sweeps at once, each with its own handle, as in separate
//! processes.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ibid_storage::fault::FaultDisk;
use ibid_storage::{ErrorKind, Local, Name, Storage};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Ends the other threads of a test even if this one panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Four writers, each with a place of its own from `open`, meet on the same names.
fn race(open: impl Fn() -> Box<dyn Storage> + Sync, rounds: usize) {
    let barrier = Barrier::new(4);
    let winners: Vec<AtomicUsize> = (0..rounds).map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|scope| {
        for writer in 0..4_u8 {
            let (barrier, winners, open) = (&barrier, &winners, &open);
            scope.spawn(move || {
                let place = open();
                for (round, winner) in winners.iter().enumerate() {
                    barrier.wait();
                    match place.put(&name(&format!("folder/{round}")), &[&[writer; 4000]]) {
                        Ok(()) => {
                            winner.fetch_add(100 + usize::from(writer), Ordering::Relaxed);
                        }
                        Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
                    }
                }
            });
        }
    });
    let place = open();
    for (round, winner) in winners.iter().enumerate() {
        let winner = winner.load(Ordering::Relaxed);
        assert!((100..104).contains(&winner), "exactly one wins round {round}");
        let bytes = place.get(&name(&format!("folder/{round}")), u64::MAX).unwrap();
        assert!(bytes == vec![(winner - 100) as u8; 4000]);
    }
}

#[test]
fn exactly_one_of_several_writers_wins_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    Local::create(folder.path()).unwrap();
    race(|| Box::new(Local::open(folder.path()).unwrap()), 25);
}

#[test]
fn exactly_one_of_several_writers_wins_a_simulated_disk() {
    let disk = FaultDisk::new(1);
    Local::create_on(disk.clone(), "/place").unwrap();
    race(|| Box::new(Local::open_on(disk.clone(), "/place").unwrap()), 200);
}

#[test]
fn a_greedy_sweep_never_disturbs_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    let place = Local::create(folder.path()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sweeps = scope.spawn(|| {
            let sweeper = Local::open(folder.path()).unwrap();
            while !done.load(Ordering::Relaxed) {
                // With an age of zero, only the locks protect the writers.
                sweeper.sweep(Duration::ZERO).unwrap();
            }
        });
        let ends = Ends(&done);
        for i in 0..150 {
            place.put(&name(&format!("folder/{i}")), &[&[7; 100]]).unwrap();
        }
        drop(ends);
        sweeps.join().unwrap();
    });
    let mut count = 0;
    place
        .list("folder", &mut |_, size| count += u64::from(size == 100))
        .unwrap();
    assert_eq!(count, 150);
}

#[test]
fn a_reader_never_sees_a_part() {
    let disk = FaultDisk::new(1);
    disk.short_writes(true);
    let place = Local::create_on(disk, "/place").unwrap();
    let (done, seen) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                place.list("", &mut |_, size| assert_eq!(size, 2000)).unwrap();
                if let Ok(bytes) = place.get(&name("object"), u64::MAX) {
                    assert!(bytes == [9; 2000]);
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let ends = Ends(&done);
        for _ in 0..300 {
            place.put(&name("object"), &[&[9; 1000], &[9; 1000]]).unwrap();
            place.delete(&name("object")).unwrap();
        }
        place.put(&name("object"), &[&[9; 2000]]).unwrap();
        while seen.load(Ordering::Relaxed) == 0 && !reader.is_finished() {
            std::thread::yield_now();
        }
        drop(ends);
        reader.join().unwrap();
    });
}
