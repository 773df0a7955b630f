//! Leaving files out of a snapshot that exists.
//!
//! Listings are written anew, and what stays in them is taken over by id: no file's data is read.

use ibid_format::FileId;
use ibid_format::snapshot::{Snapshot, SnapshotTotals};

use crate::derived::{Due, is_there, same_as};
use crate::ingest::{CopySource, Derived};
use crate::options::setters;
use crate::source::Excludes;
use crate::{BackupOptions, Error, Hints, Repository, Result, Similarity, SnapshotInfo, Warning};

/// Options of [`rewrite`](Repository::rewrite).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RewriteOptions {
    /// Files to leave out, by patterns. The other rules of a backup have no effect.
    pub excludes: Excludes,
    /// Leave out files and folders whose data is in no pack, each of which the monitor is told.
    pub exclude_lost: bool,
    /// Forget the old snapshot.
    pub forget: bool,
    /// Say what would be left out, and write nothing.
    pub dry_run: bool,
    /// Name and version of the calling program, for the session.
    pub program: String,
}

setters!(RewriteOptions {
    excludes: Excludes,
    exclude_lost: bool,
    forget: bool,
    dry_run: bool,
} into {
    program: String,
});

/// What [`rewrite`](Repository::rewrite) has done, or would do.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RewriteSummary {
    /// Id of the new snapshot; none if nothing was left out, and for a dry run.
    pub id: Option<FileId>,
    /// What it has; `files`, `directories`, `others` and `bytes` of the old one if nothing was left out.
    pub counters: SnapshotTotals,
    /// Bytes written to the repository.
    pub written: u64,
}

impl Repository {
    /// Stores a snapshot again without the files that the excludes match, under a new id and with the same place in
    /// the order. Unlike in a backup, they can match what was named to be backed up, too.
    ///
    /// With [`exclude_lost`](RewriteOptions#structfield.exclude_lost) it also loses what can't be restored, so that the
    /// rest is whole. A later backup of the same files might have brought it back.
    ///
    /// Of a snapshot of a writer, a keeper signs the new one. What the writer has stored is read for that and compared
    /// with its ids, as in a prune.
    ///
    /// The data of the files stays until the old snapshot is forgotten, and a [prune](Repository::prune) has run.
    ///
    /// # Errors
    /// [`BadPattern`](crate::Error::BadPattern); [`NothingLeft`](crate::Error::NothingLeft) if the excludes match all;
    /// [`SnapshotGone`](crate::Error::SnapshotGone) if another process has changed or forgotten it meanwhile; damage of
    /// what is to stay; [`Interrupted`](crate::Error::Interrupted); errors of the storage. In each case the
    /// old snapshot stays.
    pub fn rewrite(&self, info: &SnapshotInfo, options: &RewriteOptions) -> Result<RewriteSummary> {
        self.refuse_write_only("changing files of a snapshot")?;
        if options.forget && !options.dry_run {
            self.refuse_append_only()?;
        }
        // What a keeper stores relies on nothing that the writer claims to have stored.
        let doubting = self.doubting_still();
        let snapshot = Snapshot {
            original: Some(self.own_first_id(info)),
            ..info.snapshot.clone()
        };
        let excludes = Excludes::default()
            .patterns(options.excludes.patterns.clone())
            .files(options.excludes.files.clone())
            .any_case(options.excludes.any_case.clone());
        let store = BackupOptions::default()
            .excludes(excludes)
            .program(options.program.as_str())
            .dry_run(options.dry_run)
            .similarity(Similarity::Off)
            .hints(Hints::Off);
        let reader = doubting.tree_reader()?;
        let summary = loop {
            let derived = Derived {
                source: CopySource {
                    reader: &reader,
                    root: info.snapshot.root.clone(),
                    earlier: Some((info.snapshot.root.clone(), info.snapshot.root.clone())),
                    chunk_max: 0,
                    // What `earlier` says is enough.
                    shares_ids: false,
                    moves: None,
                    ahead: Default::default(),
                    leaves_out_lost: options.exclude_lost,
                },
                earlier: Some(info.id),
                snapshot: &snapshot,
                loses_files: true,
                action: "rewrite",
                seen: &mut Vec::new(),
                is_due: &|seen, again| match same_as(seen, again) {
                    Some(other) => Ok(Due::IsThere(other.id)),
                    None => is_there(seen, info).map(|()| Due::Yes),
                },
            };
            match doubting.store_derived(derived, &store) {
                Ok(Some(summary)) => break summary,
                Ok(None) => self.monitor.warn(Warning::BackupBeginsAgain),
                // The listing of all the rest.
                Err(Error::ChunkMissing { .. }) if options.exclude_lost => {
                    let snapshot = info.short_id();
                    return Err(Error::NothingLeft { snapshot });
                }
                Err(error) => return Err(error),
            }
        };
        self.refresh();
        if options.forget && summary.id.is_some() {
            self.forget(&[info.id])?;
        }
        Ok(RewriteSummary {
            id: summary.id,
            counters: summary.counters,
            written: summary.written,
        })
    }
}
