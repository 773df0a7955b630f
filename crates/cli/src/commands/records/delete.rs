//! `ibid records delete`.

use super::open_namespace;
use crate::args::DeleteArgs;
use crate::commands::open::Context;
use crate::failure::{Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context, args: &DeleteArgs) -> Result<Outcome> {
    let (_store, namespace) = open_namespace(context, &args.place)?;
    let key = &args.key.0;
    let gone = if args.purge {
        let versions = namespace.versions(key)?.len() as u64;
        namespace.purge(key)?;
        versions
    } else {
        namespace.delete(key)?;
        u64::from(namespace.versions(key)?.is_empty())
    };
    print::records_delete(&mut context.out, key, gone)?;
    Ok(Outcome::Done)
}
