//! `ibid records scan`.

use std::ops::Bound;

use ibid_record::{Direction, Error, KeyFilter, KeyRange, KeyState, Namespace, Prefix, Record, Snapshot, Versions};
use ibid_terminal::escape;

use super::open_namespace_to_read;
use crate::args::{Key, ScanArgs};
use crate::commands::open::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, ScanPrinter, Scanned};

pub(crate) fn run(context: &mut Context, args: &ScanArgs) -> Result<Outcome> {
    let (store, namespace) = open_namespace_to_read(context, &args.place)?;
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
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut left_out = LeftOut::default();
    let mut printer = ScanPrinter::begin(&mut context.out, namespace.name(), scanned, args.keys_only)?;
    if scanned == Scanned::Records && printer.shows_bodies() {
        let mut all = records(&snapshot, &namespace, args)?;
        while left > 0
            && let Some(record) = all.next()
        {
            if let Some(record) = left_out.unless_readable(record)? {
                printer.record(&record)?;
                left -= 1;
            }
        }
    } else {
        let mut all = keys(&snapshot, &namespace, args)?;
        while left > 0
            && let Some(key) = all.next()
        {
            let Some(key) = left_out.unless_readable(key)? else {
                continue;
            };
            if scanned != Scanned::Records {
                printer.key(&key)?;
                left -= 1;
            } else if let Some(bytes) = left_out.unless_readable(length(&snapshot, &namespace, &key))? {
                printer.length(&key, bytes)?;
                left -= 1;
            }
        }
    }
    printer.end(args.as_of.map(|_| left_out.unknown), left_out.unreadable)?;
    Ok(left_out.outcome())
}

/// Returns the length of a body, bytes. One in pieces is not read for that.
fn length(snapshot: &Snapshot, namespace: &Namespace, key: &KeyState) -> Result<u64, Error> {
    let opened = snapshot.open_version(namespace, &key.key, key.latest.version);
    let opened = opened.map_err(|error| error.of_key(&key.key))?;
    Ok(opened.map_or(0, |body| body.len()))
}

/// What is not listed.
#[derive(Default)]
pub(super) struct LeftOut {
    /// Keys of which nothing is known at the time that was asked for.
    pub(super) unknown: u64,
    /// Records that are damaged, or too long for the memory.
    pub(super) unreadable: u64,
}

impl LeftOut {
    /// Returns what was found. Counts what says nothing of others, and names it if it can't be read.
    pub(super) fn unless_readable<T>(&mut self, found: Result<T, Error>) -> Result<Option<T>, Error> {
        match found {
            Err(Error::Purged { .. } | Error::TimeUnknown { .. }) => {
                self.unknown += 1;
                Ok(None)
            }
            Err(error @ (Error::OfKey { .. } | Error::OfRecord { .. })) => {
                print::failure(&error.into());
                self.unreadable += 1;
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        match self.unknown + self.unreadable {
            0 => Outcome::Done,
            _ => Outcome::Partial,
        }
    }
}

type All<'s, T> = Box<dyn Iterator<Item = Result<T, Error>> + 's>;

fn records<'s>(snapshot: &'s Snapshot, namespace: &Namespace, args: &ScanArgs) -> Result<All<'s, Record>> {
    Ok(if args.in_order {
        Box::new(snapshot.written_after(namespace, args.after)?)
    } else {
        let prefix = prefix(args);
        let range = range(args, prefix.as_ref());
        match args.as_of {
            None => Box::new(snapshot.scan(namespace, range, Direction::Forward)?),
            Some(time) => Box::new(snapshot.scan_as_of(namespace, range, Direction::Forward, time)?),
        }
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
        let range = range(args, prefix.as_ref());
        match args.as_of {
            None => Box::new(snapshot.keys(namespace, range, Direction::Forward, filter)?),
            Some(time) => Box::new(snapshot.keys_as_of(namespace, range, Direction::Forward, time)?),
        }
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
