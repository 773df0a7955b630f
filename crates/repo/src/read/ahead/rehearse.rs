//! What would be fetched ahead, in a rehearsal.

use super::segments::{self, Segment, Span};
use super::{Ahead, FrameSource};
use crate::rehearsal::{Inexact, Rehearsal};
use crate::{Monitor, Result};

impl Ahead {
    /// Counts the requests that would fetch these frames, in a rehearsal.
    pub(super) fn rehearse(&self, from: FrameSource<'_>, mut spans: Vec<Span>) {
        let Some(rehearsal) = &from.files.rehearsal else { return };
        let mut reads = self.rehearsed.lock().expect("no holder of this lock panics");
        spans.retain(|span| reads.add(from.loaded, rehearsal, span.frame));
        if from.cache.is_some() && reads.bytes() > self.room {
            // Several threads take them, and may be too far apart for what is in memory.
            rehearsal.doubt(Inexact::Again);
        }
        for group in self.divide(from, &spans) {
            let bases = self.bases_of(from, group);
            let found = bases.found.iter().map(|(_, base)| *base);
            let mut all = group.to_vec();
            all.extend(found.filter(|base| reads.add(from.loaded, rehearsal, base.frame)));
            match bases.is_cut {
                true => reads.bases_unknown(from.loaded, all.iter().map(|span| span.frame)),
                false => reads.bases_unknown(from.loaded, bases.unknown.into_iter()),
            }
            spare(from, rehearsal, &segments::join(&all, self.longest()));
        }
    }

    /// Counts the requests that would fetch the bases of all that was planned, in a rehearsal.
    pub(crate) fn rehearse_bases(&self, from: FrameSource<'_>, monitor: &Monitor) -> Result<()> {
        let Some(rehearsal) = &from.files.rehearsal else {
            return Ok(());
        };
        let mut reads = self.rehearsed.lock().expect("no holder of this lock panics");
        if !from.follows_bases() || !reads.has_deltas() {
            return Ok(());
        }
        for bases in reads.bases(from.files, from.loaded, monitor)? {
            rehearsal.doubt(Inexact::Bases);
            let mut spans: Vec<Span> = bases.iter().filter_map(|&base| Span::of(from, base)).collect();
            spans.sort_unstable_by_key(|span| span.frame);
            for group in self.divide(from, &spans) {
                spare(from, rehearsal, &segments::join(group, self.longest()));
            }
        }
        Ok(())
    }
}

/// Counts the requests of segments that this machine does not keep.
fn spare(from: FrameSource<'_>, rehearsal: &Rehearsal, segments: &[Segment]) {
    for segment in segments.iter().filter(|segment| !segment.is_kept) {
        let pack = from.loaded.index.pack(segment.pack).id;
        if !rehearsal.has_fetched(pack) {
            rehearsal.spare_get(segment.length);
            rehearsal.needs_pack(pack);
        }
    }
}
