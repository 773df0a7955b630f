//! A store for each run.

use std::collections::HashSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use ibid_record::{Batch, Durability, Encoding, Namespace, NamespaceStatistics, Options, SizeClass, Store, Versions};

use super::{RecordsFigure, RecordsPlan, RecordsRun};
use crate::{Error, Observer, Result};

/// Records in a batch.
const BATCH: usize = 100;

/// Returns the versions that the namespace keeps.
pub(super) fn versions(plan: &RecordsPlan) -> Versions {
    let mut keys = HashSet::new();
    if plan.records.iter().all(|(key, _)| keys.insert(key)) {
        Versions::Latest
    } else {
        Versions::Kept
    }
}

/// Makes a store for a run, and removes it.
pub(super) fn in_a_store<T>(
    plan: &RecordsPlan,
    encoding: Encoding,
    work: impl FnOnce(&Store, &Namespace) -> Result<T>,
) -> Result<T> {
    let folder = plan.folder.join("store");
    let options = Options::default()
        .with_durability(Durability::None)
        .with_encoding(encoding);
    let store = Store::open(&folder, options)?;
    let space = store.namespace("records", versions(plan))?;
    let done = work(&store, &space);
    drop((space, store));
    remove(&folder)?;
    done
}

fn remove(folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder).map_err(Error::file("remove", folder))
}

/// Stores records in batches.
pub(super) fn put(
    store: &Store,
    space: &Namespace,
    records: &[(Vec<u8>, Vec<u8>)],
    observer: &mut dyn Observer,
) -> Result<()> {
    for records in records.chunks(BATCH) {
        let mut batch = Batch::new();
        for (key, body) in records {
            batch.put(space, key, body);
        }
        store.commit(batch)?;
        advance(records, observer)?;
    }
    Ok(())
}

/// Reports records as done.
pub(super) fn advance(records: &[(Vec<u8>, Vec<u8>)], observer: &mut dyn Observer) -> Result<()> {
    let bytes = records.iter().map(|(_, body)| body.len() as u64).sum();
    if observer.advance(bytes) {
        Ok(())
    } else {
        Err(Error::Stopped)
    }
}

/// Stores all records, and measures the store in all and by body size.
pub(super) fn run(
    plan: &RecordsPlan,
    figure: RecordsFigure,
    encoding: Encoding,
    observer: &mut dyn Observer,
) -> Result<(RecordsRun, Vec<SizeClass>)> {
    in_a_store(plan, encoding, |store, space| {
        fill(plan, store, space, figure, encoding, observer)
    })
}

fn fill(
    plan: &RecordsPlan,
    store: &Store,
    space: &Namespace,
    figure: RecordsFigure,
    encoding: Encoding,
    observer: &mut dyn Observer,
) -> Result<(RecordsRun, Vec<SizeClass>)> {
    let start = Instant::now();
    put(store, space, &plan.records, observer)?;
    store.finish_encoding()?;
    let seconds = start.elapsed().as_secs_f64();
    let mut go_on = |_| ControlFlow::Continue(());
    let found = store.statistics(&mut go_on)?;
    let block_bytes = if figure == RecordsFigure::Ratio {
        store.compact(&mut go_on)?;
        Some(store.statistics(&mut go_on)?.blocks.bytes)
    } else {
        None
    };
    let of = |figure: fn(&NamespaceStatistics) -> u64| found.namespaces.first().map_or(0, figure);
    let mean = found.namespaces.first().and_then(|space| space.retrievals.mean());
    let sizes = found.namespaces.first().map(|space| space.sizes.classes().collect());
    let run = RecordsRun {
        figure,
        encoding,
        seconds,
        stored_bytes: of(NamespaceStatistics::stored_bytes),
        block_bytes,
        retrievals_mean: mean.unwrap_or_default(),
        retrievals_max: of(|space| space.retrievals.max()),
        cache_hits: found.encoding.cache_hits,
        cache_misses: found.encoding.cache_misses,
        index_bytes: found.encoding.index_bytes,
    };
    Ok((run, sizes.unwrap_or_default()))
}
