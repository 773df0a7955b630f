//! One restore from start to summary: threads, totals, and final steps.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ibid_format::content::Content;
use ibid_format::tree::{EntryKind, TreeEntry};

use super::attributes::Held;
use super::folder::{Folder, Then};
use super::open_files::OpenFiles;
use super::options::{Overwrite, RestoreSummary};
use super::owners::Owners;
use super::plan::{Planner, Shared};
use super::preview::OnPlanned;
use super::progress::{Tally, Total};
use super::selected::Selected;
use super::task::Task;
use super::{target, write};
use crate::read::ChunkReader;
use crate::threads::{bounded, cores, scope, spawn};
use crate::tree::Found;
use crate::{Error, Result};

/// The entries to restore.
struct Wanted {
    listing: Content,
    /// The entry, if it is not a directory.
    single: Option<Box<TreeEntry>>,
    /// The directory whose attributes the destination gets, if any.
    top: Option<Box<TreeEntry>>,
}

impl Task<'_> {
    /// Finds the entries to restore, and checks that they may be restored.
    fn wanted(&self, reader: &ChunkReader<'_>) -> Result<Wanted> {
        let (listing, single, top) = match self.repository.find(reader, self.from)? {
            Found::Root(listing) => (listing, None, None),
            Found::Entry(entry) => match entry.kind {
                EntryKind::Directory(ref listing) => (listing.clone(), None, Some(entry)),
                _ => (Content::empty(), Some(entry), None),
            },
        };
        if self.options.overwrite == Overwrite::Refuse {
            self.refuse_existing(reader, &listing, single.as_deref())?;
        }
        Ok(Wanted { listing, single, top })
    }

    /// Previews the restore.
    pub(crate) fn run_dry(&self, hear: OnPlanned<'_>) -> Result<RestoreSummary> {
        let reader = self.repository.tree_reader()?;
        let Wanted { listing, single, .. } = self.wanted(&reader)?;
        let mut summary = self.preview(&reader, &listing, single.as_deref(), hear)?;
        summary.failed += self.selection.tell_unmatched(self.monitor);
        Ok(summary)
    }

    pub(crate) fn run(&self) -> Result<RestoreSummary> {
        let loaded = self.repository.loaded()?;
        let reader = self.repository.tree_reader()?;
        let Wanted { listing, single, top } = self.wanted(&reader)?;
        // Other users must not look into a directory before it has its own mode.
        let mode = if top.is_some() { 0o700 } else { 0o777 };
        let (root, made) = target::open_destination(&self.destination, mode)?;
        let unlocked = target::let_us_in(&Held::open(&root))
            .map_err(|error| Error::local("write into", &self.destination, error))?;
        let root = Arc::new(root);
        let is_empty = made || target::is_empty(&root, b".").unwrap_or(false);
        let open_files = OpenFiles::within_limits();
        let progress = Tally::default();
        let threads = self
            .options
            .threads
            .unwrap_or_else(cores)
            .clamp(1, 16)
            .min(self.repository.readers_max(&loaded));
        let chunks = self.repository.bulk_reader_ahead(&loaded);
        let (groups, work) = bounded(4 * threads);
        let restore = || {
            scope(|scope| {
                for _ in 0..threads {
                    let (work, progress, chunks) = (work.clone(), &progress, &chunks);
                    spawn(scope, move || write::run(self, chunks, progress, &work))?;
                }
                drop(work);
                let owners = Owners::new(self);
                let then = match top {
                    Some(entry) if made || self.updates_directories() => Then::All(owners.of(&entry), entry),
                    _ => unlocked.map_or(Then::Nothing, Then::Mode),
                };
                if !self.set_totals_of_all() {
                    let (reader, listing, single, progress) = (&reader, &listing, single.as_deref(), &progress);
                    // This thread only improves progress: without it, the totals are known when
                    // planning ends.
                    let _ = spawn(scope, move || {
                        let _ = self.estimate(reader, listing, single, progress);
                    });
                }
                let destination = Folder::destination(self, &root, then);
                let shared = Shared {
                    task: self,
                    loaded: &loaded,
                    reader: &reader,
                    progress: &progress,
                    open_files: &open_files,
                    chunks: &chunks,
                };
                let planner = Planner::new(shared, groups, root.clone(), destination, owners);
                planner.run(&listing, single.as_deref(), is_empty)
            })
        };
        let result = chunks.while_fetching(restore);
        let (mut summary, lost) = progress.into_summary()?;
        result?;
        self.monitor.check_cancelled()?;
        summary.inode_flags_lost = self.inode_flags_lost.load(Ordering::Relaxed);
        summary.failed += self.selection.tell_unmatched(self.monitor);
        if self.options.verify {
            let counters = &self.monitor.counters;
            counters.verifying.store(true, Ordering::Relaxed);
            for counter in [&counters.files, &counters.bytes, &counters.skipped] {
                counter.store(0, Ordering::Relaxed);
            }
            summary.verified = self.verify(&reader, &listing, single.as_deref(), &root, &lost, &mut summary.failed)?;
        }
        Ok(summary)
    }

    /// Sets the totals from the snapshot if all of it is restored. Returns whether it did.
    fn set_totals_of_all(&self) -> bool {
        let all = crate::tree::clean(&self.from.path).as_os_str().is_empty()
            && self.options.include.is_empty()
            && self.options.exclude.is_empty();
        if all {
            let counters = &self.from.snapshot.snapshot.counters;
            let (files, bytes) = (counters.files, counters.bytes);
            Total { files, bytes }.tell(self.monitor);
        }
        all
    }

    /// Counts the entries to restore ahead of the planner, until the planner has finished.
    fn estimate(
        &self,
        reader: &ChunkReader<'_>,
        listing: &Content,
        single: Option<&TreeEntry>,
        progress: &Tally,
    ) -> Result<()> {
        let mut total = Total::default();
        self.selected(reader, listing, single, &mut |step| {
            if self.monitor.counters.totals_final.load(Ordering::Relaxed) || progress.is_stopped() {
                return Err(Error::Interrupted);
            }
            if let Selected::Entry { entry, .. } = step {
                total.add(entry);
            }
            Ok(true)
        })?;
        total.tell(self.monitor);
        Ok(())
    }

    /// Returns whether existing directories get the snapshot's attributes.
    pub(crate) fn updates_directories(&self) -> bool {
        matches!(self.options.overwrite, Overwrite::Always | Overwrite::IfChanged)
    }
}
