//! `ibid records put`.

use std::io::Read;
use std::path::Path;

use ibid_format::record::BODY_BYTES_MAX;
use ibid_record::Batch;
use ibid_terminal::number::size;
use ibid_terminal::{input, path_text};

use super::open_or_make;
use crate::args::PutArgs;
use crate::commands::open::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context, args: &PutArgs) -> Result<Outcome> {
    // Read the file first, so that no store is created if it can't be read.
    let body = read(&args.file)?;
    let (key, condition) = (&args.key.0, args.only.condition());
    let (store, namespace) = open_or_make(context, &args.place, &args.new, condition)?;
    let mut batch = Batch::new();
    if let Some(condition) = condition {
        batch.require(&namespace, key, condition);
    }
    let bytes = body.len() as u64;
    batch.put(&namespace, key, body);
    store.commit(batch)?;
    // The replaced record may become a delta against the new one.
    store.finish_encoding()?;
    // No other process can have the store open, so the latest version is the new one.
    let stored = namespace.latest(key)?.expect("it was stored above");
    print::records_put(&mut context.out, key, stored, bytes)?;
    Ok(Outcome::Done)
}

/// Reads a file, unless it is too long for a body.
fn read(path: &Path) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    let mut bounded = input::open(path)?.take(BODY_BYTES_MAX as u64 + 1);
    let read = bounded.read_to_end(&mut body);
    read.map_err(|source| Failure::local("read", path, source))?;
    if body.len() > BODY_BYTES_MAX {
        return Err(Failure::Fatal(format!(
            "{}: a record has at most {}, and the file has more. Store it in parts",
            path_text(path),
            size(BODY_BYTES_MAX as u64)
        )));
    }
    Ok(body)
}
