//! Overwriting the pages of redb's file that are free, but still have what was in them.

use redb::TableDefinition;

use super::{Definition, Shared};
use crate::engine::EngineError;

/// A table that fills free pages for a moment.
const FILLING: Definition = TableDefinition::new("filling");
/// Bytes of a value that takes a page of its own.
const PAGE_PART: usize = 3800;
/// Values that are added before the length of the file is looked at again.
const AT_ONCE: u64 = 64;

impl Shared {
    /// Moves everything to the beginning of the file, and fills the free pages among it with zeros. Returns whether it
    /// was all: not while a snapshot is open, which needs the pages as they are.
    pub(super) fn overwrite_free_pages(&self) -> Result<bool, EngineError> {
        // A process that was killed in the middle may have left it.
        self.empty()?;
        if !self.reclaim_all()? {
            return Ok(false);
        }
        // The pages that one commit frees can be taken after the next but one.
        for _ in 0..2 {
            self.checkpoint_and_give_back(false)?;
        }
        if !self.move_pages()? || self.length()?.is_none() {
            self.checkpoint_and_give_back(false)?;
            return Ok(false); // without a file of its own it is in storage of the caller's
        }
        self.fill()?;
        self.empty()?;
        // The file is as long as it was.
        self.move_pages()?;
        self.checkpoint_and_give_back(false)?;
        Ok(true)
    }

    /// Adds pages of zeros until the file becomes longer. redb takes free pages before that, and in one transaction
    /// nothing else makes the file longer, so none is left then.
    fn fill(&self) -> Result<(), EngineError> {
        let failed = |error: redb::Error| self.failed("write to", error);
        self.in_redb(&self.alone(), |transaction| {
            let mut table = transaction.open_table(FILLING).map_err(|error| failed(error.into()))?;
            let length = self.length()?;
            let mut number: u64 = 0;
            while !number.is_multiple_of(AT_ONCE) || self.length()? <= length {
                let inserted = table.insert(&number.to_be_bytes()[..], &[0; PAGE_PART][..]);
                inserted.map(drop).map_err(|error| failed(error.into()))?;
                number += 1;
            }
            Ok(())
        })
    }

    /// Removes the table that fills.
    fn empty(&self) -> Result<(), EngineError> {
        self.in_redb(&self.alone(), |transaction| {
            let deleted = transaction.delete_table(FILLING).map(drop);
            deleted.map_err(|error| self.failed("write to", error.into()))
        })
    }
}
