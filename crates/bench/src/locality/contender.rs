//! Runs of all criteria over the data with one chunker.

use std::hint::black_box;
use std::io;

use ibid_chunk::Chunker;
use ibid_chunk::locality::{Criterion, HintedChunker, Known, Table, TableEntry, Tally, Trail};

use super::replay::{Answers, Recorder, Replay};
use super::source::{Piece, STEP};
use super::{LocalityChunker, LocalityEntry, LocalityPlan, LocalityRun};
use crate::Observer;
use crate::clock::ThreadClock;
use crate::error::Stop;

/// Passes of a run over the data: one with naming and lookups, one without.
pub(super) const PASSES: usize = 2;

/// A function that names a chunk.
pub(super) type Naming = fn(&[u8]) -> [u8; 16];

/// Names a chunk by the first half of its BLAKE3.
pub(super) fn name(chunk: &[u8]) -> [u8; 16] {
    let hash = blake3::hash(chunk);
    let (half, _) = hash.as_bytes().split_first_chunk().expect("a hash has 32 bytes");
    *half
}

/// Returns whether this criterion can refuse a hint that is in range.
pub(super) fn has_worst(criterion: Criterion) -> bool {
    criterion != Criterion::FastForward
}

pub(super) struct ChunkerRuns<'c> {
    chunker: &'c Chunker,
    plain: PlainRun,
    hinted: Vec<Contender<'c>>,
    left_out: Vec<Criterion>,
}

/// A criterion with a list length.
struct Contender<'c> {
    chunker: HintedChunker<'c>,
    list: usize,
    timed: HintedRun,
    worst: Option<HintedRun>,
}

