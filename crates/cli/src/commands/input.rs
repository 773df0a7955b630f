//! What is read: files, and standard input.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::failure::{Failure, Result};

/// What stands for standard input where a file could be named.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// A file, or standard input.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read>> {
    if is_stdin(path) {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let file = File::open(path).map_err(|source| Failure::local("open", path, source))?;
    Ok(Box::new(file))
}

/// Standard input, for those who look now and then whether to stop: it does not wait for longer
/// than that.
pub(crate) struct PatientInput;

impl Read for PatientInput {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        const PATIENCE: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        let stdin = std::io::stdin();
        if poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&PATIENCE))? == 0 {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        Ok(rustix::io::read(&stdin, buffer)?)
    }
}
