//! Standard output.

use std::io::{BufWriter, Error, ErrorKind, IsTerminal, Result, Stdout, Write};
use std::os::fd::AsFd;

use rustix::fs::{FileType, OFlags, SeekFrom, fcntl_getfl, fstat, ftruncate, seek, tell};
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

    /// Prints so many zeros. At the end of a regular file they become a hole, which takes no space.
    ///
    /// # Errors
    /// The disk is full, the file would be too large, or the pipe is closed.
    pub fn zeros(&mut self, mut length: u64) -> Result<()> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        if length >= ZEROS.len() as u64 {
            self.stdout.flush()?;
            if make_hole(self.stdout.get_ref(), length)? {
                return Ok(());
            }
        }
        while length > 0 {
            let now = length.min(ZEROS.len() as u64);
            self.stdout.write_all(&ZEROS[..now as usize])?;
            length -= now;
        }
        Ok(())
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
        // Not as a text first: a value may be long.
        serde_json::to_writer(&mut self.stdout, value)?;
        self.line("")
    }

    /// Writes the buffered text.
    ///
    /// # Errors
    /// The disk is full, or the pipe is closed.
    pub fn flush(&mut self) -> Result<()> {
        self.stdout.flush()
    }
}

/// Lengthens a regular file that ends where the next write goes, and moves there. Returns false if it
/// is another kind of file, or has more bytes after that place.
fn make_hole(file: impl AsFd, length: u64) -> Result<bool> {
    let stat = fstat(&file)?;
    let size = stat.st_size as u64;
    let is_at_end = || Ok::<_, Error>(fcntl_getfl(&file)?.contains(OFlags::APPEND) || tell(&file)? == size);
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || !is_at_end()? {
        return Ok(false);
    }
    let end = size.checked_add(length).ok_or(ErrorKind::FileTooLarge)?;
    ftruncate(&file, end)?;
    seek(&file, SeekFrom::End(0))?;
    Ok(true)
}
