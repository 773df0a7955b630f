//! `ibid records scan`.

use std::ops::Bound;

use ibid_record::{Direction, Error, Record};

use super::open_namespace;
use crate::args::{Key, ScanArgs};
use crate::commands::open::Context;
use crate::failure::{Outcome, Result};
use crate::print::ScanPrinter;

pub(crate) fn run(context: &mut Context, args: &ScanArgs) -> Result<Outcome> {
    let (store, namespace) = open_namespace(context, &args.place)?;
    let snapshot = store.snapshot()?;
    let (from, to) = range(args);
    let mut records: Box<dyn Iterator<Item = Result<Record, Error>>> = if args.in_order {
        Box::new(snapshot.written_after(&namespace, args.after)?)
    } else {
        let range = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        Box::new(snapshot.scan(&namespace, range, Direction::Forward)?)
    };
    let mut printer = ScanPrinter::begin(&mut context.out, namespace.name(), args.keys_only)?;
    for _ in 0..args.limit.unwrap_or(u64::MAX) {
        let Some(record) = records.next() else { break };
        printer.record(&record?)?;
    }
    printer.end()?;
    Ok(Outcome::Done)
}

fn range(args: &ScanArgs) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let bound = |key: &Option<Key>, bound: fn(Vec<u8>) -> Bound<Vec<u8>>| {
        key.as_ref().map_or(Bound::Unbounded, |key| bound(key.0.clone()))
    };
    match &args.prefix {
        Some(Key(prefix)) => (Bound::Included(prefix.clone()), after_all_with(prefix)),
        None => (bound(&args.from, Bound::Included), bound(&args.to, Bound::Excluded)),
    }
}

/// Returns the bound after all keys with this prefix.
fn after_all_with(prefix: &[u8]) -> Bound<Vec<u8>> {
    let Some(last) = prefix.iter().rposition(|&byte| byte < 0xff) else {
        return Bound::Unbounded;
    };
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Bound::Excluded(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_what_no_longer_begins_so() {
        assert_eq!(after_all_with(b""), Bound::Unbounded);
        assert_eq!(after_all_with(b"\xff\xff"), Bound::Unbounded);
        assert_eq!(after_all_with(b"ab"), Bound::Excluded(b"ac".to_vec()));
        assert_eq!(after_all_with(b"a\xff\xff"), Bound::Excluded(b"b".to_vec()));
    }
}
