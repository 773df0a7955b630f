//! Mixed reads and writes: figures 10a and 10b.

use std::time::Instant;

use ibid_record::{Encoding, Namespace, Store};

use super::stores::{advance, in_a_store, put};
use super::{Latencies, RecordsPlan, Trace, TraceRun};
use crate::{Observer, Random, Result};

/// Most operations of a trace.
const OPERATIONS_MAX: u64 = 200_000;
/// The seed that chooses the records to read.
const SEED: u64 = 1;

/// Runs a trace on a store of its own.
pub(super) fn run(plan: &RecordsPlan, trace: Trace, deltas: bool, observer: &mut dyn Observer) -> Result<TraceRun> {
    let encoding = Encoding::default().with_enabled(deltas);
    in_a_store(plan, encoding, |store, space| {
        play(plan, store, space, trace, deltas, observer)
    })
}

/// Stores half of the records, then mixes reads of these with writes of the others.
fn play(
    plan: &RecordsPlan,
    store: &Store,
    space: &Namespace,
    trace: Trace,
    deltas: bool,
    observer: &mut dyn Observer,
) -> Result<TraceRun> {
    let (there, new) = plan.records.split_at(plan.records.len().div_ceil(2));
    put(store, space, there, observer)?;
    store.finish_encoding()?;
    let mut random = Random::new(SEED);
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let mut new = new.iter();
    let start = Instant::now();
    for number in 0..OPERATIONS_MAX {
        let took = Instant::now();
        if number % (trace.reads + trace.writes) < trace.writes {
            let Some((key, body)) = new.next() else { break };
            space.put(key, body)?;
            writes.push(took.elapsed().as_secs_f64() * 1e6);
            advance(&[], observer)?;
        } else {
            let (key, _) = &there[random.below(there.len() as u64) as usize];
            space.get(key)?;
            reads.push(took.elapsed().as_secs_f64() * 1e6);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    // Operations that were left over at the end do not count.
    let operations = reads.len() + writes.len();
    advance(&plan.records[there.len()..], observer)?;
    Ok(TraceRun {
        trace,
        deltas,
        operations_per_s: operations as f64 / seconds.max(1e-9),
        reads: Latencies::new(reads),
        writes: Latencies::new(writes),
    })
}
