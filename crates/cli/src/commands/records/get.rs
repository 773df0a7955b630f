//! `ibid records get`.

use super::{not_there, open_namespace};
use crate::args::{GetArgs, VersionName};
use crate::commands::no_json;
use crate::commands::open::Context;
use crate::failure::{Failure, Outcome, Result};

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
        None => return Err(not_there(&namespace, key, version)?),
    }
    Ok(Outcome::Done)
}
