//! Changing the tags of a snapshot.
//!
//! The id of a snapshot is the name of a file that never changes, so a snapshot with other tags is another one:
//! it has a new id, the same place in the order, and says which one it was made from.

use ibid_format::FileId;
use ibid_format::snapshot::Snapshot;

use crate::layout::{folder, name_in};
use crate::{Error, Repository, Result, SnapshotInfo};

impl Repository {
    /// Stores a snapshot again with these tags instead of its own, and deletes it then. Returns the new id;
    /// `None` if it has these tags already, and then nothing is written. The order of tags does not matter.
    ///
    /// The new snapshot has the place of the old one among the others. A crash in between leaves both; doing it
    /// again then deletes the old one.
    ///
    /// # Errors
    /// [`Error::SnapshotIncomplete`] if a part of its data is missing, [`Error::SessionEnded`], damage of its
    /// tree, errors of the storage. In each case the old snapshot stays.
    pub fn set_tags(&self, info: &SnapshotInfo, tags: &[String], program: &str) -> Result<Option<FileId>> {
        let mut tags = tags.to_vec();
        tags.sort_unstable();
        tags.dedup();
        if tags == info.snapshot.tags {
            return Ok(None);
        }
        let again = Snapshot {
            tags,
            original: Some(info.snapshot.original.unwrap_or(info.id)),
            ..info.snapshot.clone()
        };
        // A crash may have left one.
        let all = self.snapshots_with(|_, _| {})?;
        let id = match all.iter().find(|other| other.snapshot == again) {
            Some(other) => other.id,
            None => {
                let snapshot = info.short_id();
                self.put_again(&again, "tag", program, || Error::SnapshotIncomplete {
                    snapshot: snapshot.clone(),
                })?
            }
        };
        self.delete_if_there(&name_in(folder::SNAPSHOTS, info.id))?;
        if let Some(copies) = &self.files.copies {
            copies.remove(folder::SNAPSHOTS, info.id);
        }
        Ok(Some(id))
    }
}
