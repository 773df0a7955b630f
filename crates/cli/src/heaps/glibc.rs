//! Heaps of glibc, which take memory from the system and keep it: how many there are, and what they give back.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::allocator::address_limit;

/// Makes glibc take large buffers from the system, and give each back when it is freed.
///
/// This is how glibc begins. Once such a buffer is freed, however, it keeps buffers of up to that
/// size, at most 32 MiB, in heaps of its own, and gives back no more than the end of a heap. Buffers
/// of many sizes then leave gaps: with 256 MiB, a backup of 5.2 GiB took 456 MiB instead of 216.
///
/// Call this before any thread starts.
pub(crate) fn set_up() {
    /// glibc's own initial value, bytes. Setting it ends its growth.
    const LARGE: i32 = 128 << 10;
    set(libc::M_MMAP_THRESHOLD, LARGE);
}

/// Lets threads share heaps, the more of them the smaller the budget is. A heap gives back no more than its end: with
/// 16 MiB and one for each thread, a store that six replicas asked took 29 MiB instead of 22.
///
/// If the program may have few addresses (`ulimit -v`), there is one heap. Otherwise glibc reserves 64 MiB of addresses
/// for each, of which it may use little: with 300 MB, no load was possible, however small its `--memory`.
///
/// Call this before any thread starts.
pub(crate) fn keep_to(memory: u64) {
    /// The part of the budget for each heap, bytes.
    const HEAP: u64 = 32 << 20;
    let heaps = match address_limit() {
        Some(_) => 1,
        None => (memory / HEAP).clamp(1, 1 << 16) as i32,
    };
    set(libc::M_ARENA_MAX, heaps);
    stay_within(memory);
}

/// Gives what heaps do not use back to the system whenever the program takes much of its budget.
///
/// By itself, a heap gives back no more than its end. Where many short buffers come and go, as in a load of random
/// updates, gaps stay between those that are in use: with 512 MiB, 290 MiB of these took 623 MiB of the system.
fn stay_within(memory: u64) {
    /// How often it looks.
    const LOOK: Duration = Duration::from_millis(50);
    /// After it has given memory back, it rests for so many times as long: less if little of the budget is left.
    const REST: u32 = 20;
    const REST_WHEN_SHORT: u32 = 2;
    const STACK_BYTES: usize = 64 << 10;
    let Ok(taken) = Taken::open() else {
        return; // without /proc, as in some containers
    };
    let (much, nearly_all) = (memory / 4 * 3, memory / 8 * 7);
    let watch = move || {
        loop {
            std::thread::sleep(LOOK);
            let bytes = taken.bytes();
            if bytes >= much {
                let begun = Instant::now();
                give_back();
                let rest = if bytes >= nearly_all { REST_WHEN_SHORT } else { REST };
                std::thread::sleep(begun.elapsed() * rest);
            }
        }
    };
    // Where no thread can be started, the program works as well, and takes more memory.
    let thread = std::thread::Builder::new().name("ibid-memory".to_owned());
    let _ = thread.stack_size(STACK_BYTES).spawn(watch);
}

/// How much memory this program takes.
struct Taken(File);

impl Taken {
    fn open() -> std::io::Result<Self> {
        File::open("/proc/self/statm").map(Taken)
    }

    /// Returns the bytes of memory that no file stands behind; 0 if they are not known.
    fn bytes(&self) -> u64 {
        let mut text = [0; 128];
        let length = self.0.read_at(&mut text, 0).unwrap_or(0);
        let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
        let mut pages = text
            .split_ascii_whitespace()
            .skip(1)
            .map(|pages| pages.parse().unwrap_or(0));
        let (resident, shared): (u64, u64) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
        resident.saturating_sub(shared) * rustix::param::page_size() as u64
    }
}

#[allow(unsafe_code, reason = "there is no safe interface to the allocator")]
fn give_back() {
    // SAFETY: it takes a number, and locks each heap while it gives back what nothing uses.
    unsafe { libc::malloc_trim(0) };
}

#[allow(unsafe_code, reason = "there is no safe interface to the allocator's settings")]
fn set(setting: i32, value: i32) {
    // SAFETY: mallopt takes two integers and returns one. It may be called while there is only one
    // thread, which the caller of `set_up` promises.
    let is_set = unsafe { libc::mallopt(setting, value) };
    debug_assert_eq!(is_set, 1, "glibc takes these values");
}
