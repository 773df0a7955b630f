//! SeqCDC at speed: the cuts of [`spec::seqcdc`](crate::spec::seqcdc), 64 pairs a step.

mod ahead;
mod scalar;
mod vector;

use ibid_simd::{BLOCK, Backend, Kernel, Vector};

use crate::{Equal, Mode, SeqCdcSettings};

/// See [`spec::seqcdc`](crate::spec::seqcdc).
pub(crate) fn cut(backend: Backend, settings: &SeqCdcSettings, data: &[u8]) -> usize {
    let end = data.len().min(settings.size_max);
    if end <= settings.size_min {
        return end;
    }
    match (settings.mode, settings.equal) {
        (Mode::Increasing, Equal::Absorb) => scan::<false, false>(backend, settings, data, end),
        (Mode::Increasing, Equal::Strict) => scan::<false, true>(backend, settings, data, end),
        (Mode::Decreasing, Equal::Absorb) => scan::<true, false>(backend, settings, data, end),
        (Mode::Decreasing, Equal::Strict) => scan::<true, true>(backend, settings, data, end),
    }
}

fn scan<const DECREASING: bool, const STRICT: bool>(
    backend: Backend,
    settings: &SeqCdcSettings,
    data: &[u8],
    end: usize,
) -> usize {
    if settings.seq_length > vector::SEQ_LENGTH_MOST {
        return scalar::scan::<DECREASING, STRICT>(settings, data, end);
    }
    backend.run(Scan::<DECREASING, STRICT> { settings, data, end })
}

/// The search for the end of a chunk in `data[..end]`, which is longer than the minimum.
struct Scan<'a, const DECREASING: bool, const STRICT: bool> {
    settings: &'a SeqCdcSettings,
    data: &'a [u8],
    end: usize,
}

impl<const DECREASING: bool, const STRICT: bool> Kernel for Scan<'_, DECREASING, STRICT> {
    type Output = usize;

    fn run_scalar(self) -> usize {
        scalar::scan::<DECREASING, STRICT>(self.settings, self.data, self.end)
    }

    #[inline(always)]
    fn run<V: Vector>(self, vector: V) -> usize {
        vector::scan::<V, DECREASING, STRICT>(vector, self.settings, self.data, self.end)
    }
}

/// Returns the remaining bytes, padded with copies of the last. The padding pairs neither rise nor
/// fall; under [`Equal::Strict`] they break a run that had no bytes left to grow anyway.
#[cold]
fn padded(bytes: &[u8]) -> [u8; BLOCK + 1] {
    let last = bytes.last().copied().unwrap_or_default();
    let mut block = [last; BLOCK + 1];
    block[..bytes.len()].copy_from_slice(bytes);
    block
}
