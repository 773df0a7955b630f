//! `ibid records scan`.

use std::ops::Bound;

use ibid_record::{Direction, Error, KeyFilter, KeyRange, KeyState, Namespace, Prefix, Record, Snapshot, Versions};
use ibid_terminal::escape;

use super::open_namespace;
use crate::args::{Key, ScanArgs};
use crate::commands::open::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{ScanPrinter, Scanned};

pub(crate) fn run(context: &mut Context, args: &ScanArgs) -> Result<Outcome> {
    let (store, namespace) = open_namespace(context, &args.place)?;
    if args.deleted && namespace.keeps() == Versions::Latest {
        return Err(Failure::Fatal(format!(
            "namespace \"{}\" keeps only the latest versions: nothing is left of a deleted key",
            escape(namespace.name().as_bytes())
        )));
    }
    let snapshot = store.snapshot()?;
    let scanned = match (args.deleted, args.keys_only) {
        (true, _) => Scanned::Deleted,
        (false, true) => Scanned::Keys,
        (false, false) => Scanned::Records,
    };
    let limit = args.limit.unwrap_or(u64::MAX);
    let mut printer = ScanPrinter::begin(&mut context.out, namespace.name(), scanned, args.keys_only)?;
    if scanned == Scanned::Records {
        let mut all = records(&snapshot, &namespace, args)?;
        for _ in 0..limit {
            let Some(record) = all.next() else { break };
            printer.record(&record?)?;
        }
    } else {
        let mut all = keys(&snapshot, &namespace, args)?;
        for _ in 0..limit {
            let Some(key) = all.next() else { break };
            printer.key(&key?)?;
        }
    }
    printer.end()?;
    Ok(Outcome::Done)
}

type All<'s, T> = Box<dyn Iterator<Item = Result<T, Error>> + 's>;

fn records<'s>(snapshot: &'s Snapshot, namespace: &Namespace, args: &ScanArgs) -> Result<All<'s, Record>> {
    Ok(if args.in_order {
        Box::new(snapshot.written_after(namespace, args.after)?)
    } else {
        let prefix = prefix(args);
        Box::new(snapshot.scan(namespace, range(args, prefix.as_ref()), Direction::Forward)?)
    })
}

fn keys<'s>(snapshot: &'s Snapshot, namespace: &Namespace, args: &ScanArgs) -> Result<All<'s, KeyState>> {
    let filter = if args.deleted {
        KeyFilter::Deleted
    } else {
        KeyFilter::Live
    };
    Ok(if args.in_order {
        Box::new(snapshot.keys_written_after(namespace, args.after, filter)?)
    } else {
        let prefix = prefix(args);
        Box::new(snapshot.keys(namespace, range(args, prefix.as_ref()), Direction::Forward, filter)?)
    })
}

fn prefix(args: &ScanArgs) -> Option<Prefix> {
    args.prefix.as_ref().map(|Key(prefix)| Prefix::new(prefix))
}

fn range<'r>(args: &'r ScanArgs, prefix: Option<&'r Prefix>) -> KeyRange<'r> {
    let bound = |key: &'r Option<Key>, bound: fn(&'r [u8]) -> Bound<&'r [u8]>| {
        key.as_ref().map_or(Bound::Unbounded, |key| bound(&key.0))
    };
    match prefix {
        Some(prefix) => prefix.range(),
        None => (bound(&args.from, Bound::Included), bound(&args.to, Bound::Excluded)),
    }
}
