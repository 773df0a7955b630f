//! `ibid records latest`.

use super::{open_namespace, open_namespace_to_read};
use crate::args::LatestArgs;
use crate::commands::open::Context;
use crate::failure::{Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context, args: &LatestArgs) -> Result<Outcome> {
    let (_store, namespace) = match args.how {
        Some(_) => open_namespace(context, &args.place)?,
        None => open_namespace_to_read(context, &args.place)?,
    };
    if let Some(how) = args.how {
        namespace.set_latest_as(how.latest())?;
    }
    print::records_latest(
        &mut context.out,
        namespace.name(),
        namespace.keeps(),
        namespace.latest_as()?,
    )?;
    Ok(Outcome::Done)
}
