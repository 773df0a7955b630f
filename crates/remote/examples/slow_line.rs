//! Runs a command as if its input and output went over a long line: every byte arrives so many milliseconds late.
//!
//! ```text
//! IBID_SSH='target/release/examples/slow_line 50 ssh' ibid --repo ssh://nas/srv/backup backup ~/letters
//! ```

use std::error::Error;
use std::io::{Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use std::{env, io, thread};

/// Pieces that are on their way at once.
const PIECES: usize = 16 << 10;

/// Copies a stream, late.
fn delayed(mut from: impl Read + Send + 'static, mut to: impl Write, delay: Duration) {
    let (sender, receiver) = sync_channel::<(Instant, Vec<u8>)>(PIECES);
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if sender.send((Instant::now() + delay, buffer[..read].to_vec())).is_err() {
                return;
            }
        }
    });
    for (at, bytes) in receiver {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1);
    let usage = "usage: slow_line MILLISECONDS COMMAND [ARGUMENT…]";
    let delay = arguments.next().and_then(|word| word.to_str()?.parse().ok());
    let delay = Duration::from_millis(delay.ok_or(usage)?);
    let mut child = Command::new(arguments.next().ok_or(usage)?)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (input, output) = (child.stdin.take().ok_or(usage)?, child.stdout.take().ok_or(usage)?);
    thread::spawn(move || delayed(io::stdin(), input, delay));
    delayed(output, io::stdout(), delay);
    let code = child.wait()?.code().unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}
