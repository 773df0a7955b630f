//! `ibid storage`.

use ibid_storage::{Storage, probe};

use super::open::{Context, open_storage};
use crate::args::StorageCommand;
use crate::failure::{Outcome, Result};
use crate::print;

/// The folder of a repository with the fewest files. Nobody takes the objects of a probe for keys.
const FOLDER: &str = "keys";

pub(crate) fn run(context: &mut Context, command: &StorageCommand) -> Result<Outcome> {
    let StorageCommand::Test = command;
    let storage = open_storage(context.path()?)?;
    let report = probe::run(&storage, FOLDER);
    print::storage_test(&mut context.out, &storage.location(), &report)?;
    Ok(match report.is_ok() && report.left.is_empty() {
        true => Outcome::Done,
        false => Outcome::Failed(1),
    })
}
