//! `ibid records salvage`.

use ibid_record::{Argon2Cost, Store};

use super::{is_there, none_there, options_to_store, password_of, place, stepping};
use crate::args::SalvageArgs;
use crate::commands::open::Context;
use crate::commands::watch::Watch;
use crate::failure::{Failure, Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context, args: &SalvageArgs) -> Result<Outcome> {
    let path = place(&args.store)?;
    if !is_there(path)? {
        return Err(none_there(path));
    }
    let password = match Store::is_encrypted(path)? {
        true => Some(password_of(context, path)?),
        false => None,
    };
    let given = password.as_ref().map(|password| (&password[..], Argon2Cost::default()));
    let watch = Watch::start_records(context.global.quiet)?;
    let options = options_to_store(context);
    let found = Store::salvage(path, &args.into, options, given, &mut stepping(&watch.monitor));
    watch.finish();
    let found = found?;
    if found.stopped {
        return Err(Failure::Interrupted("nothing was made, and nothing changed".into()));
    }
    print::records_salvage(&mut context.out, &args.into, &found)?;
    Ok(match found.is_all() {
        true => Outcome::Done,
        false => Outcome::Partial,
    })
}
