//! Replication over TCP, with or without [TLS](tls).
//!
//! Each message follows its length, a u32. Without TLS, or with TLS that does not ask for
//! certificates, anyone who can connect can read the whole store, and can fence a primary.

mod connection;
mod message;
mod serve;
pub mod tls;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub use connection::Connection;
pub use serve::serve;

use super::follow::LOOK_EVERY;

/// The longest silence of the other end.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A connection, encrypted or not.
pub(super) trait Stream: Read + Write + Send {
    /// Returns why the other end ended the connection, if it said so in TLS before. A connection
    /// that can't be written to any more may still have that to read.
    fn fault(&mut self) -> Option<tls::Fault>;
}

impl Stream for TcpStream {
    fn fault(&mut self) -> Option<tls::Fault> {
        None
    }
}

/// Sets short time limits, so that waiting threads can check whether to stop.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK_EVERY))?;
    stream.set_write_timeout(Some(LOOK_EVERY))
}

pub(super) fn is_late(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Returns the reason of an error of the operating system, without its number.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let number = error.raw_os_error().map(|number| format!(" (os error {number})"));
    let text = number.and_then(|number| text.strip_suffix(&number)).unwrap_or(&text);
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    // Not that of an abbreviation.
    match rest.starts_with(char::is_lowercase) {
        true => first.to_lowercase() + rest,
        false => text.to_owned(),
    }
}
