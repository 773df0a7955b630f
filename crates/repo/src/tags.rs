//! Changing the tags of a snapshot.
//!
//! The id of a snapshot is the name of a file that never changes, so a snapshot with other tags is another one:
//! it has a new id, the same place in the order, and says which one it was made from.

use ibid_format::FileId;
use ibid_format::snapshot::Snapshot;

use crate::derived::{Due, is_there, same_as};
use crate::{Error, Repository, Result, SnapshotInfo};

impl Repository {
    /// Stores a snapshot again with these tags instead of its own, and deletes it then. Returns the new id;
    /// `None` if it has these tags already, and then nothing is written. The order of tags does not matter.
    ///
    /// The new snapshot has the place of the old one among the others. A crash in between leaves both; doing it
    /// again then deletes the old one.
    ///
    /// # Errors
    /// [`Error::SnapshotIncomplete`] if a part of its data is missing; [`Error::SnapshotGone`] if another process has
    /// changed or forgotten it meanwhile; [`Error::SessionEnded`]; damage of its tree; errors of the storage. In each
    /// case nothing is deleted.
    pub fn set_tags(&self, info: &SnapshotInfo, tags: &[String], program: &str) -> Result<Option<FileId>> {
        let mut tags = tags.to_vec();
        tags.sort_unstable();
        tags.dedup();
        if tags == info.snapshot.tags {
            return Ok(None);
        }
        self.refuse_append_only()?;
        let again = Snapshot {
            tags,
            original: Some(self.own_first_id(info)),
            ..info.snapshot.clone()
        };
        let lacking = || Error::SnapshotIncomplete {
            snapshot: info.short_id(),
        };
        let id = self.put_again(&again, "tag", program, lacking, &|seen, again| {
            match same_as(seen, again) {
                // A crash has left it, or another process was faster.
                Some(other) => Ok(Due::IsThere(other.id)),
                None => is_there(seen, info).map(|()| Due::Yes),
            }
        })?;
        self.delete_snapshots(&[info.id])?;
        Ok(Some(id))
    }
}
