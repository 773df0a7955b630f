//! What a repair is to do, and what it did.

use crate::options::setters;
use crate::{CheckReport, Fault, PackBytes};

/// Settings of a repair.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RepairOptions {
    /// Only finds out what there is to do. Nothing is written.
    pub dry_run: bool,
    /// Does not read the data of packs whose structure is intact, so it does not find bytes that rotted
    /// there.
    pub fast: bool,
    /// Deletes the files that earlier repairs have set aside.
    pub delete_damaged: bool,
}

setters!(RepairOptions {
    dry_run: bool,
    fast: bool,
    delete_damaged: bool,
} into {
});

/// Result of a repair. Of a dry run: what it would have done.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Packs examined.
    pub packs: u64,
    /// Packs that were not examined, because they are in an archive. They are left as they are.
    pub archived: PackBytes,
    /// Frames of damaged packs that were stored again in new packs.
    pub salvaged_frames: u64,
    /// Bytes of these frames, compressed and sealed.
    pub salvaged_bytes: u64,
    /// Frames that can't be read any more, in packs that are there.
    pub lost_frames: u64,
    /// Packs that no index file listed, and that one lists now.
    pub listed_packs: u64,
    /// Damaged files that were moved below `damaged/`, under the names that they had, and why.
    pub set_aside: Vec<Fault>,
    /// Damaged files that were deleted because all that was in them is elsewhere now, and why.
    pub deleted: Vec<Fault>,
    /// Files that can't be read now, and were left as they are.
    pub left: Vec<Fault>,
    /// Entries at the end of the log of prunes that are damaged. Another one follows them now.
    pub log_entries: u64,
    /// Missing packs that the index lists no longer, because nothing needs them.
    pub forgotten_packs: u64,
    /// Files below `damaged/` that earlier repairs had set aside, and that were deleted.
    pub deleted_aside: u64,
    /// Bytes written to the repository.
    pub written: u64,
    /// Result of the check afterwards: what is lost. For a dry run, of the repository as it is.
    pub check: CheckReport,
}

impl RepairReport {
    /// Returns whether there was nothing to repair, and nothing is lost.
    pub fn is_clean(&self) -> bool {
        let files = self.set_aside.len() + self.deleted.len() + self.left.len();
        let others = self.listed_packs + self.forgotten_packs + self.lost_frames + self.log_entries;
        files == 0 && others == 0 && self.check.is_clean()
    }

    /// Returns how many snapshots were set aside: no file of them can be restored.
    pub fn lost_snapshots(&self) -> u64 {
        let is_snapshot = |fault: &&Fault| fault.object.starts_with("snapshots/");
        self.set_aside.iter().filter(is_snapshot).count() as u64
    }
}
