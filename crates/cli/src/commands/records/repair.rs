//! `ibid records repair`.

use ibid_record::Store;

use super::{is_there, none_there, place};
use crate::args::RepairRecordsArgs;
use crate::commands::open::Context;
use crate::failure::{Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context, args: &RepairRecordsArgs) -> Result<Outcome> {
    let path = place(&args.store)?;
    if !is_there(path)? {
        return Err(none_there(path));
    }
    print::records_repair(&mut context.out, Store::repair(path)?)?;
    Ok(Outcome::Done)
}
