//! A sample of many files.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use crate::inputs::Inputs;
use crate::{Error, Observer, Random, Result};

/// Reads the beginning of every file, in all at most `most` bytes; all bytes if there are no more.
///
/// # Errors
/// A path that was named can't be read, or all files are empty. Files in folders that can't be read
/// are reported to the observer and left out.
pub fn sample(paths: &[PathBuf], most: usize, observer: &mut impl Observer) -> Result<Vec<u8>> {
    let inputs = Inputs::list(paths, observer)?;
    let share = (most as f64 / inputs.bytes as f64).min(1.0);
    let mut bytes = Vec::with_capacity(most.min(inputs.bytes as usize));
    for input in &inputs.files {
        let mut take = || {
            let file = File::open(&input.path)?;
            let wanted = (file.metadata()?.len() as f64 * share).ceil() as usize;
            let wanted = wanted.min(most - bytes.len());
            file.take(wanted as u64).read_to_end(&mut bytes)
        };
        match take() {
            Ok(_) => {}
            Err(error) if input.is_named => return Err(Error::file("read", &input.path)(error)),
            Err(error) => observer.problem(&input.path, &error),
        }
    }
    Ok(bytes)
}

/// Returns a sample of the named files, or `most` random bytes if none is named.
pub(crate) fn sample_or_random(paths: &[PathBuf], most: usize, observer: &mut impl Observer) -> Result<Vec<u8>> {
    match paths {
        [] => Ok(Random::new(1).bytes(most)),
        paths => sample(paths, most, observer),
    }
}
