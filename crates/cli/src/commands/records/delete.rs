//! `ibid records delete`.

use ibid_record::{Batch, Error};

use super::{not_there, open_namespace};
use crate::args::{DeleteArgs, VersionName};
use crate::commands::open::Context;
use crate::failure::{Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context, args: &DeleteArgs) -> Result<Outcome> {
    let (store, namespace) = open_namespace(context, &args.place)?;
    let key = &args.key.0;
    let before = namespace.versions(key)?.len();
    let mut batch = Batch::new();
    if let Some(condition) = args.only.condition() {
        batch.require(&namespace, key, condition);
    }
    if args.purge {
        batch.purge(&namespace, key);
    } else {
        batch.delete(&namespace, key);
    }
    match store.commit(batch) {
        Ok(_) => {}
        Err(Error::NoSuchKey { .. }) => return Err(not_there(&namespace, key, VersionName::Latest)?),
        Err(error) => return Err(error.into()),
    }
    let gone = before.saturating_sub(namespace.versions(key)?.len());
    print::records_delete(&mut context.out, key, gone as u64)?;
    Ok(Outcome::Done)
}
