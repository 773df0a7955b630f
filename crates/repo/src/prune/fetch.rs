//! Fetching packs before chunks in them are encoded anew, where the storage is far.
//!
//! Chunks are encoded anew in the order in which snapshots were made, against what they resemble, and are decoded from
//! their own bases before. So frames of one pack are needed at many moments, each a request. Packs of which most is
//! needed are fetched first, in long reads, and kept by the [local cache](crate::cache::Parts).

use ibid_format::FileId;
use ibid_format::pack::PackKind;

use super::plan::Plan;
use crate::index::{LoadedIndex, NumberSet};
use crate::layout::{folder, name_in};
use crate::threads::{REQUESTS, each};
use crate::{Repository, Result};

/// Frames that are neighbours are fetched together up to so many bytes.
const READ_MAX: u64 = 4 << 20;
/// Part of the memory budget for what is being fetched.
const MEMORY_SHARE: u64 = 16;
/// Part of what the cache may keep that is used for this.
const KEPT_SHARE: u64 = 2;

/// Bytes of a pack to fetch.
struct Stretch {
    pack: FileId,
    start: u64,
    length: u64,
}

impl Repository {
    /// Fetches the packs of which at least half is needed to encode chunks anew, as far as the cache has room, and
    /// returns their numbers. What is not fetched is read when it is needed. A rehearsal counts the requests.
    pub(super) fn fetch_to_encode(&self, loaded: &LoadedIndex, plan: &mut Plan) -> Result<NumberSet> {
        let mut fetched = NumberSet::default();
        let Some(parts) = self.files.parts.as_ref().filter(|_| !plan.anew.is_empty()) else {
            return Ok(fetched);
        };
        let mut room = parts.limit() / KEPT_SHARE;
        let mut stretches = Vec::new();
        for (number, pack) in loaded.index.packs() {
            if pack.kind != PackKind::Data || pack.size > room || parts.has(pack.id, 0, pack.size) {
                continue;
            }
            let before = stretches.len();
            let (mut needed, mut encodes) = (0, false);
            for frame in loaded.index.frames_of(number) {
                let is_anew = plan.anew.contains(frame);
                let (offset, sealed) = {
                    let frame = loaded.index.frame(frame);
                    (u64::from(frame.offset), u64::from(frame.sealed))
                };
                encodes |= is_anew;
                if is_anew || plan.facts.is_needed(frame)? || plan.facts.is_base(frame)? {
                    needed += sealed;
                }
                match stretches.get_mut(before..).and_then(|stretches| stretches.last_mut()) {
                    Some(Stretch { start, length, .. })
                        if *start + *length == offset && *length + sealed <= READ_MAX =>
                    {
                        *length += sealed;
                    }
                    _ => stretches.push(Stretch {
                        pack: pack.id,
                        start: offset,
                        length: sealed,
                    }),
                }
            }
            if encodes && needed * 2 >= pack.size {
                room -= pack.size;
                fetched.insert(number);
            } else {
                stretches.truncate(before);
            }
        }
        if let Some(rehearsal) = &self.files.rehearsal {
            stretches.iter().for_each(|stretch| rehearsal.spare_get(stretch.length));
            return Ok(fetched);
        }
        let at_once = (self.memory / MEMORY_SHARE / READ_MAX).clamp(1, REQUESTS as u64) as usize;
        for stretches in stretches.chunks(at_once) {
            self.monitor.check_cancelled()?;
            each(true, stretches, |stretch| {
                let mut bytes = vec![0; stretch.length as usize];
                let name = name_in(folder::PACKS, stretch.pack);
                // What can't be read is read again when it is needed, which says why.
                if self.files.storage.read_at(&name, stretch.start, &mut bytes).is_ok() {
                    parts.put(stretch.pack, stretch.start, &bytes);
                }
            });
        }
        Ok(fetched)
    }
}
