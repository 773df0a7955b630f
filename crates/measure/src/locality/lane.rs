//! All ways through the data with one chunker.

use super::replay::{Answers, Recorder, Replay};
use super::source::Piece;
use super::{LocalityChunker, LocalityEntry, LocalityPlan, LocalityRun};
use crate::Result;
use ibid_chunk::locality::{Criterion, HintedChunker, Known, Table, Tally, Trail};
use ibid_chunk::{Chunker, Settings};
use std::hint::black_box;
use std::time::Instant;

/// The first half of BLAKE3.
pub(super) fn name(chunk: &[u8]) -> [u8; 16] {
    let hash = blake3::hash(chunk);
    let (half, _) = hash.as_bytes().split_first_chunk().expect("a hash has 32 bytes");
    *half
}

pub(super) struct Lanes {
    chunker: Chunker,
    plain: Plain,
    hinted: Vec<(Criterion, usize, Hinted, Option<Hinted>)>,
}

impl Lanes {
    pub(super) fn new(settings: &Settings, plan: &LocalityPlan) -> Result<Lanes> {
        let chunker = Chunker::new(settings)?;
        let lane = |list| Hinted::new(settings, list, plan.chunks_most);
        let mut hinted = Vec::new();
        for list in &plan.lists {
            for criterion in &plan.criteria {
                if HintedChunker::new(&chunker, *criterion).is_ok() {
                    let worst = plan.worst && *criterion != Criterion::FastForward;
                    hinted.push((*criterion, *list, lane(*list), worst.then(|| lane(*list))));
                }
            }
        }
        Ok(Lanes {
            plain: Plain::new(settings, plan.chunks_most),
            chunker,
            hinted,
        })
    }

    pub(super) fn take(&mut self, piece: Piece<'_>) {
        self.plain.take(&self.chunker, piece);
        for (criterion, _, lane, worst) in &mut self.hinted {
            let hinted = HintedChunker::new(&self.chunker, *criterion).expect("the criterion was taken before");
            lane.take(&hinted, self.chunker.size_max(), piece);
            if let Some(worst) = worst {
                worst.take(&hinted.refusing_all(), self.chunker.size_max(), piece);
            }
        }
    }

    pub(super) fn finish(self) -> LocalityChunker {
        LocalityChunker {
            settings: self.chunker.settings().clone(),
            plain: self.plain.run,
            hinted: self
                .hinted
                .into_iter()
                .map(|(criterion, list, lane, worst)| LocalityEntry {
                    criterion,
                    list,
                    run: lane.run,
                    worst_seconds: worst.map(|worst| worst.run.chunking_seconds),
                })
                .collect(),
        }
    }
}

/// Where chunks begin that may still be cut off in a piece: nearer to its end there is too little data, unless it is the last.
fn limit(piece: &Piece<'_>, size_max: usize) -> usize {
    match piece.last {
        true => piece.bytes.len(),
        false => piece.bytes.len() - size_max,
    }
}

/// Without hints.
struct Plain {
    table: Table,
    start: usize,
    run: LocalityRun,
}

impl Plain {
    fn new(settings: &Settings, chunks_most: usize) -> Plain {
        Plain {
            table: Table::new(settings, 1, chunks_most),
            start: 0,
            run: LocalityRun::default(),
        }
    }

    fn take(&mut self, chunker: &Chunker, piece: Piece<'_>) {
        if piece.first {
            self.start = 0;
        }
        let limit = limit(&piece, chunker.size_max());
        let clock = Instant::now();
        let mut known = self.table.with(name);
        let (mut at, mut before) = (self.start, None);
        while at < limit {
            let chunk = &piece.bytes[at..at + chunker.cut(&piece.bytes[at..])];
            at += chunk.len();
            let at_end = piece.last && at == piece.bytes.len();
            let fingerprint = known.fingerprint(chunk);
            let found = known.enter(fingerprint, before, at_end);
            before = found.entry;
            let tally = &mut self.run.tally;
            tally.chunks += 1;
            tally.scanned += 1;
            if found.is_duplicate {
                tally.duplicates += 1;
                tally.duplicate_bytes += chunk.len() as u64;
            } else {
                self.run.unique_bytes += chunk.len() as u64;
            }
        }
        self.run.total_seconds += clock.elapsed().as_secs_f64();
        self.run.searches += known.searches();
        self.run.neighbours += known.neighbours();
        self.run.memory = self.table.memory() as u64;

        let clock = Instant::now();
        let mut again = self.start;
        while again < limit {
            again += black_box(chunker.cut(&piece.bytes[again..]));
        }
        self.run.chunking_seconds += clock.elapsed().as_secs_f64();
        self.start = at - piece.passed.min(at);
    }
}

/// With them.
struct Hinted {
    table: Table,
    trail: Trail<ibid_chunk::locality::TableEntry>,
    /// The hints once more, for the second pass.
    hints: Table,
    hints_trail: Trail<ibid_chunk::locality::TableEntry>,
    answers: Answers,
    start: usize,
    run: LocalityRun,
}

impl Hinted {
    fn new(settings: &Settings, list: usize, chunks_most: usize) -> Hinted {
        Hinted {
            table: Table::new(settings, list, chunks_most),
            trail: Trail::start(),
            hints: Table::new(settings, list, chunks_most),
            hints_trail: Trail::start(),
            answers: Answers::default(),
            start: 0,
            run: LocalityRun::default(),
        }
    }

    fn take(&mut self, hinted: &HintedChunker<'_>, size_max: usize, piece: Piece<'_>) {
        if piece.first {
            self.start = 0;
            (self.trail, self.hints_trail) = (Trail::start(), Trail::start());
        }
        let limit = limit(&piece, size_max);
        self.answers.clear();

        let clock = Instant::now();
        let mut known = Recorder {
            table: self.table.with(name),
            answers: &mut self.answers,
        };
        let mut at = self.start;
        while at < limit {
            let data = &piece.bytes[at..];
            let chunk = hinted.next_chunk(&mut known, &mut self.trail, data, piece.last, &mut self.run.tally);
            at += chunk.bytes.len();
            if !chunk.is_duplicate {
                self.run.unique_bytes += chunk.bytes.len() as u64;
            }
        }
        self.run.total_seconds += clock.elapsed().as_secs_f64();
        self.run.searches += known.table.searches();
        self.run.neighbours += known.table.neighbours();
        self.run.memory = self.table.memory() as u64;

        let clock = Instant::now();
        let mut known = Replay::new(&self.hints, &self.answers);
        let (mut again, mut tally) = (self.start, Tally::default());
        while again < limit {
            let data = &piece.bytes[again..];
            let chunk = hinted.next_chunk(&mut known, &mut self.hints_trail, data, piece.last, &mut tally);
            again += black_box(chunk.bytes.len());
        }
        self.run.chunking_seconds += clock.elapsed().as_secs_f64();
        assert_eq!(again, at, "the same cuts twice");
        self.start = at - piece.passed.min(at);
    }
}