impl<'c> ChunkerRuns<'c> {
    pub(super) fn new(chunker: &'c Chunker, plan: &LocalityPlan, chunks_most: usize) -> ChunkerRuns<'c> {
        let settings = chunker.settings();
        let mut hinted = Vec::new();
        for list in &plan.lists {
            let table = || Table::new(settings, *list, chunks_most);
            for criterion in plan.criteria_for(settings) {
                if let Ok(chunker) = HintedChunker::new(chunker, criterion) {
                    hinted.push(Contender {
                        chunker,
                        list: *list,
                        timed: HintedRun::new(table),
                        worst: (plan.worst && has_worst(criterion)).then(|| HintedRun::new(table)),
                    });
                }
            }
        }
        let is_met: Vec<Criterion> = plan.criteria_for(settings).collect();
        let all = plan.criteria.iter().copied();
        ChunkerRuns {
            chunker,
            plain: PlainRun::new(Table::new(settings, 1, chunks_most)),
            hinted,
            left_out: all.filter(|criterion| !is_met.contains(criterion)).collect(),
        }
    }

    pub(super) fn take(&mut self, piece: Piece<'_>, observer: &mut impl Observer) -> io::Result<()> {
        self.plain.take(self.chunker, piece, observer)?;
        let size_max = self.chunker.size_max();
        for contender in &mut self.hinted {
            let hinted = &contender.chunker;
            contender.timed.take(hinted, size_max, piece, false, observer)?;
            if let Some(worst) = &mut contender.worst {
                worst.take(&hinted.clone().refusing_all(), size_max, piece, true, observer)?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> LocalityChunker {
        LocalityChunker {
            settings: self.chunker.settings().clone(),
            plain: self.plain.run,
            hinted: self
                .hinted
                .into_iter()
                .map(|contender| LocalityEntry {
                    criterion: contender.chunker.criterion(),
                    list: contender.list,
                    run: contender.timed.run,
                    worst_seconds: contender.worst.map(|worst| worst.run.chunking_seconds),
                })
                .collect(),
            left_out: self.left_out,
            threads: Vec::new(),
            stores: Vec::new(),
        }
    }
}

/// Returns the offset before which chunks may begin in a piece. After it there is too little data
/// for the longest chunk, unless the piece is the last.
fn limit(piece: &Piece<'_>, size_max: usize) -> usize {
    match piece.last {
        true => piece.bytes.len(),
        false => piece.bytes.len() - size_max,
    }
}

/// Reports progress over a piece, so rarely that it takes no measurable time.
struct Pace<'o, O> {
    observer: &'o mut O,
    told: usize,
}

impl<'o, O: Observer> Pace<'o, O> {
    fn from(start: usize, observer: &'o mut O) -> Pace<'o, O> {
        Pace { observer, told: start }
    }

    #[inline]
    fn at(&mut self, at: usize) -> io::Result<()> {
        if at - self.told < STEP { Ok(()) } else { self.tell(at) }
    }

    fn tell(&mut self, at: usize) -> io::Result<()> {
        let bytes = (at - self.told) as u64;
        self.told = at;
        match self.observer.advance(bytes) {
            true => Ok(()),
            false => Err(io::Error::other(Stop)),
        }
    }
}

/// A run without hints.
struct PlainRun {
    table: Table,
    before: Option<TableEntry>,
    /// Whether the previous chunk was a duplicate.
    follows: bool,
    start: usize,
    run: LocalityRun,
}

impl PlainRun {
    fn new(table: Table) -> PlainRun {
        PlainRun {
            table,
            before: None,
            follows: false,
            start: 0,
            run: LocalityRun::default(),
        }
    }

    fn take(&mut self, chunker: &Chunker, piece: Piece<'_>, observer: &mut impl Observer) -> io::Result<()> {
        if piece.first {
            (self.start, self.before, self.follows) = (0, None, false);
        }
        let limit = limit(&piece, chunker.size_max());
        let mut pace = Pace::from(self.start, observer);
        let clock = ThreadClock::start();
        let mut known = self.table.with(name as Naming);
        let mut at = self.start;
        while at < limit {
            let chunk = &piece.bytes[at..at + chunker.cut(&piece.bytes[at..])];
            at += chunk.len();
            let at_end = piece.last && at == piece.bytes.len();
            let fingerprint = known.fingerprint(chunk);
            let found = known.enter(fingerprint, self.before, at_end);
            self.before = found.entry;
            let tally = &mut self.run.tally;
            tally.chunks += 1;
            tally.scanned += 1;
            self.run.followers += u64::from(self.follows);
            self.follows = found.is_duplicate;
            if found.is_duplicate {
                tally.duplicates += 1;
                tally.duplicate_bytes += chunk.len() as u64;
            } else {
                self.run.unique_bytes += chunk.len() as u64;
            }
            pace.at(at)?;
        }
        self.run.total_seconds += clock.seconds();
        self.run.searches += known.searches();
        self.run.neighbours += known.neighbours();
        self.run.memory = self.table.memory() as u64;
        pace.tell(at)?;

        let mut pace = Pace::from(self.start, observer);
        let clock = ThreadClock::start();
        let mut again = self.start;
        while again < limit {
            again += black_box(chunker.cut(&piece.bytes[again..]));
            pace.at(again)?;
        }
        self.run.chunking_seconds += clock.seconds();
        pace.tell(again)?;
        self.start = at - piece.passed.min(at);
        Ok(())
    }
}

/// A run with hints.
struct HintedRun {
    table: Table,
    trail: Trail<TableEntry>,
    /// Whether the previous chunk was a duplicate.
    follows: bool,
    /// A copy of the hints for the second pass.
    hints: Table,
    hints_trail: Trail<TableEntry>,
    answers: Answers,
    start: usize,
    run: LocalityRun,
}

impl HintedRun {
    fn new(table: impl Fn() -> Table) -> HintedRun {
        HintedRun {
            table: table(),
            trail: Trail::start(),
            follows: false,
            hints: table(),
            hints_trail: Trail::start(),
            answers: Answers::default(),
            start: 0,
            run: LocalityRun::default(),
        }
    }

    fn take(
        &mut self,
        hinted: &HintedChunker<'_>,
        size_max: usize,
        piece: Piece<'_>,
        refuses_all: bool,
        observer: &mut impl Observer,
    ) -> io::Result<()> {
        if piece.first {
            (self.start, self.follows) = (0, false);
            (self.trail, self.hints_trail) = (Trail::start(), Trail::start());
        }
        let limit = limit(&piece, size_max);
        self.answers.clear();

        let mut pace = Pace::from(self.start, observer);
        let clock = ThreadClock::start();
        let mut known = Recorder {
            table: self.table.with(name as Naming),
            answers: &mut self.answers,
            refuses_all,
        };
        let mut at = self.start;
        while at < limit {
            let data = &piece.bytes[at..];
            let chunk = hinted.next_chunk(&mut known, &mut self.trail, data, piece.last, &mut self.run.tally);
            at += chunk.bytes.len();
            self.run.followers += u64::from(self.follows);
            self.follows = chunk.is_duplicate;
            if !chunk.is_duplicate {
                self.run.unique_bytes += chunk.bytes.len() as u64;
            }
            pace.at(at)?;
        }
        self.run.total_seconds += clock.seconds();
        self.run.searches += known.table.searches();
        self.run.neighbours += known.table.neighbours();
        self.run.memory = self.table.memory() as u64;
        pace.tell(at)?;

        let mut pace = Pace::from(self.start, observer);
        let clock = ThreadClock::start();
        let mut known = Replay::new(&self.hints, &self.answers);
        let (mut again, mut tally) = (self.start, Tally::default());
        while again < limit {
            let data = &piece.bytes[again..];
            let chunk = hinted.next_chunk(&mut known, &mut self.hints_trail, data, piece.last, &mut tally);
            again += black_box(chunk.bytes.len());
            pace.at(again)?;
        }
        self.run.chunking_seconds += clock.seconds();
        pace.tell(again)?;
        assert_eq!(again, at, "the same cuts twice");
        self.start = at - piece.passed.min(at);
        Ok(())
    }
}
