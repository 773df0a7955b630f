//! `ibid records get`.

use ibid_record::{Error, Namespace, Record, Snapshot, Store};

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
        VersionName::AsOf(time) => namespace.get_as_of(key, time)?,
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
            let failure = match record {
                Ok(Some(record)) => {
                    printer.record(&record)?;
                    continue;
                }
                Ok(None) => not_there(namespace, key, version)?,
                Err(error @ (Error::Purged { .. } | Error::TimeUnknown { .. })) => error.into(),
                Err(error) => return Err(error.into()),
            };
            // The command ends with the last of them.
            if let Some(before) = missing.replace(failure) {
                print::failure(&before);
            }
        }
    }
    printer.end()?;
    missing.map_or(Ok(Outcome::Done), Err)
}

/// Reads records, the latest versions among them together. Each may fail by itself.
fn read(
    snapshot: &Snapshot,
    namespace: &Namespace,
    wanted: &[(&[u8], VersionName)],
) -> Result<Vec<Result<Option<Record>, Error>>, Error> {
    let is_latest = |version| matches!(version, VersionName::Latest);
    let latest: Vec<&[u8]> = wanted
        .iter()
        .filter(|wanted| is_latest(wanted.1))
        .map(|wanted| wanted.0)
        .collect();
    let mut latest = snapshot.get_many(namespace, &latest)?.into_iter();
    let one = |&(key, version): &(&[u8], VersionName)| {
        let (body, found) = match version {
            VersionName::Latest => return Ok(latest.next().flatten()),
            VersionName::Number(version) => {
                let body = snapshot.get_version(namespace, key, version)?;
                let versions = snapshot.versions(namespace, key)?;
                let found = versions.into_iter().find(|found| found.version == version);
                (body, found)
            }
            VersionName::AsOf(time) => {
                let body = snapshot.get_as_of(namespace, key, time)?;
                (body, snapshot.version_as_of(namespace, key, time)?)
            }
        };
        Ok(body.zip(found).map(|(body, found)| Record {
            key: key.to_vec(),
            version: found.version,
            number: found.number,
            time: found.time,
            body,
        }))
    };
    Ok(wanted.iter().map(one).collect())
}
