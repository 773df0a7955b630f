//! The entries of the log by their positions.

use std::ops::{Bound, ControlFlow};

use ibid_format::record::{Digest, LogEntry, open_log_entry};

use crate::engine::{Direction, Read, Snapshot, Table};
use crate::error::{Damage, Error};

/// Returns the entry at a position, and its digest.
pub(crate) fn at(read: &(impl Read + ?Sized), position: u64) -> Result<(LogEntry, Digest), Error> {
    let key = position.to_be_bytes();
    let mut entry = Err(Damage::Missing);
    let mut found = |value: &[u8]| {
        let opened = open_log_entry(position, value);
        let decoded = opened.and_then(|(entry, digest)| Ok((LogEntry::decode(entry)?, digest)));
        entry = decoded.map_err(Damage::Bytes);
    };
    read.get(Table::Oplog, &key, &mut found)?;
    entry.map_err(|damage| Error::damaged(Table::Oplog, &key, damage))
}

/// The entries of a log from a position on.
pub(crate) struct Entries {
    next: u64,
    page: std::vec::IntoIter<(u64, Vec<u8>)>,
}

impl Entries {
    pub(crate) fn from(position: u64) -> Self {
        Entries {
            next: position,
            page: Vec::new().into_iter(),
        }
    }

    /// Returns the position of the entry that comes next.
    pub(crate) fn position(&self) -> u64 {
        self.next
    }

    /// Returns the bytes of the next entry, and its digest; [`None`] at the end of the log.
    pub(crate) fn next(&mut self, read: &dyn Snapshot) -> Result<Option<(Vec<u8>, Digest)>, Error> {
        const PAGE: usize = 64;
        if self.page.len() == 0 {
            let mut page = Vec::new();
            let mut each = |key: &[u8], value: &[u8]| {
                let position = key.try_into().map_or(0, u64::from_be_bytes);
                page.push((position, value.to_vec()));
                if page.len() < PAGE {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            };
            let from = self.next.to_be_bytes();
            let range = (Bound::Included(&from[..]), Bound::Unbounded);
            read.range(Table::Oplog, range, Direction::Forward, &mut each)?;
            self.page = page.into_iter();
        }
        let Some((position, value)) = self.page.next() else {
            return Ok(None);
        };
        let key = position.to_be_bytes();
        if position != self.next {
            return Err(Error::damaged(Table::Oplog, &self.next.to_be_bytes(), Damage::Missing));
        }
        self.next += 1;
        let opened = open_log_entry(position, &value);
        let (entry, digest) = opened.map_err(|error| Error::damaged(Table::Oplog, &key, error))?;
        Ok(Some((entry.to_vec(), digest)))
    }
}
