//! Finds the first or the last place whose hash fits.

use super::{Fit, Roll};

/// Bytes of a step: enough that the loop's own overhead does not matter.
const STEP: usize = 8;
/// Lanes side by side, which hide the latency of a hash.
const LANES: usize = 4;

/// Lanes of so many steps, one after another in the data. Short lanes waste little at a boundary,
/// but each starts with a window that the lane before hashes too.
type Block<const TURNS: usize> = [[[u8; STEP]; TURNS]; LANES];

/// Returns the first length, from `least` on, at which the hash of the window before it fits.
pub(super) fn first<R: Roll, F: Fit>(data: &[u8], least: usize, test: &F) -> Option<usize> {
    if R::WINDOW > 64 {
        first_in_blocks::<R, F, 128>(data, least, test)
    } else {
        first_in_blocks::<R, F, 32>(data, least, test)
    }
}

fn first_in_blocks<R: Roll, F: Fit, const TURNS: usize>(data: &[u8], least: usize, test: &F) -> Option<usize> {
    let mut roll = start::<R>(&data[least - R::WINDOW..least]);
    if test.fits(roll.hash()) {
        return Some(least);
    }
    // The bytes that enter, and those that leave at the same time.
    let (mut entering, mut leaving) = (&data[least..], &data[least - R::WINDOW..]);
    let mut passed = least;
    while let (Some(enter), Some(leave)) = (block::<TURNS>(entering), block(leaving)) {
        if let Some(found) = in_block(enter, leave, &mut roll, test) {
            return Some(passed + found + 1);
        }
        let len = size_of_val(enter);
        (entering, leaving) = (&entering[len..], &leaving[len..]);
        passed += len;
    }
    Some(passed + in_lane(entering, leaving, &mut roll, test)? + 1)
}

/// Returns the last length, from `least` on, at which the hash of the window before it fits.
pub(super) fn last<R: Roll, F: Fit>(data: &[u8], least: usize, test: &F) -> Option<usize> {
    /// Lengths tested in one pass, before the search moves back.
    const STRETCH: usize = 512;
    let mut end = data.len() + 1;
    while end > least {
        // This pass tests the lengths `begin..end`.
        let begin = end.saturating_sub(STRETCH).max(least);
        let mut roll = start::<R>(&data[begin - R::WINDOW..begin]);
        let mut found = test.fits(roll.hash()).then_some(begin);
        for len in begin + 1..end {
            roll = roll.enter(data[len - 1]).leave(data[len - 1 - R::WINDOW]);
            if test.fits(roll.hash()) {
                found = Some(len);
            }
        }
        if found.is_some() {
            return found;
        }
        end = begin;
    }
    None
}

/// Returns the hash of a window.
#[inline(always)]
fn start<R: Roll>(window: &[u8]) -> R {
    window.iter().fold(R::START, |roll, byte| roll.enter(*byte))
}

/// Returns the block at the start of the bytes, if there are enough.
#[inline(always)]
fn block<const TURNS: usize>(bytes: &[u8]) -> Option<&Block<TURNS>> {
    let (steps, _) = bytes.as_chunks();
    let (lanes, _) = steps.as_chunks();
    lanes.first_chunk()
}

/// Returns the position of the first byte of a block at which the rolling hash fits.
#[inline(never)]
#[allow(
    clippy::needless_range_loop,
    reason = "lanes, turns and steps are indices of two blocks alike"
)]
fn in_block<R: Roll, F: Fit, const TURNS: usize>(
    entering: &Block<TURNS>,
    leaving: &Block<TURNS>,
    roll: &mut R,
    test: &F,
) -> Option<usize> {
    let mut rolls = [R::START; LANES];
    // The first bytes to leave a lane are the window before it.
    for turn in 0..R::WINDOW / STEP {
        for step in 0..STEP {
            for lane in 1..LANES {
                rolls[lane] = rolls[lane].enter(leaving[lane][turn][step]);
            }
        }
    }
    rolls[0] = *roll;
    for turn in 0..TURNS {
        for step in 0..STEP {
            for lane in 0..LANES {
                let (enter, leave) = (entering[lane][turn][step], leaving[lane][turn][step]);
                rolls[lane] = rolls[lane].enter(enter).leave(leave);
                if test.fits(rolls[lane].hash()) {
                    return Some(find_in_block(entering, leaving, *roll, test, turn * STEP));
                }
            }
        }
    }
    *roll = rolls[LANES - 1];
    None
}

/// Returns the first boundary of a block that has one, but none among the first `passed` bytes of
/// any lane.
#[cold]
fn find_in_block<R: Roll, F: Fit, const TURNS: usize>(
    entering: &Block<TURNS>,
    leaving: &Block<TURNS>,
    roll: R,
    test: &F,
    passed: usize,
) -> usize {
    let (entering, leaving) = (
        entering.as_flattened().as_flattened(),
        leaving.as_flattened().as_flattened(),
    );
    for lane in 0..LANES {
        let (from, to) = (lane * TURNS * STEP + passed, (lane + 1) * TURNS * STEP);
        let mut roll = match from {
            0 => roll,
            // The next bytes to leave are the window before `from`.
            _ if from + R::WINDOW <= leaving.len() => start(&leaving[from..from + R::WINDOW]),
            _ => start(&entering[from - R::WINDOW..from]),
        };
        if let Some(found) = in_lane(&entering[from..to], &leaving[from..to], &mut roll, test) {
            return from + found;
        }
    }
    unreachable!("a lane stopped at a boundary")
}

/// Does [`in_block`] for one lane of any length. `leaving` is at least as long as `entering`.
fn in_lane<R: Roll, F: Fit>(entering: &[u8], leaving: &[u8], roll: &mut R, test: &F) -> Option<usize> {
    entering.iter().zip(leaving).position(|(enter, leave)| {
        *roll = roll.enter(*enter).leave(*leave);
        test.fits(roll.hash())
    })
}
