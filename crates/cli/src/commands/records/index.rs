//! `ibid records index`.

use std::ops::Bound;
use std::sync::atomic::Ordering::Relaxed;

use ibid_record::{Batch, Direction, Index, Namespace, Store, Unique};

use super::indexes::{self, FieldIndexes};
use super::scan::LeftOut;
use super::{existing_namespace, open_existing, options_to_store};
use crate::args::IndexArgs;
use crate::commands::open::Context;
use crate::commands::watch::Watch;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Indexed};

/// Keys whose values are set in one commit.
const KEYS: usize = 1024;
/// Bytes of their keys and values, beyond the first.
const BYTES: usize = 4 << 20;

pub(crate) fn run(context: &mut Context, args: &IndexArgs) -> Result<Outcome> {
    let store = open_existing(context, &args.place.store, options_to_store(context))?;
    let (store, namespace) = existing_namespace(store, &args.place)?;
    let unique = if args.unique { Unique::Yes } else { Unique::No };
    let index = namespace.index(&args.name, unique)?;
    let mut done = Indexed {
        namespace: namespace.name().to_owned(),
        index: args.name.clone(),
        unique,
        records: 0,
        left_out: 0,
    };
    if let Some(field) = &args.field {
        let watch = Watch::start_records(context.global.quiet)?;
        let filled = fill(&store, &namespace, &index, field, &watch, &mut done);
        watch.finish();
        filled?;
    }
    print::records_index(&mut context.out, &done)?;
    Ok(match done.left_out {
        0 => Outcome::Done,
        _ => Outcome::Partial,
    })
}

/// Sets the values of all records in an index, and leaves those in others as they are.
fn fill(
    store: &Store,
    namespace: &Namespace,
    index: &Index,
    field: &str,
    watch: &Watch,
    done: &mut Indexed,
) -> Result<()> {
    let fields = FieldIndexes::of_field(index.clone(), field);
    let all = namespace.indexes()?;
    let snapshot = store.snapshot()?;
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let (mut batch, mut bytes) = (Batch::new(), 0);
    let mut left_out = LeftOut::default();
    for record in snapshot.scan(namespace, everything, Direction::Forward)? {
        if watch.monitor.is_cancelled() {
            store.commit(batch)?;
            let left = format!("{} records are found in the index", done.records);
            return Err(Failure::Interrupted(left.into()));
        }
        let Some(record) = left_out.unless_readable(record)? else {
            continue;
        };
        watch
            .monitor
            .counters
            .bytes
            .fetch_add(record.body.len() as u64, Relaxed);
        let Ok(values) = fields.values(&record.body) else {
            done.left_out += 1;
            continue;
        };
        done.records += u64::from(!values.is_empty());
        batch.set_index_values(namespace, &record.key);
        indexes::add(&mut batch, &values);
        bytes += record.key.len() + values.iter().map(|(_, value)| value.len()).sum::<usize>();
        for (name, value) in snapshot.index_values(namespace, &record.key)? {
            if let Some(other) = all.iter().find(|other| other.name() == name && name != index.name()) {
                batch.index(other, &value);
                bytes += value.len();
            }
        }
        if batch.len() == KEYS || bytes >= BYTES {
            store.commit(std::mem::take(&mut batch))?;
            bytes = 0;
        }
    }
    store.commit(batch)?;
    done.left_out += left_out.unreadable;
    Ok(())
}
