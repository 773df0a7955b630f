//! `ibid records purge`.

use ibid_record::{Batch, Error, Role};

use super::{not_there, open_namespace};
use crate::args::{PurgeArgs, VersionName};
use crate::commands::open::Context;
use crate::failure::{Outcome, Result};
use crate::print::{self, Purged};

pub(crate) fn run(context: &mut Context, args: &PurgeArgs) -> Result<Outcome> {
    let (store, namespace) = open_namespace(context, &args.place)?;
    let (key, (from, to)) = (&args.key.0, args.versions);
    let before = namespace.versions(key)?.len();
    let mut batch = Batch::new();
    if let Some(condition) = args.only.condition() {
        batch.require(&namespace, key, condition);
    }
    batch.purge_versions(&namespace, key, from..=to);
    match store.commit(batch) {
        Ok(_) => {}
        Err(Error::NoSuchKey { .. }) => return Err(not_there(&namespace, key, VersionName::Latest)?),
        Err(error) => return Err(error.into()),
    }
    let removed_versions = before.saturating_sub(namespace.versions(key)?.len()) as u64;
    let mut log = store
        .log()?
        .filter(|log| log.role == Role::Primary && log.first < log.next);
    if args.truncate_log
        && let Some(found) = log.take()
    {
        store.truncate_log(found.next)?;
    }
    let purged = Purged {
        removed_versions,
        in_log: removed_versions > 0 && log.is_some(),
    };
    print::records_purge(&mut context.out, key, purged)?;
    Ok(Outcome::Done)
}
