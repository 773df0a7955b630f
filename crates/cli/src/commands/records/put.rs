//! `ibid records put`.

use std::io::Read;
use std::path::Path;

use ibid_record::{Batch, NewBody, Store, Time};
use ibid_terminal::input;

use super::{indexes, open_or_make};
use crate::allocator;
use crate::args::PutArgs;
use crate::commands::open::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::print;

/// Bytes that are read at once.
const AT_ONCE: usize = 1 << 20;

pub(crate) fn run(context: &mut Context, args: &PutArgs) -> Result<Outcome> {
    // Read a part of the file first, so that no store is created if it can't be read.
    let mut input = Input::open(&args.file)?;
    let (key, condition) = (&args.key.0, args.only.condition());
    let (store, namespace) = open_or_make(context, &args.place, &args.new, condition)?;
    let indexes = indexes::of_values(&namespace, &args.index_value)?;
    let mut batch = Batch::new();
    if let Some(condition) = condition {
        batch.require(&namespace, key, condition);
    }
    let body = input.body(&store)?;
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
    store.finish_or_leave_encoding()?;
    // No other process can have the store open, so the latest version is the new one.
    let stored = namespace.latest(key)?.expect("it was stored above");
    print::records_put(&mut context.out, key, stored, input.read)?;
    Ok(Outcome::Done)
}

/// A file that is read part by part.
struct Input<'a> {
    path: &'a Path,
    from: Box<dyn Read>,
    part: Vec<u8>,
    /// Bytes that were read.
    read: u64,
}

impl<'a> Input<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        let mut input = Input {
            path,
            from: input::open(path)?,
            part: Vec::new(),
            read: 0,
        };
        input.next()?;
        Ok(input)
    }

    /// Reads the next part; none is left if it is empty.
    fn next(&mut self) -> Result<()> {
        self.part.clear();
        let read = self.from.by_ref().take(AT_ONCE as u64).read_to_end(&mut self.part);
        let read = read.map_err(|source| Failure::local("read", self.path, source))?;
        self.read += read as u64;
        Ok(())
    }

    /// Returns all of it as a body, of which the store has a part already if it is long.
    fn body(&mut self, store: &Store) -> Result<NewBody<'static>> {
        if self.part.len() < AT_ONCE {
            return Ok(std::mem::take(&mut self.part).into());
        }
        let mut writer = store.body_writer()?;
        while !self.part.is_empty() {
            writer.push(&self.part)?;
            self.next()?;
        }
        Ok(writer.finish()?.into())
    }
}
