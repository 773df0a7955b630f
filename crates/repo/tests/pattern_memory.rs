//! Patterns take memory in proportion to their text, whatever the text is, and a file that is no
//! list of patterns takes none.

#![allow(unsafe_code, reason = "an allocator that counts can be written in no other way")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs::File;
use std::path::Path;

use ibid_repo::{Error, Excludes, Patterns};

/// Counts the bytes that each thread holds and its peak, so that parallel tests do not count each
/// other's.
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

/// Returns what `act` returns, the bytes that it still holds, and the most that it held at once.
fn memory_of<T>(act: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let made = act();
    (made, (HELD.get() - before) as usize, (PEAK.get() - before) as usize)
}

const LINES: usize = 100_000;

/// Lists of files and folders, and wildcards as people write them.
fn usual_lines() -> Vec<String> {
    (0..LINES)
        .map(|n| match n % 10 {
            0..4 => format!("/home/anna/projects/{}/build/object-{n}.o", n % 97),
            4 => format!("*.suffix-{n}"),
            5 => format!("folder-{n}/"),
            6 => format!("projects/{n}/cache/"),
            7 => format!("/srv/*/of-user-{n}/**"),
            8 => format!("temporary-{n}-*.tmp"),
            _ => format!("!kept-{n}"),
        })
        .collect()
}

#[test]
fn many_patterns_take_little_more_memory_than_their_text() {
    let hostile = |n: usize| format!("*{n}*b?c[0-9a-f]{{x,y{{z,{n}}}}}");
    for lines in [usual_lines(), (0..LINES).map(hostile).collect()] {
        let text: usize = lines.iter().map(|line| line.len() + 1).sum();
        let (patterns, held, peak) = memory_of(|| Patterns::new(&lines, false).unwrap());
        assert!(
            held <= 3 * text && peak <= 6 * text,
            "{text} bytes of text: {held}, at most {peak}"
        );
        assert!(patterns.matches(Path::new("/x/temporary-8-a.tmp"), false) || lines[0].starts_with('*'));
    }
}

#[test]
fn more_patterns_than_memory_is_meant_for_are_refused() {
    let lines: Vec<String> = (0..1_000_000).map(|n| n.to_string()).collect();
    let (refused, _, peak) = memory_of(|| Patterns::new(&lines, false).unwrap_err());
    assert!(refused.to_string().contains("take 32 MiB of memory"), "{refused}");
    assert!(peak < 64 << 20, "{peak}");
}

/// Tries to back up without what a file lists. Returns the error, and the most memory that was
/// needed until then, bytes.
fn refused(file: &Path) -> (Error, usize) {
    let repository = support::repository();
    let folder = support::Folder::new();
    let excludes = Excludes::default().files([file.to_owned()]);
    let options = support::options(folder.path()).excludes(excludes);
    let (refused, _, peak) = memory_of(|| repository.backup(&options).unwrap_err());
    (refused, peak)
}

#[test]
fn a_file_that_is_no_list_of_patterns_is_refused_at_its_first_line() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    File::create(&image).unwrap().set_len(10 << 30).unwrap();
    let (error, peak) = refused(&image);
    let said = error.to_string();
    assert!(
        said.contains("in line 1 of") && said.contains("longer than 16 KiB"),
        "{said}"
    );
    assert!(said.len() < 2000 && peak < 1 << 20, "{peak} bytes for {said}");
}

#[test]
fn a_file_of_patterns_takes_no_memory_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("patterns");
    let text = usual_lines().join("\n") + "\n[\n";
    std::fs::write(&file, &text).unwrap();
    let (error, peak) = refused(&file);
    let last = format!("in line {}", LINES + 1);
    assert!(error.to_string().contains(&last), "{error}");
    assert!(peak <= 6 * text.len(), "{peak} bytes for {} bytes of text", text.len());
}
