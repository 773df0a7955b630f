//! `ibid records put`.

use std::io::Read;
use std::path::Path;

use ibid_format::record::BODY_BYTES_MAX;
use ibid_record::{Batch, Time};
use ibid_terminal::number::size;
use ibid_terminal::{input, path_text};

use super::{indexes, memory_for_body, open_or_make, stored_bytes_max};
use crate::allocator;
use crate::args::PutArgs;
use crate::commands::open::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context, args: &PutArgs) -> Result<Outcome> {
    // Read the file first, so that no store is created if it can't be read.
    let body = read(context, &args.file)?;
    let (key, condition) = (&args.key.0, args.only.condition());
    let (store, namespace) = open_or_make(context, &args.place, &args.new, condition)?;
    let indexes = indexes::of_values(&namespace, &args.index_value)?;
    let mut batch = Batch::new();
    if let Some(condition) = condition {
        batch.require(&namespace, key, condition);
    }
    let bytes = body.len() as u64;
    batch.put(&namespace, key, body);
    if let Some(span) = args.expire_after {
        batch.expire_at(Time::now().after(span));
    }
    for (index, given) in indexes.iter().zip(&args.index_value) {
        batch.index(index, &given.value);
    }
    store.commit(batch)?;
    allocator::committed();
    // The replaced record may become a delta against the new one.
    store.finish_encoding()?;
    // No other process can have the store open, so the latest version is the new one.
    let stored = namespace.latest(key)?.expect("it was stored above");
    print::records_put(&mut context.out, key, stored, bytes)?;
    Ok(Outcome::Done)
}

/// Reads a file, unless it is too long for a body, or for the memory.
fn read(context: &Context, path: &Path) -> Result<Vec<u8>> {
    let mut input = input::open(path)?;
    let most = stored_bytes_max(context) as u64;
    // A pipe has no length before its end.
    let stated = if input::is_stdin(path) {
        None
    } else {
        std::fs::metadata(path).ok()
    };
    let length = stated
        .filter(std::fs::Metadata::is_file)
        .map_or(0, |metadata| metadata.len());
    let mut body = Vec::new();
    if length <= most {
        body.reserve_exact(length as usize + 1);
        let read = input.by_ref().take(most + 1).read_to_end(&mut body);
        read.map_err(|source| Failure::local("read", path, source))?;
    }
    let found = length.max(body.len() as u64);
    if found <= most {
        return Ok(body);
    }
    let name = path_text(path);
    Err(Failure::Fatal(if found > BODY_BYTES_MAX as u64 {
        let most = size(BODY_BYTES_MAX as u64);
        format!("{name}: a record has at most {most}, and the file has more. Store it in parts")
    } else if length > most {
        let (length, needed) = (size(length), memory_for_body(length) >> 20);
        format!("{name}: a record of {length} takes {needed} MiB of memory. Give --memory {needed}MiB or more")
    } else {
        let (most, needed) = (size(most), memory_for_body(BODY_BYTES_MAX as u64) >> 20);
        format!(
            "{name}: a record has at most {most} with this --memory, and the input has more. Any record needs --memory \
             {needed}MiB"
        )
    }))
}
