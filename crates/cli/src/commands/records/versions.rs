//! `ibid records versions`.

use super::open_namespace;
use crate::args::VersionsOfArgs;
use crate::commands::open::Context;
use crate::failure::{Outcome, Result};
use crate::print;
use ibid_record::Error;

pub(crate) fn run(context: &mut Context, args: &VersionsOfArgs) -> Result<Outcome> {
    let (_store, namespace) = open_namespace(context, &args.place)?;
    let key = &args.key.0;
    let versions = namespace.versions(key)?;
    if versions.is_empty() {
        let (namespace, key) = (namespace.name().to_owned(), key.clone());
        return Err(Error::NoSuchKey { namespace, key }.into());
    }
    print::records_versions(&mut context.out, key, &versions)?;
    Ok(Outcome::Done)
}
