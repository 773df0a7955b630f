//! What comes next in a tree, gathered for the workers.

use ibid_format::tree::TreeEntry;

use super::limits::BATCH_BYTES;
use super::read::{Disconnected, Event, Outlets};
use super::work::{BatchItem, Work, attribute_bytes};
use crate::threads::bounded;

/// Maximum number of files in a batch, and of items, with the directories that begin and end.
const BATCH_FILES: usize = 256;
const BATCH_ITEMS: usize = 2 * BATCH_FILES;

/// Small files, and the directories that they are in, which are gathered for the workers. A message for each
/// directory would cost more than to read what is in it.
pub(super) struct Batches<'j> {
    outlets: &'j Outlets,
    items: Vec<BatchItem>,
    files: usize,
    bytes: u64,
    /// How many directories have files to read in the batch: each is open until they are read.
    open: usize,
    open_max: usize,
    /// Whether the next file is in another directory than the last one.
    has_moved: bool,
}

impl<'j> Batches<'j> {
    /// Gathers batches with files of at most so many directories.
    pub(super) fn new(open_max: usize, outlets: &'j Outlets) -> Batches<'j> {
        Batches {
            outlets,
            items: Vec::new(),
            files: 0,
            bytes: 0,
            open: 0,
            open_max,
            has_moved: true,
        }
    }

    /// Adds an item with so many bytes.
    pub(super) fn add(&mut self, item: BatchItem, bytes: u64) -> std::result::Result<(), Disconnected> {
        if matches!(item, BatchItem::Read(_)) && self.has_moved {
            if self.open == self.open_max {
                self.flush()?;
            }
            self.open += 1;
            self.has_moved = false;
        }
        self.files += usize::from(!matches!(item, BatchItem::Enter(_) | BatchItem::Leave));
        self.items.push(item);
        self.bytes += bytes;
        if self.bytes >= BATCH_BYTES as u64 || self.files >= BATCH_FILES || self.items.len() >= BATCH_ITEMS {
            self.flush()?;
        }
        Ok(())
    }

    /// Begins a directory.
    pub(super) fn enter(&mut self, entry: TreeEntry) -> std::result::Result<(), Disconnected> {
        self.has_moved = true;
        let bytes = attribute_bytes(&entry) as u64;
        self.add(BatchItem::Enter(Box::new(entry)), bytes)
    }

    /// Ends the last directory that has begun.
    pub(super) fn leave(&mut self) -> std::result::Result<(), Disconnected> {
        self.has_moved = true;
        self.add(BatchItem::Leave, 0)
    }

    /// Sends off what was gathered.
    pub(super) fn flush(&mut self) -> std::result::Result<(), Disconnected> {
        if self.items.is_empty() {
            return Ok(());
        }
        let (reply, batch) = bounded(1);
        (self.files, self.bytes, self.open, self.has_moved) = (0, 0, 0, true);
        self.outlets.events.send(Event::Batch(batch))?;
        self.outlets.work.send(Work::Batch {
            items: std::mem::take(&mut self.items),
            reply,
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use rustix::fd::OwnedFd;

    use super::*;
    use crate::ingest::sampling::FileClass;
    use crate::ingest::work::{Names, ToRead};
    use crate::source::entry_from;
    use crate::threads::unbounded;

    /// A tree of many small directories would otherwise be read as slowly as threads can be woken.
    #[test]
    fn small_directories_go_together_as_long_as_few_are_open() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Arc::new(OwnedFd::from(std::fs::File::open(folder.path()).unwrap()));
        let stat = rustix::fs::stat(folder.path()).unwrap();
        let file = |parent: &Arc<OwnedFd>| {
            BatchItem::Read(Box::new(ToRead {
                parent: parent.clone(),
                name: b"file".to_vec(),
                stat,
                path: PathBuf::new(),
                names: Names::Each,
                kind: FileClass::NEW,
            }))
        };
        let (events, received) = unbounded();
        let (work, batches) = unbounded();
        let outlets = Outlets {
            events,
            work,
            large: unbounded().0,
            slots: unbounded().1,
        };
        let mut gathered = Batches::new(3, &outlets);
        let entry = |name: &str| entry_from(name.as_bytes(), &stat).unwrap();
        let sent = |added: std::result::Result<(), Disconnected>| added.ok().expect("the receivers are there");
        for number in 0..40 {
            sent(gathered.enter(entry(&number.to_string())));
            // Those without files are not open.
            if number % 2 == 0 {
                let parent = open();
                (0..4).for_each(|_| sent(gathered.add(file(&parent), 10)));
            }
            sent(gathered.leave());
        }
        sent(gathered.flush());
        drop(outlets);
        assert_eq!(
            received.into_iter().count(),
            7,
            "20 directories with files, 3 in a batch"
        );
        let mut items = 0;
        for work in batches {
            let Work::Batch { items: batch, .. } = work else {
                panic!("only batches are sent");
            };
            items += batch.len();
            let mut open: Vec<_> = batch
                .iter()
                .filter_map(|item| match item {
                    BatchItem::Read(file) => Some(Arc::as_ptr(&file.parent)),
                    _ => None,
                })
                .collect();
            open.dedup();
            assert!(open.len() <= 3, "{}", open.len());
        }
        assert_eq!(items, 40 * 2 + 20 * 4);
    }
}
