//! FastCDC at speed: the cuts of [`spec::fastcdc`](crate::spec::fastcdc), by the loop of
//! [`gear`](crate::gear).

use crate::gear::{Plain, scan};
use crate::spec::FastCdcParameters;

/// See [`spec::fastcdc`](crate::spec::fastcdc).
pub(crate) fn cut(parameters: &FastCdcParameters, data: &[u8]) -> usize {
    let FastCdcParameters {
        size_min,
        size_average,
        size_max,
        ..
    } = *parameters;
    let end = data.len().min(size_max);
    if end <= size_min {
        return end;
    }
    let judged = end - end % 2;
    let middle = size_average.clamp(size_min, judged);

    let mut hash = 0;
    if let Some(found) = scan::<Plain>(&data[size_min..middle], &mut hash, parameters.mask_strict) {
        return size_min + found;
    }
    if let Some(found) = scan::<Plain>(&data[middle..judged], &mut hash, parameters.mask_loose) {
        return middle + found;
    }
    end
}
