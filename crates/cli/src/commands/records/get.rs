//! `ibid records get`.

use ibid_record::{Error, Namespace, Snapshot, Version};

use super::{not_there, open_namespace};
use crate::args::{GetArgs, VersionName};
use crate::commands::open::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, GetPrinter};

pub(crate) fn run(context: &mut Context, args: &GetArgs) -> Result<Outcome> {
    let wanted = args.wanted().map_err(Failure::Usage)?;
    let (store, namespace) = open_namespace(context, &args.place)?;
    let snapshot = store.snapshot()?;
    match wanted[..] {
        [(key, version)] if !context.out.json => one(context, &snapshot, &namespace, key, version),
        _ => several(context, &snapshot, &namespace, &wanted),
    }
}

/// Writes the body alone.
fn one(
    context: &mut Context,
    snapshot: &Snapshot,
    namespace: &Namespace,
    key: &[u8],
    version: VersionName,
) -> Result<Outcome> {
    let mut written = Ok(());
    let is_there = show(snapshot, namespace, key, version, &mut |body| {
        written = context.out.bytes(body);
    })?;
    written?;
    match is_there {
        true => Ok(Outcome::Done),
        false => Err(not_there(namespace, key, version)?),
    }
}

/// Prints records with keys and versions, one after the other. Names those that are not there, and prints the others.
fn several(
    context: &mut Context,
    snapshot: &Snapshot,
    namespace: &Namespace,
    wanted: &[(&[u8], VersionName)],
) -> Result<Outcome> {
    let mut missing: Option<Failure> = None;
    let mut printer = GetPrinter::begin(&mut context.out, namespace.name())?;
    for &(key, version) in wanted {
        let mut is_there = false;
        if let Some(found) = find(snapshot, namespace, key, version)? {
            let mut written = Ok(());
            is_there = show(snapshot, namespace, key, version, &mut |body| {
                written = printer.record(key, found, body);
            })?;
            written?;
        }
        // The command ends with the last of them.
        if !is_there && let Some(before) = missing.replace(not_there(namespace, key, version)?) {
            print::failure(&before);
        }
    }
    printer.end()?;
    missing.map_or(Ok(Outcome::Done), Err)
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
        VersionName::Number(version) => {
            let mut versions = snapshot.versions(namespace, key)?.into_iter();
            Ok(versions.find(|found| found.version == version))
        }
    }
}
