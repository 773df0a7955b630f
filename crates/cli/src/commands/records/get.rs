//! `ibid records get`.

use super::open_namespace;
use crate::args::{GetArgs, VersionName};
use crate::commands::no_json;
use crate::commands::open::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::print;
use ibid_record::Namespace;

pub(crate) fn run(context: &mut Context, args: &GetArgs) -> Result<Outcome> {
    no_json(context, "records get")?;
    let (key, version) = args.wanted().map_err(Failure::Usage)?;
    let (_store, namespace) = open_namespace(context, &args.place)?;
    let body = match version {
        VersionName::Latest => namespace.get(key)?,
        VersionName::Number(version) => namespace.get_version(key, version)?,
    };
    match body {
        Some(body) => context.out.bytes(&body)?,
        None => return Err(why_not(&namespace, key, version)?),
    }
    Ok(Outcome::Done)
}

/// What there is instead of what was asked for.
fn why_not(namespace: &Namespace, key: &[u8], asked: VersionName) -> Result<Failure> {
    let versions = namespace.versions(key)?;
    let (name, shown) = (print::shown(namespace.name().as_bytes()), print::shown(key));
    let asked = match asked {
        VersionName::Latest => versions.last().map_or(1, |latest| latest.version),
        VersionName::Number(version) => version,
    };
    let is_deletion = versions
        .iter()
        .any(|version| version.version == asked && version.deleted);
    Ok(Failure::NotThere(match versions.last() {
        None => format!(
            "namespace \"{name}\" has no record under \"{shown}\"; `ibid records scan --keys-only` lists what keys there are"
        ),
        Some(_) if is_deletion => {
            format!("\"{shown}\" was deleted with version {asked}; `ibid records versions` lists those before it")
        }
        Some(latest) => format!(
            "\"{shown}\" has no version {asked}: the latest is {}; `ibid records versions` lists them",
            latest.version
        ),
    }))
}
