//! Fetching packs before chunks in them are encoded anew, where the storage is far.
//!
//! Chunks are encoded anew in the order in which snapshots were made, against what they resemble, and are decoded from
//! their own bases before. So frames of one pack are needed at many moments, each a request. Packs of which most is
//! needed, and small ones, are fetched first, in long reads, and kept by the [local cache](crate::cache::Parts).

use ibid_format::pack::PackKind;

use super::plan::Plan;
use crate::index::LoadedIndex;
use crate::read::{Ahead, FrameSource, GAP_MAX};
use crate::{Repository, Result};

/// Part of the memory budget for what is being fetched.
const MEMORY_SHARE: u64 = 8;
/// Part of what the cache may keep that is used for this.
const KEPT_SHARE: u64 = 2;

impl Repository {
    /// Fetches the packs of which at least half is needed to encode chunks anew, and those whose frames would take more
    /// requests than the rest is worth, as far as the cache has room. What is not fetched is read when it is needed. A
    /// rehearsal counts the requests.
    pub(super) fn fetch_to_encode(&self, loaded: &LoadedIndex, plan: &mut Plan) -> Result<()> {
        let Some(parts) = self.files.parts.as_ref().filter(|_| !plan.anew.is_empty()) else {
            return Ok(());
        };
        let mut room = parts.limit() / KEPT_SHARE;
        let (mut fetched, mut frames) = (Vec::new(), Vec::new());
        for (number, pack) in loaded.index.packs() {
            if pack.kind != PackKind::Data || pack.size > room {
                continue;
            }
            let (mut needed, mut count, mut encodes) = (0, 0, false);
            for frame in loaded.index.frames_of(number) {
                let is_anew = plan.anew.contains(frame);
                encodes |= is_anew;
                if is_anew || plan.facts.is_needed(frame)? || plan.facts.is_base(frame)? {
                    needed += u64::from(loaded.index.frame(frame).sealed);
                    count += 1;
                }
            }
            let rest = pack.size.saturating_sub(needed);
            if encodes && (rest <= needed || rest / GAP_MAX < count) {
                room -= pack.size;
                fetched.push(pack.id);
                frames.extend(loaded.index.frames_of(number));
            }
        }
        let from = FrameSource {
            files: &self.files,
            loaded,
            cache: None,
            keeps: true,
        };
        let ahead = Ahead::new(self.memory / MEMORY_SHARE);
        let take_all = || {
            ahead.plan(from, &frames);
            let mut plain = Vec::new();
            for &frame in &frames {
                self.monitor.check_cancelled()?;
                // What can't be read is read again when it is needed, which says why.
                ahead.take(from, frame, &mut plain);
            }
            Ok(())
        };
        if !frames.is_empty() {
            ahead.while_fetching(from, take_all)?;
        }
        if let Some(rehearsal) = &self.files.rehearsal {
            fetched.iter().for_each(|pack| rehearsal.fetches_pack(*pack));
        }
        Ok(())
    }
}
