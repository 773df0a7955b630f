//! How long a connection of TCP lives of whose other end nothing is heard.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt;

/// After so long without a word, the other end is asked whether it is there.
const IDLE: Duration = Duration::from_secs(60);
/// How often and how many times it is asked.
const ASK_EVERY: Duration = Duration::from_secs(15);
const ASKS: u32 = 4;
/// How long bytes may be on their way without being confirmed.
#[cfg(target_os = "linux")]
const UNCONFIRMED_MS: u32 = 120_000;

/// Has the system end a connection whose other end is gone without a word.
pub(super) fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, IDLE)?;
    sockopt::set_tcp_keepintvl(stream, ASK_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, ASKS)?;
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(stream, UNCONFIRMED_MS)?;
    Ok(())
}

/// Returns the reason of an error of the system, without its number.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let number = error.raw_os_error().map(|number| format!(" (os error {number})"));
    number
        .and_then(|number| text.strip_suffix(&number))
        .unwrap_or(&text)
        .to_owned()
}
