//! The planner of a restore.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ibid_format::content::{Content, Item};
use ibid_format::tree::{EntryKind, TreeEntry};
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::attributes::{self, Held};
use super::decide::Decision;
use super::file::{Part, Placement, Restoring};
use super::finish;
use super::first_names::{FirstName, FirstNames};
use super::folder::{Folder, Then};
use super::inode_flags::{self, Lock};
use super::links::{self, Linked, Links, Name};
use super::lookahead::{self, Lookahead, Step};
use super::open_files::{OpenFiles, Permit};
use super::options::Overwrite;
use super::owners::Owners;
use super::progress::{self, Tally, Total};
use super::selected::Selected;
use super::target::{self, Stack};
use super::task::Task;
use crate::index::LoadedIndex;
use crate::read::ChunkReader;
use crate::threads::Sender;
use crate::tree::{Items, chunks_of};
use crate::{Error, Monitor, ProgressCounters, Result, Warning};

/// Number of chunks that are collected and sorted by frame before they are handed out.
pub(super) const WINDOW: usize = 1 << 18;
/// Maximum number of files in one window.
pub(super) const WINDOW_FILES: usize = 256;

/// A directory on the path to the current one.
struct Made<'a> {
    entry: TreeEntry,
    /// `None` until an entry in it is selected.
    folder: Option<Arc<Folder<'a>>>,
}

/// A directory that could not be created, while its entries are skipped.
struct Lost {
    /// Depth of the directory.
    depth: usize,
    path: PathBuf,
    /// `None` if an existing file was kept in its place.
    error: Option<Error>,
    below: u64,
}

/// Borrowed state of a planner.
pub(crate) struct Shared<'a> {
    pub(crate) task: &'a Task<'a>,
    pub(crate) loaded: &'a LoadedIndex,
    pub(crate) reader: &'a ChunkReader<'a>,
    pub(crate) progress: &'a Tally,
    pub(crate) open_files: &'a OpenFiles,
    /// Of the chunks that are restored.
    pub(crate) chunks: &'a ChunkReader<'a>,
}

