//! `ibid records verify`.

use ibid_record::Error;
use ibid_record::engine::EngineError;
use ibid_terminal::number::counted;

use super::{open_to_read, stepping};
use crate::args::VerifyArgs;
use crate::commands::open::Context;
use crate::commands::watch::Watch;
use crate::failure::{Failure, Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context, args: &VerifyArgs) -> Result<Outcome> {
    let store = open_to_read(context, &args.store).map_err(damage_is_a_fault)?;
    let watch = Watch::start_records(context.global.quiet)?;
    let found = store.verify(&mut stepping(&watch.monitor));
    watch.finish();
    let found = found.map_err(|error| damage_is_a_fault(error.into()))?;
    if found.stopped {
        let faults = counted(found.faults_total, "fault was", "faults were");
        return Err(Failure::Interrupted(format!("{faults} found so far").into()));
    }
    print::records_verify(&mut context.out, &found)?;
    Ok(if found.is_clean() {
        Outcome::Done
    } else {
        Outcome::Faults
    })
}

/// Turns damage that prevents opening a store into a fault: finding it is the purpose of `verify`.
fn damage_is_a_fault(failure: Failure) -> Failure {
    match failure {
        Failure::Records(Error::Damaged { .. } | Error::Engine(EngineError::Damaged { .. })) => {
            Failure::Faults(failure.into())
        }
        failure => failure,
    }
}
