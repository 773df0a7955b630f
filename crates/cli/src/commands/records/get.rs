//! `ibid records get`.

use ibid_record::{Error, Namespace, Snapshot, Version};

use super::{not_there, open_namespace_to_read};
use crate::args::{GetArgs, VersionName};
use crate::commands::open::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, GetPrinter};

pub(crate) fn run(context: &mut Context, args: &GetArgs) -> Result<Outcome> {
    let wanted = args.wanted().map_err(Failure::Usage)?;
    let (store, namespace) = open_namespace_to_read(context, &args.place)?;
    let snapshot = store.snapshot()?;
    match wanted[..] {
        [(key, version)] if !context.out.json => one(context, &snapshot, &namespace, key, version),
        _ => several(context, &snapshot, &namespace, &wanted),
    }
}

/// Writes the body alone, piece by piece if it is long.
fn one(
    context: &mut Context,
    snapshot: &Snapshot,
    namespace: &Namespace,
    key: &[u8],
    version: VersionName,
) -> Result<Outcome> {
    let opened = match version {
        VersionName::Latest => snapshot.open(namespace, key)?,
        VersionName::Number(version) => snapshot.open_version(namespace, key, version)?,
        VersionName::AsOf(time) => match snapshot.version_as_of(namespace, key, time)? {
            Some(then) => snapshot.open_version(namespace, key, then.version)?,
            None => None,
        },
    };
    let Some(mut body) = opened else {
        return Err(not_there(namespace, key, version)?);
    };
    loop {
        match body.next_bytes()? {
            [] => return Ok(Outcome::Done),
            bytes => context.out.bytes(bytes)?,
        }
    }
}

/// Prints records with keys and versions, one after the other. Names those that are not there or can't be read, and
/// prints the others.
fn several(
    context: &mut Context,
    snapshot: &Snapshot,
    namespace: &Namespace,
    wanted: &[(&[u8], VersionName)],
) -> Result<Outcome> {
    let mut missing: Option<Failure> = None;
    let mut printer = GetPrinter::begin(&mut context.out, namespace.name())?;
    for &(key, version) in wanted {
        let failure = match print(&mut printer, snapshot, namespace, key, version) {
            Ok(true) => continue,
            Ok(false) => not_there(namespace, key, version)?,
            // They say nothing of others.
            Err(
                failure @ Failure::Records(
                    Error::Purged { .. }
                    | Error::TimeUnknown { .. }
                    | Error::Damaged { .. }
                    | Error::BodyTooLong { .. },
                ),
            ) => failure,
            Err(failure) => return Err(failure),
        };
        // The command ends with the last of them.
        if let Some(before) = missing.replace(failure) {
            print::failure(&before);
        }
    }
    printer.end()?;
    missing.map_or(Ok(Outcome::Done), Err)
}

/// Prints a record. Returns whether it is there.
fn print(
    printer: &mut GetPrinter<'_>,
    snapshot: &Snapshot,
    namespace: &Namespace,
    key: &[u8],
    version: VersionName,
) -> Result<bool> {
    let Some(found) = find(snapshot, namespace, key, version)? else {
        return Ok(false);
    };
    let mut written = Ok(());
    let is_there = show(snapshot, namespace, key, version, &mut |body| {
        written = printer.record(key, found, body);
    })?;
    written?;
    Ok(is_there)
}

/// Shows a body, without a copy if it is stored whole. Returns whether it is there.
fn show(
    snapshot: &Snapshot,
    namespace: &Namespace,
    key: &[u8],
    version: VersionName,
    found: &mut dyn FnMut(&[u8]),
) -> Result<bool, Error> {
    match version {
        VersionName::Latest => snapshot.show(namespace, key, found),
        VersionName::Number(version) => snapshot.show_version(namespace, key, version, found),
        VersionName::AsOf(time) => match snapshot.version_as_of(namespace, key, time)? {
            Some(then) => snapshot.show_version(namespace, key, then.version, found),
            None => Ok(false),
        },
    }
}

fn find(
    snapshot: &Snapshot,
    namespace: &Namespace,
    key: &[u8],
    version: VersionName,
) -> Result<Option<Version>, Error> {
    match version {
        VersionName::Latest => snapshot.latest(namespace, key),
        VersionName::Number(number) => {
            let mut versions = snapshot.versions(namespace, key)?.into_iter();
            let found = versions.find(|found| found.version == number);
            if found.is_none() {
                // It says so if the version was purged.
                snapshot.show_version(namespace, key, number, &mut |_| {})?;
            }
            Ok(found)
        }
        VersionName::AsOf(time) => snapshot.version_as_of(namespace, key, time),
    }
}
