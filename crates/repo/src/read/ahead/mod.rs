//! Fetches frames before they are asked for, where the storage is reached over a network: neighbours with one request,
//! and several requests at once. Each takes a round trip, and may be paid for.
//!
//! Who reads says in which order frames will be needed, takes each once, and releases each when it is done with it.
//! The bases of deltas, and theirs, are planned [beside the frames that need them](edges), as directories of packs say.
//! What is not known so is told by a delta frame when it is here: these bases are fetched next, as many as possible
//! together, and so are their bases.
//!
//! What was fetched stays in memory until it is taken or released. It never is more than there is room for, but for one
//! segment: if there is no room for what is asked for, who asks reads it.

mod edges;
mod gaps;
mod rehearse;
mod segments;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::Scope;

use ibid_format::frame;

use self::edges::{Bases, Edges};
use self::gaps::Gaps;
pub(crate) use self::segments::GAP_MAX;
use self::segments::{Segment, Span};
use super::cache::FrameCache;
use crate::Result;
use crate::files::Files;
use crate::index::LoadedIndex;
use crate::layout::{folder, name_in};
use crate::rehearsal::Reads;
use crate::threads::{REQUESTS, lock, scope, spawn, wait};

/// Part of the room that is for what came between frames: one in so many bytes.
const GAPS_SHARE: u64 = 16;
/// Room for which one base may be found before it is fetched, bytes: so that the lists of them stay small beside it.
const FOUND_EACH: u64 = 2 << 10;

/// Where frames are fetched from.
#[derive(Clone, Copy)]
pub(crate) struct FrameSource<'a> {
    pub(crate) files: &'a Files,
    pub(crate) loaded: &'a LoadedIndex,
    /// Frames that need not be fetched. Without it, the bases of frames are not fetched, either.
    pub(crate) cache: Option<&'a FrameCache>,
    /// Whether this machine keeps what is fetched, because it may be needed again.
    pub(crate) keeps: bool,
}

impl FrameSource<'_> {
    fn has(&self, frame: u32) -> bool {
        self.cache.is_some_and(|cache| cache.has_or_reads(frame))
    }

    fn follows_bases(&self) -> bool {
        self.cache.is_some() && self.loaded.index.has_deltas()
    }
}

/// Frames that are fetched ahead.
pub(crate) struct Ahead {
    state: Mutex<State>,
    changed: Condvar,
    /// Bytes in memory.
    room: u64,
    /// What is known of bases before the frames that need them are here.
    edges: Mutex<Edges>,
    /// What came between frames.
    gaps: Mutex<Gaps>,
    /// What a rehearsal has planned.
    rehearsed: Mutex<Reads>,
}

#[derive(Default)]
struct State {
    /// Segments by number.
    parts: HashMap<u64, Part>,
    next: u64,
    /// Of frames that were planned, and of their bases.
    planned: Queue,
    bases: Queue,
    /// Bases that are in no segment yet, in the order in which they were found.
    found: VecDeque<Span>,
    /// Bytes of those that are still wanted.
    found_bytes: u64,
    /// Frames that were neither taken nor released.
    frames: HashMap<u32, Wanted>,
    /// The bases that were found because of each frame that was planned, until that is released.
    owned: HashMap<u32, Vec<u32>>,
    /// Segments that are being fetched.
    coming: usize,
    /// Threads that fetch, and those of them that have nothing to do.
    threads: usize,
    idle: usize,
    is_closed: bool,
}

/// Segments of one kind.
#[derive(Default)]
struct Queue {
    /// Those to fetch, in order. Those that another has begun with are passed over.
    waiting: VecDeque<u64>,
    /// Bytes of those that wait.
    waiting_bytes: u64,
    /// Bytes that were fetched or are being fetched.
    bytes: u64,
}

/// A frame that is wanted.
#[derive(Clone, Copy)]
struct Wanted {
    /// The frame that was planned and needs it, or itself.
    owner: u32,
    place: Place,
}

