//! The system's memory allocator, and the end of the program where it has no memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::{self, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// Ends the program with a message that says what to do. Rust's own way is to abort.
struct OrEnd;

#[global_allocator]
static ALLOCATOR: OrEnd = OrEnd;

/// The longest allocation whose failure ends the program, bytes. A longer one may be for a length that
/// a damaged file claims, and the caller handles it.
static LONGEST: AtomicUsize = AtomicUsize::new(1 << 30);
/// The budget of `--memory`, bytes; 0 before it is known.
static MEMORY: AtomicU64 = AtomicU64::new(0);
/// Whether the message must be JSON.
static JSON: AtomicBool = AtomicBool::new(false);
/// One more than the line up to which a load has stored records; 0 if none is going on.
static LOADED: AtomicU64 = AtomicU64::new(0);

/// Whether all changes of a command are on disk, so that only deltas are left to make.
static COMMITTED: AtomicBool = AtomicBool::new(false);

/// Notes whether the message must be JSON, before these arguments are parsed: even for that there may be no memory.
pub(crate) fn report_as_asked(arguments: impl Iterator<Item = std::ffi::OsString>) {
    let mut options = arguments.take_while(|argument| argument != "--");
    JSON.store(options.any(|option| option == "--json"), Relaxed);
}

/// Notes how to report that there is no memory.
pub(crate) fn report_with(memory: u64, json: bool) {
    MEMORY.store(memory, Relaxed);
    LONGEST.fetch_max(usize::try_from(memory).unwrap_or(usize::MAX), Relaxed);
    JSON.store(json, Relaxed);
}

/// Returns the budget of `--memory`, bytes.
pub(crate) fn memory() -> u64 {
    MEMORY.load(Relaxed)
}

/// Notes the line up to which a load has stored records for certain.
pub(crate) fn loaded_up_to(line: u64) {
    LOADED.store(line + 1, Relaxed);
}

/// Notes that all changes of a command are on disk.
pub(crate) fn committed() {
    COMMITTED.store(true, Relaxed);
}

#[allow(unsafe_code, reason = "an allocator is unsafe by its nature")]
// SAFETY: all is handed on to the system's allocator, which keeps to the rules.
unsafe impl GlobalAlloc for OrEnd {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps to the rules of `GlobalAlloc`, which are the same. So below.
        there(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        there(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, before: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        there(unsafe { System.realloc(before, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Returns `memory`, unless it could not be had.
fn there(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() && bytes <= LONGEST.load(Relaxed) {
        end(Some(bytes));
    }
    memory
}

/// Ends the program in the same way where memory is short elsewhere: std panics without a stack for
/// signals, zstd's library without memory for a context, and glibc aborts.
#[allow(unsafe_code, reason = "there is no safe interface to this signal")]
pub(crate) fn end_where_others_lack_memory() {
    // SAFETY: the handler takes the number of a signal, and does only what is allowed in a handler.
    unsafe { libc::signal(libc::SIGABRT, aborting as *const () as libc::sighandler_t) };
    let otherwise = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.payload().downcast_ref::<&str>().copied());
        if text.is_some_and(|text| text.contains("zstd returned null pointer")) || is_memory_short() {
            end(None);
        }
        otherwise(panic);
    }));
}

/// Ends the program with a message if memory is short, and otherwise as without this handler.
#[allow(unsafe_code, reason = "there is no safe interface to this signal")]
extern "C" fn aborting(signal: libc::c_int) {
    if is_memory_short() {
        end(None);
    }
    // SAFETY: both may be called in a handler. The signal comes again when this one returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Returns whether the system has no more memory for this program. May be called in a handler.
#[allow(unsafe_code, reason = "std has no way to ask for memory that may be refused")]
fn is_memory_short() -> bool {
    /// glibc asks the system for so much if it has none left, bytes.
    const ASKED: usize = 1 << 20;
    let (access, kind) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANON);
    // SAFETY: it maps memory at a place that is free.
    let mapped = unsafe { libc::mmap(std::ptr::null_mut(), ASKED, access, kind, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return true;
    }
    // SAFETY: nothing uses what was just mapped.
    unsafe { libc::munmap(mapped, ASKED) };
    false
}

/// Returns how many bytes of addresses the system lets this program have (`ulimit -v`), if it limits them.
/// May be called in a handler.
pub(crate) fn address_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::As).current
}

/// A text on the stack: there is no other place for it.
struct Text {
    bytes: [u8; 1024],
    length: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let place = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Ends the program because the system refused so many bytes, if that is known.
#[cold]
#[allow(
    unsafe_code,
    reason = "std could allocate, or wait for a lock that this thread holds"
)]
fn end(bytes: Option<usize>) -> ! {
    static ENDING: AtomicBool = AtomicBool::new(false);
    let mut text = Text {
        bytes: [0; 1024],
        length: 0,
    };
    // SAFETY: it takes a number and touches no memory.
    if unsafe { libc::isatty(libc::STDERR_FILENO) } == 1 {
        // There may be progress in the line.
        let _ = text.write_str("\r\x1b[K");
    }
    // A text that is too long is cut.
    let _ = write_message(&mut text, bytes);
    while ENDING.swap(true, Relaxed) {
        // Another thread ends the program.
        // SAFETY: it takes nothing and touches no memory.
        unsafe { libc::pause() };
    }
    let message = &text.bytes[..text.length];
    // SAFETY: the message is initialized memory of this length.
    unsafe { libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len()) };
    // SAFETY: it returns to nothing that could be left in a wrong state. What is on disk is as after a
    // kill, which every command survives.
    unsafe { libc::_exit(1) }
}

fn write_message(text: &mut Text, bytes: Option<usize>) -> fmt::Result {
    let json = JSON.load(Relaxed);
    text.write_str(match json {
        true => "{\"type\":\"error\",\"code\":1,\"message\":\"",
        false => "ibid: ",
    })?;
    text.write_str("not enough memory")?;
    let limit = address_limit();
    match (bytes, limit) {
        (Some(bytes), Some(limit)) => write!(
            text,
            ": the system refused {bytes} bytes, since `ulimit -v` is {} KiB",
            limit >> 10
        )?,
        (Some(bytes), None) => write!(text, ": the system refused {bytes} bytes")?,
        (None, Some(limit)) => write!(text, ": `ulimit -v` is {} KiB", limit >> 10)?,
        (None, None) => {}
    }
    match LOADED.load(Relaxed) {
        0 if COMMITTED.load(Relaxed) => text.write_str("; everything is stored, and may become smaller later")?,
        0 => {}
        1 => text.write_str("; perhaps nothing was stored. What the store has, `ibid records stats` shows")?,
        line => write!(
            text,
            "; records are stored up to line {}, perhaps up to a later one. Its key is then the last of `ibid records \
             scan --in-order --keys-only`",
            line - 1
        )?,
    }
    match MEMORY.load(Relaxed) >> 20 {
        0 => text.write_str(". Allow the program more")?,
        mib => write!(text, ". Give a --memory below {mib} MiB, or allow the program more")?,
    }
    if limit.is_none() {
        text.write_str(" (see `ulimit -v`)")?;
    }
    text.write_str(if json { "\"}\n" } else { "\n" })
}
