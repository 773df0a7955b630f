//! The planner of a restore.

use super::owners::Owners;
use super::selected::Selected;
use super::target::{self, Stack};
use super::write::{self, Linked, Links, Part, Progress, Restoring};
use super::{Overwrite, RestoreSummary, Task};
use crate::index::Place;
use crate::load::Loaded;
use crate::recipe::Items;
use crate::tree::Found;
use crate::{Error, Monitor, Result, Warning};
use crossbeam_channel::{Sender, bounded};
use ibid_format::content::{Content, Item};
use ibid_format::tree::{Entry, EntryKind};
use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Chunks that are collected and sorted by frame before they are handed out.
const WINDOW: usize = 1 << 18;
/// Files that may be open for one window.
const WINDOW_FILES: usize = 256;

impl Task<'_> {
    pub(crate) fn run(&self) -> Result<RestoreSummary> {
        let repository = self.repository;
        let loaded = repository.loaded(self.monitor)?;
        let reader = repository.tree_reader(self.monitor)?;
        let found = repository.find(&reader, self.info, self.path)?;
        let (listing, single) = match found {
            Found::Root(listing) => (listing, None),
            Found::Entry(entry) => match entry.kind {
                EntryKind::Directory(ref listing) => (listing.clone(), None),
                _ => (Content::empty(), Some(entry)),
            },
        };
        if self.options.overwrite == Overwrite::Refuse {
            self.refuse_existing(&reader, &listing, single.as_deref())?;
        }
        if self.options.dry_run {
            return self.count(&reader, &listing, single.as_deref());
        }
        let root = Arc::new(target::open_destination(&self.destination)?);
        let progress = Progress::default();
        let threads = self
            .options
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
            .clamp(1, 16);
        let (groups, work) = bounded(4 * threads);
        let mut summary = std::thread::scope(|scope| {
            for _ in 0..threads {
                let (work, progress, loaded) = (work.clone(), &progress, loaded.as_ref());
                scope.spawn(move || write::run(self, loaded, progress, &work));
            }
            drop(work);
            let mut planner = Planner {
                task: self,
                loaded: &loaded,
                reader: &reader,
                progress: &progress,
                groups,
                root: root.clone(),
                stack: Stack::new(root.clone()),
                path: self.destination.clone(),
                window: Vec::new(),
                window_files: 0,
                links: HashMap::new(),
                owners: Owners::new(self),
                summary: RestoreSummary::default(),
            };
            let result = planner.tree(&listing, single.as_deref());
            let summary = std::mem::take(&mut planner.summary);
            result.map(|()| summary)
        })?;
        progress.add_to(&mut summary)?;
        self.monitor.check_cancelled()?;
        if self.options.verify {
            summary.verified = self.verify(&reader, &listing, single.as_deref(), &root, &mut summary.failed)?;
        }
        Ok(summary)
    }
}

/// A directory we are in.
struct Made {
    entry: Entry,
    exists: bool,
}

/// The names on the way to a file's first name, that name, and what has become of the file.
type FirstName = (Vec<Vec<u8>>, Vec<u8>, Arc<Links>);

struct Planner<'a, 'r> {
    task: &'a Task<'a>,
    loaded: &'a Loaded,
    reader: &'r crate::chunks::ChunkReader<'r>,
    progress: &'a Progress,
    groups: Sender<Vec<Part>>,
    root: Arc<OwnedFd>,
    stack: Stack,
    path: PathBuf,
    window: Vec<Part>,
    window_files: usize,
    /// Files that have several names, by device and inode.
    links: HashMap<(u64, u64), FirstName>,
    owners: Owners,
    summary: RestoreSummary,
}

