//! How much memory a decoder takes, for targets that hold it against the length of the input.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the bytes that each thread holds, and their peak.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that is ending has no counters any more.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: all calls go on to the system's allocator unchanged; counting touches only two cells of
// the thread and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the promises of `alloc`, which are the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the promises of `dealloc`, and the pointer is from `System`, where all
        // of ours are from.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns what `act` returns. Panics if it held more than `most` bytes at once, beyond those held
/// before.
#[track_caller]
pub fn within<T>(most: usize, act: impl FnOnce() -> T) -> T {
    let before = HELD.get();
    PEAK.set(before);
    let done = act();
    let peak = PEAK.get() - before;
    assert!(peak <= most as isize, "{peak} bytes at once, {most} expected at most");
    done
}
