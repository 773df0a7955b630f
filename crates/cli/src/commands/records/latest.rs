//! `ibid records latest`.

use super::open_namespace;
use crate::args::LatestArgs;
use crate::commands::open::Context;
use crate::failure::{Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context, args: &LatestArgs) -> Result<Outcome> {
    let (_store, namespace) = open_namespace(context, &args.place)?;
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