impl<'r> Planner<'_, 'r> {
    fn monitor(&self) -> &Monitor {
        self.task.monitor
    }

    fn tree(&mut self, listing: &Content, single: Option<&Entry>) -> Result<()> {
        let task = self.task;
        let mut directories: Vec<Made> = Vec::new();
        task.selected(self.reader, listing, single, &mut |step| {
            if self.progress.is_stopped() {
                return Ok(false);
            }
            match step {
                Selected::Leave => {
                    let made = directories.pop().expect("entered before");
                    self.leave(&made);
                    Ok(true)
                }
                Selected::Damaged { path, error } => {
                    self.path = task.destination.join(path);
                    self.failed(error);
                    Ok(true)
                }
                Selected::Entry { path, entry, wanted } => {
                    self.path = task.destination.join(path);
                    if let EntryKind::Directory(_) = entry.kind {
                        self.stack.push(entry.name.clone());
                        directories.push(Made {
                            entry: entry.clone(),
                            exists: false,
                        });
                        if wanted && let Err(error) = self.make(&mut directories) {
                            self.stack.pop();
                            directories.pop();
                            self.failed(error);
                            return Ok(false);
                        }
                        return Ok(true);
                    }
                    if let Err(error) = self.make(&mut directories).and_then(|()| self.entry(entry)) {
                        self.failed(error);
                    }
                    Ok(true)
                }
            }
        })?;
        self.hand_out();
        Ok(())
    }

    /// What can't be restored is said and counted; a full disk ends it all.
    fn failed(&mut self, error: Error) {
        if matches!(&error, Error::Local { source, .. } if source.kind() == std::io::ErrorKind::StorageFull) {
            self.progress.stop(error);
            return;
        }
        self.summary.failed += 1;
        self.monitor().warn(Warning::Skipped {
            path: self.path.clone(),
            error,
        });
    }

    fn local(&self, action: &'static str) -> impl Fn(Errno) -> Error + use<> {
        let path = self.path.clone();
        move |error| Error::local(action, path.clone(), error)
    }

    /// Makes the directories that we are in, as far as they are not there.
    fn make(&mut self, directories: &mut [Made]) -> Result<()> {
        for (depth, made) in directories.iter_mut().enumerate() {
            if made.exists {
                continue;
            }
            let failed = self.local("make directory");
            let parent = self.stack.open(depth).map_err(&failed)?;
            let name = &made.entry.name;
            let exists = match target::look(&parent, name).map_err(&failed)? {
                Some(stat) if target::is_directory(&stat) => true,
                Some(_) if self.task.options.overwrite == Overwrite::Never => {
                    return Err(failed(Errno::NOTDIR));
                }
                // A file or a link stands where a directory belongs: the link goes, not what it leads to.
                Some(_) => {
                    target::remove(&parent, name).map_err(&failed)?;
                    false
                }
                None => false,
            };
            if !exists {
                rustix::fs::mkdirat(&parent, name.as_slice(), rustix::fs::Mode::from_raw_mode(0o700))
                    .map_err(&failed)?;
                self.summary.directories += 1;
            }
            made.exists = true;
        }
        Ok(())
    }

    /// Gives a directory its attributes, after everything was made in it.
    fn leave(&mut self, made: &Made) {
        if made.exists {
            let path = self.task.destination.join(names_path(&self.stack.names()));
            match self.stack.current() {
                Ok(directory) => {
                    for (what, source) in target::set_attributes(&directory, &made.entry, self.owners.of(&made.entry)) {
                        self.monitor().warn(Warning::Attributes {
                            path: path.clone(),
                            what,
                            source,
                        });
                    }
                }
                Err(error) => {
                    let what = "all".to_owned();
                    self.monitor().warn(Warning::Attributes {
                        path,
                        what,
                        source: error.into(),
                    });
                }
            }
        }
        self.stack.pop();
    }

    /// Restores one entry that is no directory into the current directory.
    fn entry(&mut self, entry: &Entry) -> Result<()> {
        let parent = self.stack.current().map_err(self.local("open the directory of"))?;
        let existing = target::look(&parent, &entry.name).map_err(self.local("look at"))?;
        if let Some(stat) = &existing {
            if self.task.options.overwrite == Overwrite::Never {
                self.summary.kept += 1;
                return Ok(());
            }
            if target::is_directory(stat) {
                // Removing a whole tree to make room for a file is never what `--overwrite` was meant for.
                return Err(Error::local(
                    "replace",
                    &self.path,
                    std::io::Error::other("a directory stands where a file belongs; move it away"),
                ));
            }
        }
        let links = match entry.hard_link_device.map(|device| (device, entry.inode)) {
            None => None,
            Some(inode) => {
                if let Some(first) = self.links.get(&inode).cloned() {
                    return self.link(&parent, entry, &first, existing.is_some());
                }
                let links = Links::pending();
                let first = (self.stack.names(), entry.name.clone(), links.clone());
                self.links.insert(inode, first);
                Some(links)
            }
        };
        let made = match &entry.kind {
            EntryKind::File(content) => self.file(&parent, entry, content, existing.as_ref(), links.clone()),
            _ => self.special(&parent, entry, existing.is_some(), links.as_deref()),
        };
        if let (Err(_), Some(links)) = (&made, links) {
            links.fail();
        }
        made
    }

    /// Gives a file that was restored before, or is being restored, another name.
    fn link(&mut self, parent: &Arc<OwnedFd>, entry: &Entry, first: &FirstName, existing: bool) -> Result<()> {
        let (folders, name, links) = first;
        let failed = self.local("link");
        let linked = links.add(parent, &entry.name, &self.path, || {
            if existing {
                target::remove(parent, &entry.name).map_err(&failed)?;
            }
            let directory = target::open_beneath(&self.root, folders).map_err(&failed)?;
            rustix::fs::linkat(
                &directory,
                name.as_slice(),
                parent,
                entry.name.as_slice(),
                rustix::fs::AtFlags::empty(),
            )
            .map_err(&failed)
        })?;
        if matches!(linked, Linked::Failed) {
            return Err(write::lost_with_its_other_name(&self.path));
        }
        match &entry.kind {
            EntryKind::File(content) => {
                self.summary.bytes += content.length;
                crate::Counters::add(&self.monitor().counters.bytes, content.length);
                if matches!(linked, Linked::Whole) {
                    self.summary.files += 1;
                    crate::Counters::add(&self.monitor().counters.files, 1);
                }
            }
            _ => self.summary.others += 1,
        }
        Ok(())
    }

    fn special(&mut self, parent: &OwnedFd, entry: &Entry, existing: bool, links: Option<&Links>) -> Result<()> {
        if existing {
            target::remove(parent, &entry.name).map_err(self.local("replace"))?;
        }
        target::create_special(parent, entry).map_err(self.local("make"))?;
        for (what, source) in target::set_attributes_at(parent, entry, self.owners.of(entry)) {
            self.monitor().warn(Warning::Attributes {
                path: self.path.clone(),
                what,
                source,
            });
        }
        self.summary.others += 1;
        if let Some(links) = links {
            links.succeed();
        }
        Ok(())
    }

    fn file(
        &mut self,
        parent: &Arc<OwnedFd>,
        entry: &Entry,
        content: &Content,
        existing: Option<&Stat>,
        links: Option<Arc<Links>>,
    ) -> Result<()> {
        if let Some(stat) = existing
            && self.task.options.overwrite == Overwrite::IfChanged
            && stat.st_size as u64 == content.length
            && (stat.st_mtime, stat.st_mtime_nsec as u32) == (entry.mtime.seconds, entry.mtime.nanos)
            && rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile
        {
            self.summary.kept += 1;
            if let Some(links) = links {
                links.succeed();
            }
            return Ok(());
        }
        // A symlink in the way is not opened but replaced.
        let opened = existing.and_then(|_| target::open_existing(parent, &entry.name));
        let (file, had) = match opened {
            Some((file, stat)) => (file, Some(stat.st_size as u64)),
            None => {
                if existing.is_some() {
                    target::remove(parent, &entry.name).map_err(self.local("replace"))?;
                }
                (
                    target::create_file(parent, &entry.name).map_err(self.local("create"))?,
                    None,
                )
            }
        };
        let failed = self.local("size");
        rustix::fs::ftruncate(&file, content.length).map_err(failed)?;
        let restoring = Arc::new(Restoring {
            file,
            entry: entry.clone(),
            path: self.path.clone(),
            owner: self.owners.of(entry),
            existing: had.unwrap_or(0).min(content.length),
            parent: parent.clone(),
            created: had.is_none(),
            links,
            pending: AtomicUsize::new(1),
            failed: AtomicBool::new(false),
        });
        let planned = self.contents(&restoring, content);
        if let Err(error) = planned {
            write::fail(self.task, self.progress, &restoring, error);
        }
        write::finish(self.task, self.progress, &restoring);
        self.window_files += 1;
        if self.window_files >= WINDOW_FILES {
            self.hand_out();
        }
        Ok(())
    }

    /// Plans a file's chunks, and makes its holes.
    fn contents(&mut self, file: &Arc<Restoring>, content: &Content) -> Result<()> {
        let mut offset = 0u64;
        for item in Items::new(self.reader, content) {
            match item? {
                Item::Hole { length } => {
                    if offset < file.existing {
                        // What was there must go; beyond the old end there are zeros already.
                        punch(&file.file, offset, length.min(file.existing - offset))
                            .map_err(self.local("make a hole in"))?;
                    }
                    offset += length;
                }
                Item::Chunk { id, length } => {
                    let place = self
                        .loaded
                        .index
                        .get(&id)
                        .filter(|place| *place != Place::PENDING)
                        .ok_or(Error::ChunkMissing { id })?;
                    file.pending.fetch_add(1, Ordering::Relaxed);
                    self.window.push(Part {
                        frame: place.frame,
                        slot: place.slot,
                        length,
                        offset,
                        id,
                        file: file.clone(),
                    });
                    offset += u64::from(length);
                    if self.window.len() >= WINDOW {
                        self.hand_out();
                    }
                }
            }
        }
        Ok(())
    }

    /// Hands the window to the workers, frame by frame.
    fn hand_out(&mut self) {
        let mut window = std::mem::take(&mut self.window);
        self.window_files = 0;
        window.sort_unstable_by_key(|part| (part.frame, part.slot));
        let mut parts = window.into_iter().peekable();
        while let Some(first) = parts.next() {
            let frame = first.frame;
            let mut group = vec![first];
            group.extend(std::iter::from_fn(|| parts.next_if(|part| part.frame == frame)));
            // Workers live as long as the planner.
            self.groups.send(group).expect("workers wait for this");
        }
    }
}

fn names_path(names: &[Vec<u8>]) -> PathBuf {
    names.iter().map(|name| OsStr::from_bytes(name)).collect()
}

/// Makes `length` bytes from `offset` read as zeros, without occupying space if the file system can.
fn punch(file: &OwnedFd, offset: u64, length: u64) -> std::result::Result<(), Errno> {
    match rustix::fs::fallocate(
        file,
        FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        offset,
        length,
    ) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        result => return result,
    }
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let mut done = 0;
    while done < length {
        let now = (length - done).min(ZEROS.len() as u64);
        done += rustix::io::pwrite(file, &ZEROS[..now as usize], offset + done)? as u64;
    }
    Ok(())
}