#[derive(Clone, Copy)]
enum Place {
    /// In the segment with this number.
    Segment(u64),
    /// It is a base that has no segment yet, with so many bytes.
    None(u32),
}

/// A segment and what has become of it.
struct Part {
    segment: Segment,
    /// Whether it was found because others need it.
    is_base: bool,
    /// Frames in it that were neither taken nor released.
    wanted: u32,
    content: Content,
}

#[derive(Clone)]
enum Content {
    Waiting,
    Coming,
    Here(Arc<Opened>),
    /// It could not be read: its frames are read one by one, which says why.
    Lost,
}

/// A segment whose frames were opened where they are.
struct Opened {
    bytes: Vec<u8>,
    /// The plaintext of each frame. One that does not open is read once more, which says why.
    plain: HashMap<u32, Range<usize>>,
    /// Whether it came from the storage.
    is_fetched: bool,
}

/// A frame that was taken.
pub(crate) struct Taken {
    /// Length of its plaintext.
    pub(crate) length: usize,
    /// Whether it came from the storage.
    pub(crate) is_fetched: bool,
}

/// Work for a thread that fetches.
enum Next {
    Segment(u64),
    Wait,
    End,
}

/// Ends the fetching when it is dropped: no one is left who takes anything.
struct Closing<'a>(&'a Ahead);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        let State { planned, bases, .. } = &mut *state;
        for queue in [planned, bases] {
            queue.waiting.clear();
            queue.waiting_bytes = 0;
        }
        state.forget_found();
        drop(state);
        self.0.changed.notify_all();
    }
}