/// Walks the selected entries, creates directories and files, and hands out chunks to write.
pub(crate) struct Planner<'a> {
    task: &'a Task<'a>,
    loaded: &'a LoadedIndex,
    reader: &'a ChunkReader<'a>,
    progress: &'a Tally,
    open_files: &'a OpenFiles,
    chunks: &'a ChunkReader<'a>,
    groups: Sender<Vec<Part<'a>>>,
    stack: Stack,
    destination: Arc<Folder<'a>>,
    directories: Vec<Made<'a>>,
    lost: Option<Lost>,
    path: PathBuf,
    window: Vec<Part<'a>>,
    window_files: usize,
    /// Number of parts so far.
    parts: u64,
    /// Files with several names.
    links: FirstNames<'a>,
    owners: Owners,
    total: Total,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(
        shared: Shared<'a>,
        groups: Sender<Vec<Part<'a>>>,
        root: Arc<OwnedFd>,
        destination: Arc<Folder<'a>>,
        owners: Owners,
    ) -> Planner<'a> {
        let Shared {
            task,
            loaded,
            reader,
            progress,
            open_files,
            chunks,
        } = shared;
        Planner {
            task,
            loaded,
            reader,
            progress,
            open_files,
            chunks,
            groups,
            stack: Stack::new(root, open_files.directories),
            destination,
            directories: Vec::new(),
            lost: None,
            path: task.destination.clone(),
            window: Vec::new(),
            window_files: 0,
            parts: 0,
            links: FirstNames::new(task.repository.scratch()),
            owners,
            total: Total::default(),
        }
    }

    fn monitor(&self) -> &'a Monitor {
        self.task.monitor
    }

    /// Plans everything. With `looks_ahead`, files are fetched some time before they are made: for a destination in
    /// which nothing can be right already.
    pub(crate) fn run(mut self, listing: &Content, single: Option<&TreeEntry>, looks_ahead: bool) -> Result<()> {
        let task = self.task;
        let result = if looks_ahead && self.chunks.fetches_ahead() {
            self.run_ahead(listing, single)
        } else {
            task.selected(self.reader, listing, single, &mut |step| self.step(step))
        };
        if result.is_err() {
            self.progress.halt();
        }
        self.total.tell(self.monitor());
        // Hand out in any case: incomplete files must be removed.
        self.hand_out();
        result
    }

    fn run_ahead(&mut self, listing: &Content, single: Option<&TreeEntry>) -> Result<()> {
        let (task, chunks) = (self.task, self.chunks);
        let mut coming = Lookahead::new(task.repository.lookahead_room());
        let walked = task.selected(self.reader, listing, single, &mut |step| {
            coming.push(step, chunks);
            while let Some(step) = coming.pop(false) {
                self.kept_step(step)?;
            }
            Ok(true)
        });
        coming.plan(chunks);
        while let Some(step) = coming.pop(true) {
            self.kept_step(step)?;
        }
        walked
    }

    fn kept_step(&mut self, step: Step) -> Result<()> {
        let before = self.parts;
        match step.selected() {
            Some(selected) => drop(self.step(selected)?),
            None => {
                if let Step::Damaged { path, error } = step {
                    self.step(Selected::Damaged { path: &path, error })?;
                }
                return Ok(());
            }
        }
        // What was planned for a file that is not written is not needed.
        if let Step::Entry { entry, .. } = &step
            && let Some(content) = lookahead::planned(entry)
            && self.parts == before
        {
            for frame in self.chunks.frames_of(chunks_of(content.items.iter())) {
                self.chunks.release(frame);
            }
        }
        Ok(())
    }

    fn step(&mut self, step: Selected<'_>) -> Result<bool> {
        if self.progress.is_stopped() {
            // The cause was already reported.
            return Err(Error::Interrupted);
        }
        match step {
            Selected::Leave => {
                self.leave();
                Ok(true)
            }
            Selected::Damaged { path, error } => {
                self.path = self.task.destination.join(path);
                self.failed(error);
                Ok(true)
            }
            Selected::Entry { path, entry, wanted } => {
                self.path = self.task.destination.join(path);
                self.total.add(entry);
                let is_directory = matches!(entry.kind, EntryKind::Directory(_));
                if is_directory {
                    self.stack.push(entry.name.clone());
                    let entry = entry.clone();
                    self.directories.push(Made { entry, folder: None });
                }
                if let Some(lost) = &mut self.lost {
                    lost.below += u64::from(wanted);
                } else if wanted
                    && self.make()
                    && !is_directory
                    && let Err(error) = self.entry(entry)
                {
                    self.failed(error);
                }
                Ok(true)
            }
        }
    }

    /// Leaves a directory; it gets its attributes when all its entries are done.
    fn leave(&mut self) {
        if let Some(Lost { path, error, below, .. }) = self.lost.take_if(|lost| lost.depth == self.directories.len()) {
            match error {
                Some(error) => {
                    ProgressCounters::add(&self.progress.failed, below);
                    self.path = path;
                    self.failed(with_all_below(error, below));
                }
                None => {
                    ProgressCounters::add(&self.progress.kept, 1 + below);
                    self.monitor().warn(Warning::Kept { path, below });
                }
            }
        }
        self.directories.pop();
        self.stack.pop();
    }

    /// Reports and counts a failed entry; a full disk ends the restore.
    fn failed(&self, error: Error) {
        if progress::is_full_disk(&error) {
            self.progress.stop(error);
        } else {
            progress::skipped(self.task, self.progress, &self.path, error);
        }
    }

    fn local(&self, action: &'static str) -> impl Fn(Errno) -> Error + use<> {
        let path = self.path.clone();
        move |error| Error::local(action, path.clone(), error)
    }

    /// The same of a name that could not be made in `parent`.
    fn local_in(&self, parent: &OwnedFd, action: &'static str) -> impl Fn(Errno) -> Error {
        move |error| Error::local(action, &self.path, inode_flags::in_directory(parent, error))
    }

    /// Creates the directories on the path that do not exist. Returns false if one can't be
    /// created: then all its entries are lost.
    fn make(&mut self) -> bool {
        let first = self.directories.iter().position(|made| made.folder.is_none());
        for depth in first.unwrap_or(self.directories.len())..self.directories.len() {
            let error = match self.make_one(depth) {
                Ok(true) => continue,
                Ok(false) => None,
                Err(error) => Some(error),
            };
            let path = self.path_of(depth);
            // The current entry is lost too, unless it is the directory itself.
            let below = u64::from(path != self.path);
            let depth = depth + 1;
            self.lost = Some(Lost {
                depth,
                path,
                error,
                below,
            });
            return false;
        }
        true
    }
    /// Returns the path of the `depth`-th directory.
    fn path_of(&self, depth: usize) -> PathBuf {
        let names = self.directories[..=depth]
            .iter()
            .map(|made| OsStr::from_bytes(&made.entry.name));
        self.task.destination.join(names.collect::<PathBuf>())
    }

    /// Creates one directory of the path. Returns false if another file exists there and is kept.
    fn make_one(&mut self, depth: usize) -> Result<bool> {
        let path = self.path_of(depth);
        let failed = |error| Error::local("make directory", &path, error);
        let parent = self.stack.open(depth).map_err(failed)?;
        let entry = &self.directories[depth].entry;
        let name = entry.name.as_slice();
        let make = |name: &[u8]| {
            rustix::fs::mkdirat(&parent, name, Mode::RWXU)
                .map_err(|error| Error::local("make directory", &path, inode_flags::in_directory(&parent, error)))
        };
        let all = || {
            self.progress.note_owner(entry);
            Then::All(self.owners.of(entry), Box::new(entry.clone()))
        };
        let then = match target::look(&parent, name).map_err(failed)? {
            Some(stat) if target::is_directory(&stat) => {
                let held = Held::at(&parent, name).map_err(failed)?;
                let unlocked = target::let_us_in(&held).map_err(failed)?;
                self.stack.open(depth + 1).map_err(failed)?;
                if self.task.updates_directories() {
                    all()
                } else {
                    unlocked.map_or(Then::Nothing, Then::Mode)
                }
            }
            Some(_) => {
                // A file or a link is in the directory's place. Replace the link, not its target.
                match self.task.options.overwrite {
                    Overwrite::Refuse => return Err(target::exists(&path)),
                    Overwrite::Never => return Ok(false),
                    Overwrite::Always | Overwrite::IfChanged => {}
                }
                if let Some(lock) = Lock::of(&parent, name) {
                    return Err(Error::local("replace", &path, lock.error("it")));
                }
                let aside = target::aside();
                make(&aside)?;
                target::remove(&parent, name)
                    .and_then(|()| rustix::fs::renameat(&parent, aside, &parent, name))
                    .map_err(failed)?;
                ProgressCounters::add(&self.progress.directories, 1);
                all()
            }
            None => {
                make(name)?;
                ProgressCounters::add(&self.progress.directories, 1);
                all()
            }
        };
        let folder = Folder::within(self.folder(depth), name, then);
        self.directories[depth].folder = Some(folder);
        Ok(true)
    }

    /// Returns the `depth`-th directory, which exists by now.
    fn folder(&self, depth: usize) -> &Arc<Folder<'a>> {
        match depth.checked_sub(1) {
            None => &self.destination,
            Some(above) => self.directories[above].folder.as_ref().expect("made before"),
        }
    }

    /// Returns the current directory.
    fn current(&self) -> &Arc<Folder<'a>> {
        self.folder(self.directories.len())
    }

    /// Restores one entry other than a directory into the current directory.
    fn entry(&mut self, entry: &TreeEntry) -> Result<()> {
        self.monitor().note_path(|| self.path.clone());
        let parent = self.stack.current().map_err(self.local("open the directory of"))?;
        let existing = target::look(&parent, &entry.name).map_err(self.local("look at"))?;
        let inode = entry.hard_link_device.map(|device| (device, entry.inode));
        let is_kept = existing.is_some() && self.task.options.overwrite == Overwrite::Never;
        let first = match inode.filter(|_| !is_kept) {
            Some(inode) => self.links.get(inode, &self.destination)?,
            None => None,
        };
        if let Some(first) = first {
            let name = Name {
                folder: self.current().clone(),
                name: entry.name.clone(),
                path: self.path.clone(),
            };
            match first.links.add(name) {
                Linked::Pending => {}
                Linked::Whole(name) => {
                    finish::add_name(self.task, self.progress, &first.folder, &first.name, entry, &name);
                }
                Linked::Failed => return Err(links::lost_with_its_other_name(&self.path)),
            }
            return Ok(());
        }
        let owner = self.owners.of(entry);
        let decision = self
            .task
            .decide(self.reader, &parent, entry, owner, existing.as_ref(), &self.path)?;
        if matches!(decision, Decision::Keep) {
            self.progress.kept(self.task, entry);
            self.passed_over(entry);
            return Ok(());
        }
        let links = inode.map(|_| Links::pending());
        if let (Some(inode), Some(links)) = (inode, &links) {
            let first = FirstName {
                folder: self.current().clone(),
                name: entry.name.clone(),
                links: links.clone(),
            };
            self.links.insert(inode, first);
        }
        let made = match (&entry.kind, decision) {
            (_, Decision::Right) => self.right(&parent, entry),
            (EntryKind::File(content), decision) => {
                return self.file(parent, entry, content, decision, links);
            }
            (_, decision) => self.special(&parent, entry, &decision),
        };
        if let Some(links) = links {
            // No other name can be pending yet.
            if made.is_ok() {
                links.succeed()
            } else {
                links.fail()
            };
        }
        made
    }

    /// Counts bytes that need not be written as done.
    fn passed_over(&self, entry: &TreeEntry) {
        if let EntryKind::File(content) = &entry.kind {
            self.monitor().counters.skip(content.length);
        }
    }

    /// Handles an existing file that is right except perhaps for its attributes.
    fn right(&mut self, parent: &OwnedFd, entry: &TreeEntry) -> Result<()> {
        let held = Held::at(parent, &entry.name).map_err(self.local("look at"))?;
        self.tell(attributes::mend_attributes(&held, entry, self.owners.of(entry)));
        self.tell(inode_flags::set_last(self.task, &held, entry));
        self.progress.right(self.task, entry);
        self.passed_over(entry);
        Ok(())
    }

    fn tell(&self, faults: attributes::AttributeFaults) {
        for (what, source) in faults {
            let path = self.path.clone();
            self.monitor().warn(Warning::Attributes { path, what, source });
        }
    }

    fn special(&mut self, parent: &OwnedFd, entry: &TreeEntry, decision: &Decision) -> Result<()> {
        let replaces = matches!(decision, Decision::Replace);
        let name = if replaces { target::aside() } else { entry.name.clone() };
        target::create_special(parent, &name, &entry.kind).map_err(self.local_in(parent, "make"))?;
        match Held::at(parent, &name) {
            Ok(held) => self.tell(attributes::set_attributes(&held, entry, self.owners.of(entry))),
            Err(error) => self.tell(vec![("all".to_owned(), error.into())]),
        }
        if replaces {
            target::put_in_place(parent, &name, &entry.name)
                .map_err(|error| target::cannot_replace(&self.path, error))?;
        }
        self.progress.restored(self.task, entry);
        Ok(())
    }

    /// Returns a permit to open a file. If none is free, first hands out the window, whose files
    /// may hold all of them.
    fn permit(&mut self) -> Permit<'a> {
        if let Some(permit) = self.open_files.try_take() {
            return permit;
        }
        self.hand_out();
        self.open_files.take()
    }

    fn file(
        &mut self,
        parent: Arc<OwnedFd>,
        entry: &TreeEntry,
        content: &Content,
        decision: Decision,
        links: Option<Arc<Links<'a>>>,
    ) -> Result<()> {
        let permit = self.permit();
        let create = |name: &[u8]| {
            let file = target::create_file(&parent, name).map_err(self.local_in(&parent, "create"))?;
            inode_flags::set_before_data(&file, entry);
            Ok(file)
        };
        let opened = match decision {
            Decision::Patch(file, length) => Ok((file, Placement::InPlace, length)),
            Decision::Create => create(&entry.name).map(|file| (file, Placement::New, 0)),
            _ => {
                let aside = target::aside();
                create(&aside).map(|file| (file, Placement::Aside(aside), 0))
            }
        };
        let (file, placement, had) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                // No other name can be pending yet.
                links.map(|links| links.fail());
                return Err(error);
            }
        };
        let is_new = !matches!(placement, Placement::InPlace);
        let restoring = Arc::new(Restoring {
            file,
            placement,
            entry: entry.clone(),
            path: self.path.clone(),
            owner: self.owners.of(entry),
            existing: had.min(content.length),
            holes: Mutex::default(),
            parent,
            folder: self.current().clone(),
            links,
            pending: AtomicUsize::new(1),
            failed: AtomicBool::new(false),
            lost: Mutex::default(),
            changed: AtomicBool::new(false),
            _permit: permit,
        });
        let sized = match is_new {
            true => rustix::fs::ftruncate(&restoring.file, content.length).map_err(self.local("size")),
            false => Ok(()),
        };
        if let Err(error) = sized.and_then(|()| self.contents(&restoring, content)) {
            progress::fail(self.task, self.progress, &restoring, error);
        }
        finish::finish(self.task, self.progress, &restoring);
        self.window_files += 1;
        if self.window_files >= WINDOW_FILES.min(self.open_files.files / 2) {
            self.hand_out();
        }
        Ok(())
    }

    /// Plans a file's chunks and holes.
    fn contents(&mut self, file: &Arc<Restoring<'a>>, content: &Content) -> Result<()> {
        let mut offset = 0u64;
        for item in Items::new(self.reader, content) {
            let item = match item {
                // The list of chunks is damaged: the rest of the file is lost.
                Err(error) if error.is_fault() => {
                    progress::lose(self.task, self.progress, file, offset, content.length - offset, error);
                    return Ok(());
                }
                item => item?,
            };
            match item {
                Item::Hole { length } => {
                    // Beyond the old end, the file already reads as zeros.
                    if offset < file.existing {
                        let hole = (offset, length.min(file.existing - offset));
                        file.holes.lock().expect("no holder of this lock panics").push(hole);
                    }
                    self.monitor().counters.skip(length);
                }
                Item::Chunk { id, length } => {
                    let Some(place) = self.loaded.index.get_stored(&id) else {
                        let error = Error::ChunkMissing { id };
                        progress::lose(self.task, self.progress, file, offset, length.into(), error);
                        offset += u64::from(length);
                        continue;
                    };
                    file.pending.fetch_add(1, Ordering::Relaxed);
                    self.parts += 1;
                    self.window.push(Part {
                        frame: place.frame,
                        rank: 0,
                        slot: place.slot,
                        length,
                        offset,
                        id,
                        file: file.clone(),
                    });
                    if self.window.len() >= WINDOW {
                        self.hand_out();
                    }
                }
            }
            offset += item.length();
            // A failed file needs no more chunks.
            if file.failed.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }

    /// Hands the window to the workers, frame by frame, in the order in which files first need
    /// them. Frames close in this order share bases, which are still cached then.
    fn hand_out(&mut self) {
        let mut window = std::mem::take(&mut self.window);
        self.window_files = 0;
        let mut ranks = HashMap::new();
        for part in &mut window {
            let next = ranks.len() as u32;
            part.rank = *ranks.entry(part.frame).or_insert(next);
        }
        window.sort_unstable_by_key(|part| (part.rank, part.slot));
        if self.chunks.fetches_ahead() {
            let mut frames: Vec<u32> = window
                .iter()
                .filter(|part| part.is_needed())
                .map(|part| part.frame)
                .collect();
            frames.dedup();
            self.chunks.plan(&frames);
        }
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

/// Returns the error for a directory that was not created, with the number of entries below it.
fn with_all_below(error: Error, below: u64) -> Error {
    match error {
        Error::Local { action, path, source } if below > 0 => {
            let text = format!("{source}; what is in it ({below}) is not restored either");
            Error::local(action, path, std::io::Error::new(source.kind(), text))
        }
        error => error,
    }
}
