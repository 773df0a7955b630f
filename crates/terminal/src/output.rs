//! Standard output.

use std::io::{BufWriter, IsTerminal, Result, Stdout, Write};

use serde::Serialize;

/// Standard output, buffered. A terminal gets each line at once.
#[derive(Debug)]
pub struct Output {
    stdout: BufWriter<Stdout>,
    is_terminal: bool,
}

impl Output {
    /// Takes over standard output. Text that is not flushed by [`Output::flush`] may be lost.
    #[allow(clippy::new_without_default, reason = "there is one standard output")]
    pub fn new() -> Output {
        let stdout = std::io::stdout();
        let is_terminal = stdout.is_terminal();
        Output {
            stdout: BufWriter::with_capacity(64 << 10, stdout),
            is_terminal,
        }
    }

    /// Returns whether standard output is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns the stream itself, for bytes that are printed as they are.
    pub fn raw(&mut self) -> &mut dyn Write {
        &mut self.stdout
    }

    /// Prints a line. Names in it must be escaped already.
    ///
    /// # Errors
    /// The disk is full, or the pipe is closed.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<()> {
        let written = writeln!(self.stdout, "{}", text.as_ref());
        let flushed = if self.is_terminal { self.stdout.flush() } else { Ok(()) };
        written.and(flushed)
    }

    /// Prints a value as one line of JSON.
    ///
    /// # Errors
    /// The disk is full, or the pipe is closed.
    pub fn json(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value)?;
        self.line(text)
    }

    /// Writes the buffered text.
    ///
    /// # Errors
    /// The disk is full, or the pipe is closed.
    pub fn flush(&mut self) -> Result<()> {
        self.stdout.flush()
    }
}
