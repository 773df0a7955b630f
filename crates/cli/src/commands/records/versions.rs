//! `ibid records versions`.

use super::{not_there, open_namespace_to_read};
use crate::args::{VersionName, VersionsOfArgs};
use crate::commands::open::Context;
use crate::failure::{Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context, args: &VersionsOfArgs) -> Result<Outcome> {
    let (_store, namespace) = open_namespace_to_read(context, &args.place)?;
    let key = &args.key.0;
    let versions = namespace.versions(key)?;
    if versions.is_empty() {
        return Err(not_there(&namespace, key, VersionName::Latest)?);
    }
    print::records_versions(&mut context.out, key, &versions)?;
    Ok(Outcome::Done)
}
