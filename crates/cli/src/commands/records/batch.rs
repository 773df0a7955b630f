//! `ibid records batch`.

use std::collections::HashMap;
use std::path::Path;

use ibid_record::{Batch, Error, Namespace, Store};
use ibid_terminal::number::size;
use ibid_terminal::{Line, Lines};

use super::batch_line::{Action, BatchLine};
use super::{indexes, no_namespace, open_store_or_make};
use crate::allocator;
use crate::args::{BatchArgs, NewRecordsArgs};
use crate::commands::open::Context;
use crate::commands::watch::Watch;
use crate::failure::{Failure, Outcome, Result};
use crate::print;

/// The part of the memory that the keys and bodies of a batch may take. The store holds them more
/// than once.
const MEMORY_PART: u64 = 8;

pub(crate) fn run(context: &mut Context, args: &BatchArgs) -> Result<Outcome> {
    let watch = Watch::start_records(context.global.quiet)?;
    let lines = read_all(&args.file, context.global.memory, &watch);
    let stopped = watch.monitor.is_cancelled();
    watch.finish();
    if stopped {
        return Err(Failure::Interrupted("nothing was changed".into()));
    }
    let lines = lines?;
    let spaces = spaces(&lines, &args.place.namespace);
    let may_make = !spaces.is_empty() && spaces.iter().all(|space| space.may_be_new);
    let store = open_store_or_make(context, &args.place.store, &args.new, may_make)?;
    let namespaces = open_all(&store, &spaces, &args.new)?;
    let mut batch = Batch::new();
    let mut conditions = 0;
    for line in lines {
        let namespace = &namespaces[line.namespace_or(&args.place.namespace)];
        let BatchLine {
            key, condition, action, ..
        } = line;
        if let Some(condition) = condition {
            batch.require(namespace, &key, condition);
            conditions += 1;
        }
        match action {
            Action::Put {
                body,
                time,
                expire_at,
                index,
            } => {
                batch.put(namespace, &key, body);
                if let Some(time) = time {
                    batch.at(time);
                }
                if let Some(time) = expire_at {
                    batch.expire_at(time);
                }
                for (name, value) in index {
                    batch.index(&indexes::find(namespace, &name)?, value.as_bytes());
                }
                &mut batch
            }
            Action::Delete => batch.delete(namespace, &key),
            Action::Purge(None) => batch.purge(namespace, &key),
            Action::Purge(Some((from, to))) => batch.purge_versions(namespace, &key, from..=to),
            Action::Require => &mut batch,
        };
    }
    let numbers = match store.commit(batch) {
        Ok(numbers) => numbers,
        Err(error @ Error::NoSuchKey { .. }) => return Err(Failure::from(error).after("nothing was changed".into())),
        Err(error) => return Err(error.into()),
    };
    allocator::committed();
    // Replaced records may become deltas against the new ones.
    store.finish_or_leave_encoding()?;
    print::records_batch(&mut context.out, conditions, numbers)?;
    Ok(Outcome::Done)
}

/// Reads all lines. One that cannot be understood is a failure: nothing of the batch is done without
/// it.
fn read_all(file: &Path, memory: u64, watch: &Watch) -> Result<Vec<BatchLine>> {
    let mut lines = Lines::open(file, memory, watch.advance())?;
    watch.expect(lines.file_bytes);
    let bytes_max = memory / MEMORY_PART;
    let (mut all, mut bytes) = (Vec::new(), 0);
    loop {
        let line = match lines.next() {
            Ok(Some(Line::Whole(line))) if line.trim_ascii().is_empty() => continue,
            Ok(Some(Line::Whole(line))) => BatchLine::read(line),
            Ok(Some(Line::TooLong { bytes_max })) => Err(format!(
                "expected at most {} in a line, found more. The limit is an eighth of --memory",
                size(bytes_max as u64)
            )),
            Ok(Some(Line::Waiting)) => continue,
            Ok(None) => return Ok(all),
            Err(source) => return Err(Failure::local("read", file, source)),
        };
        let line = line.and_then(|line| {
            bytes += line.bytes();
            match bytes > bytes_max {
                true => Err(format!(
                    "expected at most {} in a batch, found more. The limit is an eighth of --memory",
                    size(bytes_max)
                )),
                false => Ok(line),
            }
        });
        let refused = |problem| Failure::Fatal(format!("line {}: {problem}; nothing was changed", lines.number));
        all.push(line.map_err(refused)?);
    }
}

/// A namespace that lines name.
struct Space {
    name: String,
    /// Whether each of these lines can be done in a namespace without keys.
    may_be_new: bool,
}

/// Returns the namespaces of all lines, in the order in which they name them.
fn spaces(lines: &[BatchLine], usual: &str) -> Vec<Space> {
    let mut spaces: Vec<Space> = Vec::new();
    let mut places = HashMap::new();
    for line in lines {
        let name = line.namespace_or(usual);
        let place = *places.entry(name).or_insert_with(|| {
            spaces.push(Space {
                name: name.to_owned(),
                may_be_new: true,
            });
            spaces.len() - 1
        });
        spaces[place].may_be_new &= line.suits_a_new_namespace();
    }
    spaces
}

/// Opens all namespaces, and creates those that do not exist. If one of these may not be new, creates
/// none.
fn open_all(store: &Store, spaces: &[Space], new: &NewRecordsArgs) -> Result<HashMap<String, Namespace>> {
    let mut namespaces = HashMap::new();
    for Space { name, may_be_new } in spaces {
        match store.find_namespace(name)? {
            Some(namespace) => drop(namespaces.insert(name.clone(), namespace)),
            None if *may_be_new => {}
            None => return Err(no_namespace(name)),
        }
    }
    for Space { name, .. } in spaces {
        if !namespaces.contains_key(name) {
            namespaces.insert(name.clone(), store.namespace(name, new.versions())?);
        }
    }
    Ok(namespaces)
}
