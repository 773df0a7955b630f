//! `ibid records retention`.

use ibid_record::Retention;

use super::{open_namespace, open_namespace_to_read};
use crate::args::RetentionArgs;
use crate::commands::open::Context;
use crate::failure::{Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context, args: &RetentionArgs) -> Result<Outcome> {
    let given = Retention::default()
        .with_versions(args.keep_last)
        .with_within(args.keep_within)
        .with_lifetime(args.expire_after);
    let is_given = args.keep_all || given != Retention::default();
    let (_store, namespace) = match is_given {
        true => open_namespace(context, &args.place)?,
        false => open_namespace_to_read(context, &args.place)?,
    };
    if is_given {
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
