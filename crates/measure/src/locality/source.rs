//! Data, piece by piece.

use super::LocalityData;
use crate::inputs::Inputs;
use crate::{Error, Observer, Result, Series};
use ibid_chunk::Settings;
use std::fs::File;
use std::io::Read;

/// Read at once.
const PIECE: usize = 64 << 20;
/// Read between two words to the observer.
const STEP: usize = 4 << 20;

/// A stretch of a file.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    /// The bytes: those that were held back of the piece before, and more.
    pub(super) bytes: &'a [u8],
    /// How many of them the next piece starts after.
    pub(super) passed: usize,
    /// Whether a file starts here.
    pub(super) first: bool,
    /// Whether it ends here.
    pub(super) last: bool,
}

/// What there was.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// Gives all data to `take`. Of every piece but a file's last, so many bytes are held back for the next as the longest chunk may have, and one more.
pub(super) fn for_each_piece(
    data: &LocalityData,
    chunkers: &[Settings],
    observer: &mut impl Observer,
    mut take: impl FnMut(Piece<'_>),
) -> Result<Total> {
    let most = chunkers.iter().map(Settings::size_max).max().unwrap_or_default() + 1;
    for_each_file(data, observer, |reader, observer| {
        pieces(reader, most, observer, &mut take)
    })
}

/// Gives every file or version to `take`, which returns how many bytes it had.
pub(super) fn for_each_file<O: Observer>(
    data: &LocalityData,
    observer: &mut O,
    mut take: impl FnMut(&mut dyn Read, &mut O) -> std::io::Result<u64>,
) -> Result<Total> {
    let mut total = Total::default();
    match data {
        LocalityData::Files(paths) => {
            let inputs = Inputs::list(paths, observer)?;
            observer.expect(inputs.bytes);
            for input in &inputs.files {
                let result = File::open(&input.path).and_then(|mut file| take(&mut file, observer));
                match result.map_err(Error::file("read", &input.path)) {
                    Ok(bytes) => {
                        total.files += 1;
                        total.bytes += bytes;
                    }
                    Err(Error::File { source, .. }) if !input.is_named => observer.problem(&input.path, &source),
                    Err(error) => return Err(error),
                }
            }
        }
        LocalityData::Series(series) => {
            observer.expect(series.size.saturating_mul(u64::from(series.versions)));
            for_each_version(series, |version| {
                total.files += 1;
                total.bytes += take(&mut &version[..], observer).map_err(Error::file("read", "a version".as_ref()))?;
                Ok(())
            })?;
        }
    }
    Ok(total)
}

/// The versions of a series, two of them in memory at a time.
pub(super) fn for_each_version(series: &Series, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    series.validate()?;
    let failed = |error| Error::file("make", "a version".as_ref())(error);
    let mut version = Vec::new();
    series.first(&mut version).map_err(failed)?;
    take(&version)?;
    for n in 2..=series.versions {
        let mut next = Vec::with_capacity(version.len() + version.len() / 64);
        series
            .next(n, &version[..], version.len() as u64, &mut next)
            .map_err(failed)?;
        version = next;
        take(&version)?;
    }
    Ok(())
}

fn pieces<O: Observer>(
    reader: &mut dyn Read,
    most: usize,
    observer: &mut O,
    take: &mut impl FnMut(Piece<'_>),
) -> std::io::Result<u64> {
    let mut buffer = vec![0; PIECE + most];
    let (mut held, mut first, mut total) = (0, true, 0);
    loop {
        let (mut filled, mut last) = (held, false);
        while filled < buffer.len() && !last {
            let upto = buffer.len().min(filled + STEP);
            match reader.read(&mut buffer[filled..upto]) {
                Ok(0) => last = true,
                Ok(read) => {
                    filled += read;
                    total += read as u64;
                    if !observer.advance(read as u64) {
                        return Err(std::io::Error::other(crate::error::Stop));
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let piece = Piece {
            bytes: &buffer[..filled],
            passed: if last { filled } else { filled - most },
            first,
            last,
        };
        take(piece);
        if last {
            return Ok(total);
        }
        first = false;
        buffer.copy_within(filled - most..filled, 0);
        held = most;
    }
}