impl Ahead {
    /// Makes room for so many bytes.
    pub(crate) fn new(room: u64) -> Ahead {
        let for_gaps = room / GAPS_SHARE;
        Ahead {
            state: Mutex::default(),
            changed: Condvar::new(),
            room: room - for_gaps,
            edges: Mutex::default(),
            gaps: Mutex::new(Gaps::new(for_gaps)),
            rehearsed: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    fn longest(&self) -> u64 {
        segments::LENGTH_MAX.min(self.room / REQUESTS as u64)
    }

    /// Plans to fetch these frames, which will be taken in about this order, and each of which will be released. Each
    /// is planned once at a time.
    pub(crate) fn plan(&self, from: FrameSource<'_>, frames: &[u32]) {
        let mut spans: Vec<Span> = frames
            .iter()
            .filter(|&&number| !from.has(number))
            .filter_map(|&number| Span::of(from, number))
            .collect();
        if from.files.rehearsal.is_some() {
            return self.rehearse(from, spans);
        }
        let state = self.lock();
        spans.retain(|span| !state.frames.contains_key(&span.frame));
        drop(state);
        self.note_kept(spans.iter_mut());
        for group in self.divide(from, &spans) {
            let mut bases = self.bases_of(from, group).found;
            self.note_kept(bases.iter_mut().map(|(_, base)| base));
            let mut state = self.lock();
            state.plan(from, group, bases, self.longest());
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Notes which frames came between others, so that no request brings them again.
    fn note_kept<'s>(&self, spans: impl Iterator<Item = &'s mut Span>) {
        let gaps = lock(&self.gaps);
        for span in spans {
            span.is_kept |= gaps.find(span.pack, span.start, span.length.into()).is_some();
        }
    }

    /// Divides frames into groups, in order, that can be here at once.
    fn divide<'s>(&self, from: FrameSource<'_>, spans: &'s [Span]) -> impl Iterator<Item = &'s [Span]> + use<'s> {
        // Frames far apart in this order are not joined: the first would be kept until the last is taken.
        let most = self.share(from, false) / 2;
        let mut rest = spans;
        std::iter::from_fn(move || {
            let mut bytes = 0;
            let fits = |span: &&Span| {
                bytes += u64::from(span.length);
                bytes <= most
            };
            let count = rest.iter().take_while(fits).count().max(1).min(rest.len());
            let (group, others) = rest.split_at(count);
            rest = others;
            (!group.is_empty()).then_some(group)
        })
    }

    /// Returns bases of frames that can be here together with these.
    fn bases_of(&self, from: FrameSource<'_>, spans: &[Span]) -> Bases {
        match from.follows_bases() {
            true => lock(&self.edges).bases(from, spans, self.share(from, false) / 2, self.room / 16),
            false => Bases::default(),
        }
    }

    /// Returns how much of the room is for one kind of segments.
    fn share(&self, from: FrameSource<'_>, is_base: bool) -> u64 {
        match (from.follows_bases(), is_base) {
            (true, _) => self.room / 2,
            (false, false) => self.room,
            (false, true) => 0,
        }
    }

    /// Calls `work` while threads fetch what it plans, as many as have something to do, and one more.
    pub(crate) fn while_fetching<T>(&self, from: FrameSource<'_>, work: impl FnOnce() -> Result<T>) -> Result<T> {
        scope(|scope| {
            let _closing = Closing(self);
            self.lock().threads += 1;
            spawn(scope, move || self.fetch(scope, from))?;
            work()
        })
    }

    /// Fetches what is planned, until it is closed.
    fn fetch<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, from: FrameSource<'scope>) {
        let mut state = self.lock();
        loop {
            match self.next(from, &mut state) {
                Next::Segment(number) => {
                    let begins = state.idle == 0 && state.threads < REQUESTS;
                    state.threads += usize::from(begins);
                    drop(state);
                    if begins && spawn(scope, move || self.fetch(scope, from)).is_err() {
                        self.lock().threads -= 1;
                    }
                    self.fetch_segment(from, number);
                    state = self.lock();
                }
                Next::Wait => {
                    state.idle += 1;
                    state = wait(&self.changed, &self.state, state);
                    state.idle -= 1;
                }
                Next::End => return,
            }
        }
    }

    /// Returns what to fetch next: bases first, which frames that are here wait for.
    fn next(&self, from: FrameSource<'_>, state: &mut State) -> Next {
        if state.found_bytes >= self.share(from, true) / 4 {
            self.plan_found(from, state);
        }
        let mut next = self.next_segment(from, state);
        // As long as there is something else to fetch, more bases are found, of which neighbours come together.
        if next.is_none() && state.found_bytes > 0 {
            self.plan_found(from, state);
            next = self.next_segment(from, state);
        }
        match next {
            Some(number) => Next::Segment(number),
            None if state.is_closed => Next::End,
            None => Next::Wait,
        }
    }

    /// Returns the segment to fetch next, if there is room for it.
    fn next_segment(&self, from: FrameSource<'_>, state: &mut State) -> Option<u64> {
        [true, false].into_iter().find_map(|is_base| {
            let (number, length) = state.first_waiting(is_base)?;
            let taken = state.queue(is_base).bytes;
            let has_room = is_base || state.found.len() as u64 * FOUND_EACH <= self.room;
            let fits = has_room && taken + length <= self.share(from, is_base);
            (taken == 0 || fits).then_some(number)
        })
    }

    /// Makes segments of bases that were found, of as many as there is room for.
    fn plan_found(&self, from: FrameSource<'_>, state: &mut State) {
        let share = self.share(from, true);
        let mut left = share.saturating_sub(state.bases.bytes + state.bases.waiting_bytes);
        if left < share / 2 {
            return;
        }
        let (mut spans, mut met) = (Vec::new(), HashSet::new());
        while let Some(span) = state.found.front() {
            // One that was given up and found again is there twice.
            let is_wanted = state.is_without_segment(span.frame) && !met.contains(&span.frame);
            if is_wanted && u64::from(span.length) > left && !(spans.is_empty() && left == share) {
                break;
            }
            let span = state.found.pop_front().expect("it was there just now");
            if is_wanted {
                left = left.saturating_sub(span.length.into());
                state.found_bytes -= u64::from(span.length);
                met.insert(span.frame);
                spans.push(span);
            }
        }
        if spans.is_empty() {
            return;
        }
        self.note_kept(spans.iter_mut());
        state.add(segments::join(&spans, self.longest()), true, &HashMap::new());
        self.changed.notify_all();
    }

    /// Fetches a segment that waits, and notes the bases of its frames.
    fn fetch_segment(&self, from: FrameSource<'_>, number: u64) {
        let mut state = self.lock();
        let Some(part) = state.parts.get_mut(&number) else {
            return;
        };
        if !matches!(part.content, Content::Waiting) {
            return;
        }
        part.content = Content::Coming;
        let (is_base, has_deltas) = (part.is_base, part.segment.has_deltas);
        let (pack, start, length) = (part.segment.pack, part.segment.start, part.segment.length);
        let (frames, is_kept) = (part.segment.frames.clone(), part.segment.is_kept);
        let queue = state.queue(is_base);
        queue.waiting_bytes = queue.waiting_bytes.saturating_sub(length);
        queue.bytes += length;
        state.coming += 1;
        drop(state);

        let read = self.read(from, pack, start, length, is_kept);
        let opened = read.map(|(bytes, is_fetched)| {
            if is_fetched {
                lock(&self.gaps).add(pack, start, &bytes, &frames);
            }
            let (bytes, plain) = open(from, bytes, &frames);
            Opened {
                bytes,
                plain,
                is_fetched,
            }
        });
        let bases = match &opened {
            Some(opened) if has_deltas && from.follows_bases() => bases(from, opened, &frames),
            _ => Vec::new(),
        };

        let mut state = self.lock();
        state.coming -= 1;
        for (of, span) in bases {
            // It may have been taken since it was looked up.
            if !from.has(span.frame) {
                state.find(of, span);
            }
        }
        match state.parts.get_mut(&number) {
            Some(part) if part.wanted > 0 => match opened {
                Some(opened) => part.content = Content::Here(Arc::new(opened)),
                None => {
                    part.content = Content::Lost;
                    state.queue(is_base).bytes -= length;
                }
            },
            _ => {
                state.parts.remove(&number);
                state.queue(is_base).bytes -= length;
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Returns the bytes of a segment, and whether they came from the storage; none if they can't be read.
    fn read(
        &self,
        from: FrameSource<'_>,
        pack: u32,
        start: u64,
        length: u64,
        is_kept: bool,
    ) -> Option<(Vec<u8>, bool)> {
        if is_kept && let Some(bytes) = lock(&self.gaps).find(pack, start, length) {
            return Some((bytes.to_vec(), false));
        }
        let pack = from.loaded.index.pack(pack).id;
        let mut bytes = vec![0; length as usize];
        let parts = from.files.parts.as_ref();
        if is_kept && parts.is_some_and(|parts| parts.read_at(pack, start, &mut bytes)) {
            return Some((bytes, false));
        }
        let name = name_in(folder::PACKS, pack);
        from.files.storage.read_at(&name, start, &mut bytes).ok()?;
        if let Some(parts) = parts.filter(|_| from.keeps) {
            parts.put(pack, start, &bytes);
        }
        Some((bytes, true))
    }

    /// Puts the plaintext of a frame at the beginning of `out`, if the frame is planned, can be read and opens. Waits
    /// until it is here.
    pub(crate) fn take(&self, from: FrameSource<'_>, frame: u32, out: &mut Vec<u8>) -> Option<Taken> {
        let mut state = self.lock();
        let number = loop {
            match state.frames.get(&frame)?.place {
                Place::Segment(number) => break number,
                Place::None(_) if state.coming > 0 => state = wait(&self.changed, &self.state, state),
                Place::None(_) => {
                    self.plan_found(from, &mut state);
                    if state.is_without_segment(frame) {
                        // There is no room for it.
                        state.forget(frame);
                        return None;
                    }
                }
            }
        };
        loop {
            // It may have been released meanwhile.
            state.frames.get(&frame)?;
            let part = state.parts.get(&number)?;
            let length = part.segment.length;
            match part.content.clone() {
                Content::Waiting if state.bytes() == 0 || state.bytes() + length <= self.room + self.longest() => {
                    drop(state);
                    self.fetch_segment(from, number);
                    state = self.lock();
                }
                Content::Coming => state = wait(&self.changed, &self.state, state),
                Content::Here(opened) => {
                    let of_pack = opened.plain.get(&frame).cloned();
                    state.frames.remove(&frame);
                    drop(state);
                    let taken = of_pack.map(|plain| {
                        let plain = &opened.bytes[plain];
                        out.resize(out.len().max(plain.len()), 0);
                        out[..plain.len()].copy_from_slice(plain);
                        Taken {
                            length: plain.len(),
                            is_fetched: opened.is_fetched,
                        }
                    });
                    drop(opened);
                    if self.lock().done(number) {
                        self.changed.notify_all();
                    }
                    return taken;
                }
                Content::Waiting | Content::Lost => {
                    if state.forget(frame) {
                        drop(state);
                        self.changed.notify_all();
                    }
                    return None;
                }
            }
        }
    }

    /// Notes that a frame that was planned is done with: it is given up, if it was not taken, and so are the bases that
    /// were fetched for it and that no frame has taken.
    pub(crate) fn release(&self, frame: u32) {
        let mut state = self.lock();
        let mut makes_room = state.forget(frame);
        for base in state.owned.remove(&frame).unwrap_or_default() {
            makes_room |= state.forget(base);
        }
        drop(state);
        if makes_room {
            self.changed.notify_all();
        }
    }
}

/// Opens the frames of a segment, where they are. Returns where the plaintext of each is.
fn open(
    from: FrameSource<'_>,
    mut bytes: Vec<u8>,
    frames: &[(u32, Range<u32>)],
) -> (Vec<u8>, HashMap<u32, Range<usize>>) {
    let mut plain = HashMap::with_capacity(frames.len());
    for (number, range) in frames {
        let frame = from.loaded.index.frame(*number);
        let pack = from.loaded.index.pack(frame.pack);
        let sealed = &mut bytes[range.start as usize..range.end as usize];
        if let Ok(within) = from.files.open_frame(&pack, frame.offset, sealed) {
            let start = range.start as usize;
            plain.insert(*number, start + within.start..start + within.end);
        }
    }
    (bytes, plain)
}

/// Returns the frames that these need and that are not cached, each with the one that needs it. A base that is not less
/// deep is not fetched: the reader refuses it.
fn bases(from: FrameSource<'_>, opened: &Opened, frames: &[(u32, Range<u32>)]) -> Vec<(u32, Span)> {
    let mut all = Vec::new();
    for (number, _) in frames {
        let depth = from.loaded.index.frame(*number).depth;
        let pieces = opened
            .plain
            .get(number)
            .and_then(|plain| frame::pieces(&opened.bytes[plain.clone()]).ok());
        let mut needed: Vec<u32> = pieces
            .unwrap_or_default()
            .iter()
            .filter_map(|piece| Some(from.loaded.index.find_for(piece.base, depth)?.1.frame))
            .collect();
        needed.sort_unstable();
        needed.dedup();
        let spans = needed
            .into_iter()
            .filter(|base| !from.has(*base))
            .filter_map(|base| Span::of(from, base))
            .filter(|span| span.depth < depth);
        all.extend(spans.map(|span| (*number, span)));
    }
    all
}

impl State {
    fn queue(&mut self, is_base: bool) -> &mut Queue {
        if is_base { &mut self.bases } else { &mut self.planned }
    }

    fn bytes(&self) -> u64 {
        self.planned.bytes + self.bases.bytes
    }

    /// Adds frames that are planned, with bases of them, each with the number of the one that needs it.
    fn plan(&mut self, from: FrameSource<'_>, planned: &[Span], mut bases: Vec<(usize, Span)>, longest: u64) {
        for span in planned {
            self.owned.entry(span.frame).or_default();
        }
        // Some may have been taken since they were looked up: then they are in the cache soon.
        bases.retain(|(_, base)| !self.frames.contains_key(&base.frame) && !from.has(base.frame));
        bases.sort_by_key(|(rank, _)| *rank);
        let mut owners = HashMap::new();
        let (mut spans, mut bases) = (Vec::new(), bases.into_iter().peekable());
        for (rank, span) in planned.iter().enumerate() {
            while let Some((_, base)) = bases.next_if(|(of, _)| *of == rank) {
                owners.insert(base.frame, span.frame);
                spans.push(base);
            }
            spans.push(*span);
        }
        self.add(segments::join(&spans, longest), false, &owners);
    }

    /// Adds segments with those of their frames that have none. Those that have an owner are bases.
    fn add(&mut self, segments: Vec<Segment>, is_base: bool, owners: &HashMap<u32, u32>) {
        for segment in segments {
            let number = self.next;
            let mut wanted = 0;
            for (frame, _) in &segment.frames {
                let owner = match self.frames.get(frame) {
                    None => owners.get(frame).copied().unwrap_or(*frame),
                    Some(Wanted {
                        owner,
                        place: Place::None(_),
                    }) if is_base => *owner,
                    Some(_) => continue,
                };
                let place = Place::Segment(number);
                if self.frames.insert(*frame, Wanted { owner, place }).is_none() && owner != *frame {
                    self.owned.entry(owner).or_default().push(*frame);
                }
                wanted += 1;
            }
            if wanted == 0 {
                continue;
            }
            self.next += 1;
            let queue = self.queue(is_base);
            queue.waiting.push_back(number);
            queue.waiting_bytes += segment.length;
            let part = Part {
                segment,
                is_base,
                wanted,
                content: Content::Waiting,
            };
            self.parts.insert(number, part);
        }
    }

    /// Returns the first segment that was not begun with, and its length.
    fn first_waiting(&mut self, is_base: bool) -> Option<(u64, u64)> {
        while let Some(&number) = self.queue(is_base).waiting.front() {
            match self.parts.get(&number) {
                Some(part) if matches!(part.content, Content::Waiting) => {
                    return Some((number, part.segment.length));
                }
                _ => self.queue(is_base).waiting.pop_front(),
            };
        }
        None
    }

    fn is_without_segment(&self, frame: u32) -> bool {
        matches!(
            self.frames.get(&frame),
            Some(Wanted {
                place: Place::None(_),
                ..
            })
        )
    }

    /// Notes that a frame that is wanted needs another.
    fn find(&mut self, of: u32, base: Span) {
        let Some(&Wanted { owner, .. }) = self.frames.get(&of) else {
            return;
        };
        if self.frames.contains_key(&base.frame) {
            return;
        }
        let Some(owned) = self.owned.get_mut(&owner) else {
            return;
        };
        owned.push(base.frame);
        let place = Place::None(base.length);
        self.frames.insert(base.frame, Wanted { owner, place });
        self.found_bytes += u64::from(base.length);
        self.found.push_back(base);
    }

    fn forget_found(&mut self) {
        for span in std::mem::take(&mut self.found) {
            if self.is_without_segment(span.frame) {
                self.frames.remove(&span.frame);
            }
        }
        self.found_bytes = 0;
    }

    /// Gives up a frame, if it is wanted. Returns whether that made room.
    fn forget(&mut self, frame: u32) -> bool {
        match self.frames.remove(&frame).map(|wanted| wanted.place) {
            Some(Place::Segment(number)) => self.done(number),
            Some(Place::None(length)) => {
                self.found_bytes -= u64::from(length);
                true
            }
            None => false,
        }
    }

    /// Notes that a frame of a segment is wanted no more. Returns whether that made room.
    fn done(&mut self, number: u64) -> bool {
        let Some(part) = self.parts.get_mut(&number) else {
            return false;
        };
        part.wanted -= 1;
        if part.wanted > 0 || matches!(part.content, Content::Coming) {
            return false;
        }
        let part = self.parts.remove(&number).expect("it was there just now");
        let queue = self.queue(part.is_base);
        match part.content {
            Content::Waiting => queue.waiting_bytes = queue.waiting_bytes.saturating_sub(part.segment.length),
            Content::Here(_) => queue.bytes -= part.segment.length,
            Content::Coming | Content::Lost => {}
        }
        true
    }
}
