//! `ibid sessions`.

use super::open::Context;
use crate::failure::{Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context) -> Result<Outcome> {
    let opened = context.open()?;
    let mut outcome = Outcome::Done;
    let sessions = opened.repository.sessions(|_, error| {
        outcome = Outcome::Partial;
        print::failure(&error.into());
    })?;
    // One that can't be read does no harm.
    let checkpoints = opened.repository.checkpoints(|_, _| {})?;
    print::sessions(&mut context.out, opened.about, &sessions, &checkpoints)?;
    Ok(outcome)
}
