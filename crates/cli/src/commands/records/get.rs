//! `ibid records get`.

use ibid_record::{Namespace, Record, Snapshot, Store};

use super::{not_there, open_namespace};
use crate::args::{GetArgs, VersionName};
use crate::commands::open::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, GetPrinter};

/// Records that are read at once, and are in memory together.
const AT_ONCE: usize = 16;

pub(crate) fn run(context: &mut Context, args: &GetArgs) -> Result<Outcome> {
    let wanted = args.wanted().map_err(Failure::Usage)?;
    let (store, namespace) = open_namespace(context, &args.place)?;
    match wanted[..] {
        [(key, version)] if !context.out.json => one(context, &namespace, key, version),
        _ => several(context, &store, &namespace, &wanted),
    }
}

/// Writes the body alone.
fn one(context: &mut Context, namespace: &Namespace, key: &[u8], version: VersionName) -> Result<Outcome> {
    let body = match version {
        VersionName::Latest => namespace.get(key)?,
        VersionName::Number(version) => namespace.get_version(key, version)?,
    };
    match body {
        Some(body) => context.out.bytes(&body)?,
        None => return Err(not_there(namespace, key, version)?),
    }
    Ok(Outcome::Done)
}

/// Prints records with keys and versions. Names those that are not there, and prints the others.
fn several(
    context: &mut Context,
    store: &Store,
    namespace: &Namespace,
    wanted: &[(&[u8], VersionName)],
) -> Result<Outcome> {
    let snapshot = store.snapshot()?;
    let mut missing: Option<Failure> = None;
    let mut printer = GetPrinter::begin(&mut context.out, namespace.name())?;
    for wanted in wanted.chunks(AT_ONCE) {
        for (&(key, version), record) in wanted.iter().zip(read(&snapshot, namespace, wanted)?) {
            if let Some(record) = record {
                printer.record(&record)?;
                continue;
            }
            // The command ends with the last of them.
            if let Some(before) = missing.replace(not_there(namespace, key, version)?) {
                print::failure(&before);
            }
        }
    }
    printer.end()?;
    missing.map_or(Ok(Outcome::Done), Err)
}

/// Reads records, the latest versions among them together.
fn read(
    snapshot: &Snapshot,
    namespace: &Namespace,
    wanted: &[(&[u8], VersionName)],
) -> Result<Vec<Option<Record>>, ibid_record::Error> {
    let is_latest = |version| matches!(version, VersionName::Latest);
    let latest: Vec<&[u8]> = wanted
        .iter()
        .filter(|wanted| is_latest(wanted.1))
        .map(|wanted| wanted.0)
        .collect();
    let mut latest = snapshot.get_many(namespace, &latest)?.into_iter();
    let one = |&(key, version): &(&[u8], VersionName)| match version {
        VersionName::Latest => Ok(latest.next().flatten()),
        VersionName::Number(version) => {
            let Some(body) = snapshot.get_version(namespace, key, version)? else {
                return Ok(None);
            };
            let versions = snapshot.versions(namespace, key)?;
            let found = versions.iter().find(|found| found.version == version);
            Ok(found.map(|found| Record {
                key: key.to_vec(),
                version,
                number: found.number,
                body,
            }))
        }
    };
    wanted.iter().map(one).collect()
}
