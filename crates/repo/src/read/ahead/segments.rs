//! Parts of packs that are fetched with one request each.

use std::ops::Range;

use ibid_format::pack::PackKind;

use super::FrameSource;

/// Bytes of one request, unless a frame is larger.
pub(super) const LENGTH_MAX: u64 = 8 << 20;
/// Bytes that are fetched though no frame needs them, because another request would take longer.
pub(crate) const GAP_MAX: u64 = 32 << 10;

/// Where a frame is.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) frame: u32,
    pub(super) depth: u8,
    /// Number of the pack in the index.
    pub(super) pack: u32,
    pub(super) start: u64,
    pub(super) length: u32,
    /// Whether it is here already, in a part of the pack that this machine keeps or that came with others.
    pub(super) is_kept: bool,
}

impl Span {
    /// Returns where a frame is, if it is stored, and not in a pack of which this machine has a copy.
    pub(super) fn of(from: FrameSource<'_>, number: u32) -> Option<Span> {
        let frame = from.loaded.index.frame(number);
        let is_copied = || {
            let pack = from.loaded.index.pack(frame.pack);
            pack.kind == PackKind::Metadata && from.files.copies.is_some()
        };
        let is_kept = || {
            let pack = from.loaded.index.pack(frame.pack).id;
            let parts = from.files.parts.as_ref();
            parts.is_some_and(|parts| parts.has(pack, frame.offset.into(), frame.sealed.into()))
        };
        (frame.is_stored() && !is_copied()).then(|| Span {
            frame: number,
            depth: frame.depth,
            pack: frame.pack,
            start: frame.offset.into(),
            length: frame.sealed,
            is_kept: is_kept(),
        })
    }

    fn end(&self) -> u64 {
        self.start + u64::from(self.length)
    }
}

/// A part of a pack.
pub(super) struct Segment {
    pub(super) pack: u32,
    pub(super) start: u64,
    pub(super) length: u64,
    /// The frames in it that are wanted, each with its place.
    pub(super) frames: Vec<(u32, Range<u32>)>,
    /// Whether one of them has bases.
    pub(super) has_deltas: bool,
    /// Whether its frame is here already, and is one by itself then.
    pub(super) is_kept: bool,
}

/// Divides frames, in the order in which they are needed, into segments in about this order: neighbours in a pack
/// become one, if it is not longer than `longest`. A frame that is here already takes no request, and is one by itself.
pub(super) fn join(spans: &[Span], longest: u64) -> Vec<Segment> {
    let mut order: Vec<u32> = (0..spans.len() as u32).collect();
    order.sort_unstable_by_key(|&rank| {
        let span = &spans[rank as usize];
        (span.pack, span.start)
    });
    let mut segments: Vec<(u32, Segment)> = Vec::new();
    for rank in order {
        let span = &spans[rank as usize];
        if let Some((first, segment)) = segments.last_mut()
            && segment.pack == span.pack
            && !(segment.is_kept || span.is_kept)
            && span.start <= segment.start + segment.length + GAP_MAX
            && span.end() - segment.start <= longest
        {
            *first = rank.min(*first);
            segment.add(span);
            continue;
        }
        let mut segment = Segment {
            pack: span.pack,
            start: span.start,
            length: 0,
            frames: Vec::new(),
            has_deltas: false,
            is_kept: span.is_kept,
        };
        segment.add(span);
        segments.push((rank, segment));
    }
    segments.sort_by_key(|(first, _)| *first);
    segments.into_iter().map(|(_, segment)| segment).collect()
}

impl Segment {
    /// Adds a frame that does not begin before it.
    fn add(&mut self, span: &Span) {
        let at = (span.start - self.start) as u32;
        self.length = self.length.max(span.end() - self.start);
        self.frames.push((span.frame, at..at + span.length));
        self.has_deltas |= span.depth > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(frame: u32, pack: u32, start: u64, length: u32) -> Span {
        Span {
            frame,
            depth: 0,
            pack,
            start,
            length,
            is_kept: false,
        }
    }

    /// Returns the frames of each segment, and its bytes.
    fn joined(spans: &[Span], longest: u64) -> Vec<(Vec<u32>, u32, Range<u64>)> {
        let frames = |segment: &Segment| segment.frames.iter().map(|(frame, _)| *frame).collect();
        let all = |segment: Segment| {
            (
                frames(&segment),
                segment.pack,
                segment.start..segment.start + segment.length,
            )
        };
        join(spans, longest).into_iter().map(all).collect()
    }

    #[test]
    fn neighbours_are_joined_over_small_gaps_and_what_is_needed_first_comes_first() {
        let far = 500 + GAP_MAX;
        let spans = [
            span(9, 2, 0, 100),
            span(1, 1, 400, 100),
            span(0, 1, 0, 100),
            span(2, 1, far, 100),
            span(3, 1, far + 101 + GAP_MAX, 100),
        ];
        let expected = vec![
            (vec![9], 2, 0..100),
            (vec![0, 1, 2], 1, 0..far + 100),
            (vec![3], 1, far + 101 + GAP_MAX..far + 201 + GAP_MAX),
        ];
        assert_eq!(joined(&spans, LENGTH_MAX), expected);
    }

    #[test]
    fn a_frame_that_is_kept_is_not_fetched_with_its_neighbours() {
        let kept = Span {
            is_kept: true,
            ..span(1, 1, 100, 100)
        };
        let spans = [span(0, 1, 0, 100), kept, span(2, 1, 200, 100)];
        let expected = vec![(vec![0], 1, 0..100), (vec![1], 1, 100..200), (vec![2], 1, 200..300)];
        assert_eq!(joined(&spans, LENGTH_MAX), expected);
    }

    #[test]
    fn a_segment_is_longer_than_the_limit_only_for_one_frame() {
        let spans = [span(0, 1, 0, 100), span(1, 1, 100, 100), span(2, 1, 200, 1000)];
        let expected = vec![(vec![0, 1], 1, 0..200), (vec![2], 1, 200..1200)];
        assert_eq!(joined(&spans, 250), expected);
    }
}
