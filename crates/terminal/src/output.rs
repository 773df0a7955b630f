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
    /// Takes over standard output. What is not flushed by [`Output::flush`] may be lost.
    #[allow(clippy::new_without_default, reason = "there is one standard output")]
    pub fn new() -> Output {
        let stdout = std::io::stdout();
        let is_terminal = stdout.is_terminal();
        Output {
            stdout: BufWriter::with_capacity(64 << 10, stdout),
            is_terminal,
        }
    }

    /// Whether standard output is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns the stream itself, for bytes that are printed as they are.
    pub fn raw(&mut self) -> &mut dyn Write {
        &mut self.stdout
    }

    /// Prints a line. Names in it must have been escaped before.
    ///
    /// # Errors
    /// A full disk, a closed pipe.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<()> {
        let written = writeln!(self.stdout, "{}", text.as_ref());
        let flushed = if self.is_terminal { self.stdout.flush() } else { Ok(()) };
        written.and(flushed)
    }

    /// Prints a value as one line of JSON.
    ///
    /// # Errors
    /// A full disk, a closed pipe.
    pub fn json(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value)?;
        self.line(text)
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// A full disk, a closed pipe.
    pub fn flush(&mut self) -> Result<()> {
        self.stdout.flush()
    }
}
