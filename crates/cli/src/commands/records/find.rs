//! `ibid records find`.

use std::ops::Bound;

use ibid_record::{Direction, KeyRange, Prefix};

use super::scan::LeftOut;
use super::{indexes, open_namespace_to_read};
use crate::args::{FindRecordsArgs, Key};
use crate::commands::open::Context;
use crate::failure::{Outcome, Result};
use crate::print::FoundPrinter;

pub(crate) fn run(context: &mut Context, args: &FindRecordsArgs) -> Result<Outcome> {
    let (store, namespace) = open_namespace_to_read(context, &args.place)?;
    let index = indexes::find(&namespace, &args.index)?;
    let snapshot = store.snapshot()?;
    let direction = if args.reverse {
        Direction::Backward
    } else {
        Direction::Forward
    };
    let prefix = args.prefix.as_ref().map(|Key(prefix)| Prefix::new(prefix));
    let range = range(args, prefix.as_ref());
    let limit = args
        .limit
        .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut left_out = LeftOut::default();
    let mut printer = FoundPrinter::begin(&mut context.out, namespace.name(), index.name(), args.keys_only)?;
    if args.keys_only {
        for found in snapshot.index_keys(&index, range, direction)?.take(limit) {
            printer.key(&found?)?;
        }
    } else {
        let mut all = snapshot.index_scan(&index, range, direction)?;
        let mut left = limit;
        while left > 0
            && let Some(found) = all.next()
        {
            if let Some(found) = left_out.unless_readable(found)? {
                printer.record(&found)?;
                left -= 1;
            }
        }
    }
    printer.end(left_out.unreadable)?;
    Ok(left_out.outcome())
}

fn range<'r>(args: &'r FindRecordsArgs, prefix: Option<&'r Prefix>) -> KeyRange<'r> {
    let bound = |value: &'r Option<Key>, bound: fn(&'r [u8]) -> Bound<&'r [u8]>| {
        value.as_ref().map_or(Bound::Unbounded, |value| bound(&value.0))
    };
    match (&args.value, prefix) {
        (Some(Key(value)), _) => (Bound::Included(value), Bound::Included(value)),
        (None, Some(prefix)) => prefix.range(),
        (None, None) => (bound(&args.from, Bound::Included), bound(&args.to, Bound::Excluded)),
    }
}
