//! Files and standard input.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::FileError;

/// Returns whether a path is `-`, which stands for standard input.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Opens a file, or standard input for `-`.
///
/// # Errors
/// The file can't be opened.
pub fn open(path: &Path) -> Result<Box<dyn Read>, FileError> {
    if is_stdin(path) {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let file = File::open(path).map_err(|source| FileError::new("open", path, source))?;
    Ok(Box::new(file))
}

/// Standard input for readers that can be stopped; see [`Patient`].
#[derive(Debug)]
pub struct PatientInput;

impl Read for PatientInput {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        Patient(std::io::stdin()).read(buffer)
    }
}

/// A pipe or another file for readers that can be stopped: after 100 ms without input, a read fails
/// with [`Interrupted`](std::io::ErrorKind::Interrupted) instead of waiting longer. It reads past any
/// buffer of the file.
#[derive(Debug)]
pub struct Patient<F>(pub F);

impl<F: AsFd> Read for Patient<F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        const PATIENCE: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        if poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&PATIENCE))? == 0 {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        Ok(rustix::io::read(&self.0, buffer)?)
    }
}
