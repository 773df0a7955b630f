//! Where servers of tests listen.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// A port that nobody has now. It lies below those that systems give to whoever connects, so that
/// nobody comes by it before its server is there, or while that is dead.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = 12_000 + (std::process::id() % 1000) as u16 * 16;
    loop {
        let port = begin + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
