//! `ibid records retention`.

use ibid_record::Retention;

use super::open_namespace;
use crate::args::RetentionArgs;
use crate::commands::open::Context;
use crate::failure::{Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context, args: &RetentionArgs) -> Result<Outcome> {
    let (_store, namespace) = open_namespace(context, &args.place)?;
    let given = Retention::default()
        .with_versions(args.keep_last)
        .with_within(args.keep_within)
        .with_lifetime(args.expire_after);
    if args.keep_all || given != Retention::default() {
        namespace.set_retention(given)?;
    }
    print::records_retention(
        &mut context.out,
        namespace.name(),
        namespace.keeps(),
        namespace.retention()?,
    )?;
    Ok(Outcome::Done)
}
