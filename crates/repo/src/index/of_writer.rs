//! What a writer can know of deltas that lack their bases: it can't read which bases a frame has.

use super::loaded::LoadedIndex;
use super::number_set::NumberSet;
use crate::Result;
use crate::scratch::Scratch;

impl LoadedIndex {
    /// Makes the chunks of all frames unknown that may be encoded against what missing packs had. A base is less deep
    /// than the frames that need it. So these are the frames that are deeper than a chunk which was lost, and is not
    /// stored elsewhere in a frame that is no deeper.
    pub(super) fn lose_what_may_lack_bases(&mut self, scratch: &Scratch) -> Result<()> {
        let missing = self.missing_packs();
        let mut least: Option<u8> = None;
        for &id in &self.trusted {
            scratch.monitor.check_cancelled()?;
            let file = match scratch.files.read_index(id) {
                Ok(file) => file,
                // What it says of lost chunks is not known.
                Err(error) if error.is_fault() => {
                    least = Some(0);
                    continue;
                }
                Err(error) => return Err(error),
            };
            missing.each_chunk(&file, |_, entry, frame| {
                if least.is_none_or(|least| frame.depth < least) {
                    let elsewhere = self.index.get_stored(&entry.id);
                    if elsewhere.is_none_or(|place| self.index.frame(place.frame).depth > frame.depth) {
                        least = Some(frame.depth);
                    }
                }
                Ok(())
            })?;
        }
        if let Some(least) = least {
            let mut lost = NumberSet::default();
            self.index.each_frame(|number, frame| {
                if frame.depth > least {
                    lost.insert(number);
                }
                Ok(())
            })?;
            self.index.lose(lost.iter());
        }
        Ok(())
    }
}
