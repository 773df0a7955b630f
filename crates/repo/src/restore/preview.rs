//! Preview of a restore.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ibid_format::content::{Content, Item};
use ibid_format::tree::{EntryKind, TreeEntry};
use rustix::fd::OwnedFd;
use rustix::fs::Stat;

use super::decide::Decision;
use super::lookahead::{self, Lookahead, Step};
use super::open_files::OpenFiles;
use super::options::{Overwrite, Planned, RestoreSummary};
use super::owners::Owners;
use super::plan::{WINDOW, WINDOW_FILES};
use super::selected::Selected;
use super::target::{self, Stack};
use super::task::Task;
use crate::index::IdMap;
use crate::read::ChunkReader;
use crate::rehearsal::Inexact;
use crate::scratch::{Array, Inode, Scratch, inode_id};
use crate::source::Opened;
use crate::tree::Items;
use crate::{Error, Result, Warning};

/// Callback for every entry that would be restored.
pub(crate) type OnPlanned<'v> = &'v mut dyn FnMut(&Path, Planned) -> Result<()>;

impl Task<'_> {
    /// Walks the selected entries and reports what a restore would do, without writing.
    pub(crate) fn preview(
        &self,
        reader: &ChunkReader<'_>,
        listing: &Content,
        single: Option<&TreeEntry>,
        hear: OnPlanned<'_>,
    ) -> Result<RestoreSummary> {
        let there = target::open_if_there(&self.destination)?
            .map(|root| Stack::new(Arc::new(root), OpenFiles::within_limits().directories));
        let mut preview = Preview {
            task: self,
            reader,
            hear,
            there,
            owners: Owners::new(self),
            levels: Vec::new(),
            files: LinkedFiles::new(self.repository.scratch())?,
            fetched: Fetched::default(),
            chunks: None,
            summary: RestoreSummary::default(),
        };
        if self.repository.files.rehearsal.is_none() {
            self.selected(reader, listing, single, &mut |step| preview.step(step))?;
            return Ok(preview.summary);
        }
        let chunks = self.repository.bulk_reader_ahead(&self.repository.loaded()?);
        let is_empty =
            target::open_if_there(&self.destination)?.is_none_or(|root| target::is_empty(&root, b".").unwrap_or(false));
        preview.fetched.looks_ahead = is_empty;
        preview.chunks = Some(&chunks);
        let mut coming = Lookahead::new(self.repository.lookahead_room());
        let walked = self.selected(reader, listing, single, &mut |step| {
            if !is_empty {
                return preview.step(step);
            }
            coming.push(step, &chunks);
            while let Some(step) = coming.pop(false) {
                preview.kept_step(step)?;
            }
            Ok(true)
        });
        coming.plan(&chunks);
        while let Some(step) = coming.pop(true) {
            preview.kept_step(step)?;
        }
        walked?;
        preview.hand_out();
        chunks.rehearse_bases(self.monitor)?;
        Ok(preview.summary)
    }
}

/// What a rehearsal has not planned yet.
#[derive(Default)]
struct Fetched {
    /// Whether small files are planned before their turn.
    looks_ahead: bool,
    /// Frames in the order in which files need them, for as many chunks and files.
    frames: Vec<u32>,
    met: HashSet<u32>,
    chunks: usize,
    files: usize,
}

/// A directory on the path to the current one.
struct Level {
    path: PathBuf,
    /// `None` if the directory exists.
    planned: Option<Planned>,
    /// Whether it was reported because an entry in it is selected.
    told: bool,
    /// Number of entries without a place, if an existing file is kept in the place of the
    /// directory.
    below: u64,
}

/// Files with several names, and the existing file to link them to if it is right already.
struct LinkedFiles {
    scratch: Scratch,
    /// Where in `existing` a file is.
    places: IdMap,
    /// For each file 0, or 1 and the device and inode of the existing file.
    existing: Array<u64>,
}

impl LinkedFiles {
    fn new(scratch: Scratch) -> Result<LinkedFiles> {
        Ok(LinkedFiles {
            places: IdMap::new(&scratch),
            existing: Array::zeros(&scratch, 0)?,
            scratch,
        })
    }

    /// Returns the existing file for a file that was added before.
    fn get(&mut self, file: Inode) -> Result<Option<Option<Inode>>> {
        let Some(at) = self.places.get(inode_id(&self.scratch, file))? else {
            return Ok(None);
        };
        Ok(Some(match self.existing.get(at)? {
            0 => None,
            _ => Some((self.existing.get(at + 1)?, self.existing.get(at + 2)?)),
        }))
    }

    fn insert(&mut self, file: Inode, existing: Option<Inode>) -> Result<()> {
        let at = self.existing.push(existing.is_some().into())?;
        if let Some((device, inode)) = existing {
            self.existing.push(device)?;
            self.existing.push(inode)?;
        }
        self.places.insert(inode_id(&self.scratch, file), at)
    }
}

struct Preview<'p> {
    task: &'p Task<'p>,
    reader: &'p ChunkReader<'p>,
    hear: OnPlanned<'p>,
    /// The existing directories on the path.
    there: Option<Stack>,
    owners: Owners,
    levels: Vec<Level>,
    files: LinkedFiles,
    fetched: Fetched,
    /// Plans in a rehearsal what a restore would fetch.
    chunks: Option<&'p ChunkReader<'p>>,
    summary: RestoreSummary,
}

impl Preview<'_> {
    fn kept_step(&mut self, step: Step) -> Result<bool> {
        match step {
            Step::Damaged { path, error } => self.step(Selected::Damaged { path: &path, error }),
            step => step.selected().map_or(Ok(true), |step| self.step(step)),
        }
    }

    fn step(&mut self, step: Selected<'_>) -> Result<bool> {
        match step {
            Selected::Leave => self.leave(),
            Selected::Damaged { path, error } => self.failed(&self.task.destination.join(path), error),
            Selected::Entry { path, entry, wanted } => {
                let path = self.task.destination.join(path);
                let is_directory = matches!(entry.kind, EntryKind::Directory(_));
                if is_directory && let Err(error) = self.enter(&path, entry) {
                    self.failed(&path, error);
                    return Ok(false);
                }
                if wanted {
                    self.tell()?;
                }
                if let Some(kept) = self
                    .levels
                    .iter_mut()
                    .find(|level| level.planned == Some(Planned::Keep))
                {
                    let is_itself = is_directory && kept.path == path;
                    kept.below += u64::from(wanted && !is_itself);
                    self.summary.kept += u64::from(wanted && !is_itself);
                } else if !is_directory && let Err(error) = self.entry(&path, entry)? {
                    self.failed(&path, error);
                }
            }
        }
        Ok(true)
    }

    fn failed(&mut self, path: &Path, error: Error) {
        self.summary.failed += 1;
        let path = path.to_owned();
        self.task.monitor.warn(Warning::Skipped { path, error });
    }

    /// Returns the current directory if it exists, and the file at a name in it.
    fn look(&mut self, path: &Path, name: &[u8]) -> Result<Option<(Arc<OwnedFd>, Option<Stat>)>> {
        let Some(stack) = self
            .there
            .as_mut()
            .filter(|_| self.levels.iter().all(|level| level.planned.is_none()))
        else {
            return Ok(None);
        };
        let failed = |error| Error::local("look at", path, error);
        let parent = stack.current().map_err(failed)?;
        let stat = target::look(&parent, name).map_err(failed)?;
        Ok(Some((parent, stat)))
    }

    fn enter(&mut self, path: &Path, entry: &TreeEntry) -> Result<()> {
        let planned = match self.look(path, &entry.name)? {
            None | Some((_, None)) => Some(Planned::Write),
            Some((_, Some(stat))) if target::is_directory(&stat) => None,
            Some(_) if self.task.options.overwrite == Overwrite::Never => Some(Planned::Keep),
            Some(_) => Some(Planned::Replace),
        };
        if planned.is_none()
            && let Some(stack) = &mut self.there
        {
            stack.push(entry.name.clone());
        }
        self.levels.push(Level {
            path: path.to_owned(),
            planned,
            told: false,
            below: 0,
        });
        Ok(())
    }

    fn leave(&mut self) {
        let level = self.levels.pop().expect("entered before");
        if level.planned.is_none()
            && let Some(stack) = &mut self.there
        {
            stack.pop();
        }
        if level.planned == Some(Planned::Keep) && level.told {
            let Level { path, below, .. } = level;
            self.task.monitor.warn(Warning::Kept { path, below });
        }
    }

    /// Reports the directories on the path.
    fn tell(&mut self) -> Result<()> {
        for level in &mut self.levels {
            if std::mem::replace(&mut level.told, true) {
                continue;
            }
            match level.planned {
                None => continue,
                Some(Planned::Keep) => self.summary.kept += 1,
                Some(Planned::Write | Planned::Replace) => self.summary.directories += 1,
            }
            if let Some(planned) = level.planned {
                (self.hear)(&level.path, planned)?;
            }
        }
        Ok(())
    }

    /// Previews an entry. The outer error ends the preview; the inner one concerns this entry.
    fn entry(&mut self, path: &Path, entry: &TreeEntry) -> Result<Result<()>> {
        let (planned, is_right, written) = match self.plan(path, entry) {
            Ok(planned) => planned,
            Err(error) => return Ok(Err(error)),
        };
        let is_kept = match self.task.options.overwrite {
            Overwrite::Never => planned == Planned::Keep,
            Overwrite::IfChanged => is_right,
            Overwrite::Always | Overwrite::Refuse => false,
        };
        match &entry.kind {
            _ if is_kept => self.summary.kept += 1,
            EntryKind::File(content) => {
                self.summary.files += 1;
                self.summary.bytes += content.length;
            }
            _ => self.summary.others += 1,
        }
        self.summary.bytes_written += written;
        (self.hear)(path, planned)?;
        Ok(Ok(()))
    }

    /// Returns the planned action, whether the existing file is right, and the bytes to write.
    fn plan(&mut self, path: &Path, entry: &TreeEntry) -> Result<(Planned, bool, u64)> {
        let place = self.look(path, &entry.name)?;
        let existing = place.as_ref().and_then(|(_, stat)| *stat);
        if existing.is_some() && self.task.options.overwrite == Overwrite::Never {
            return Ok((Planned::Keep, false, 0));
        }
        let inode_there = existing.map(|stat| (stat.st_dev, stat.st_ino));
        let inode = entry.hard_link_device.map(|device| (device, entry.inode));
        let first = match inode {
            Some(inode) => self.files.get(inode)?,
            None => None,
        };
        if let Some(first) = first {
            return Ok(match existing {
                None => (Planned::Write, false, 0),
                Some(_) if first == inode_there => (Planned::Keep, true, 0),
                Some(_) => (Planned::Replace, false, 0),
            });
        }
        let decision = match &place {
            None => Decision::Create,
            Some((parent, stat)) => {
                let owner = self.owners.of(entry);
                self.task
                    .decide(self.reader, parent, entry, owner, stat.as_ref(), path)?
            }
        };
        let all = |preview: &mut Preview<'_>| match &entry.kind {
            EntryKind::File(content) => {
                preview.fetch(entry, content)?;
                preview.data(content)
            }
            _ => Ok(0),
        };
        let planned = match decision {
            Decision::Create => (Planned::Write, false, all(self)?),
            Decision::Replace => (Planned::Replace, false, all(self)?),
            Decision::Keep => (Planned::Keep, false, 0),
            Decision::Right => (Planned::Keep, true, 0),
            Decision::Patch(file, _) => match self.differing(path, entry, file)? {
                None => (Planned::Keep, false, 0),
                Some(bytes) => {
                    if let (EntryKind::File(content), Some(rehearsal)) =
                        (&entry.kind, &self.task.repository.files.rehearsal)
                    {
                        rehearsal.doubt(Inexact::Patches);
                        self.fetch(entry, content)?;
                    }
                    (Planned::Replace, false, bytes)
                }
            },
        };
        if let Some(inode) = inode {
            self.files.insert(inode, inode_there.filter(|_| planned.1))?;
        }
        Ok(planned)
    }

    /// Plans what is to be fetched for a file, in a rehearsal, as the planner of a restore does.
    fn fetch(&mut self, entry: &TreeEntry, content: &Content) -> Result<()> {
        let Some(chunks) = self.chunks else { return Ok(()) };
        if !(self.fetched.looks_ahead && lookahead::planned(entry).is_some()) {
            for item in Items::new(self.reader, content) {
                let Item::Chunk { id, .. } = item? else { continue };
                self.fetched.chunks += 1;
                if let Some(place) = chunks.loaded.index.get_stored(&id)
                    && self.fetched.met.insert(place.frame)
                {
                    self.fetched.frames.push(place.frame);
                }
                if self.fetched.chunks >= WINDOW {
                    self.hand_out();
                }
            }
        }
        self.fetched.files += 1;
        if self.fetched.files >= WINDOW_FILES {
            self.hand_out();
        }
        Ok(())
    }

    /// Plans a window of a restore.
    fn hand_out(&mut self) {
        let fetched = Fetched {
            looks_ahead: self.fetched.looks_ahead,
            ..Fetched::default()
        };
        let window = std::mem::replace(&mut self.fetched, fetched);
        if let Some(chunks) = self.chunks {
            chunks.plan(&window.frames);
        }
    }

    /// Returns the bytes of a content without holes.
    fn data(&self, content: &Content) -> Result<u64> {
        let mut bytes = 0;
        for item in Items::new(self.reader, content) {
            if let Item::Chunk { length, .. } = item? {
                bytes += u64::from(length);
            }
        }
        Ok(bytes)
    }

    /// Returns the bytes of a file that differ from the snapshot; `None` if the file matches.
    fn differing(&self, path: &Path, entry: &TreeEntry, file: OwnedFd) -> Result<Option<u64>> {
        let EntryKind::File(content) = &entry.kind else {
            return Ok(Some(0));
        };
        let stat = rustix::fs::fstat(&file).map_err(|error| Error::local("look at", path, error))?;
        let mut differs = stat.st_size as u64 != content.length;
        let mut bytes = 0;
        let file = Opened { fd: file, stat };
        self.task.compare(self.reader, &file, content, path, &mut |piece| {
            differs |= !piece.equal;
            bytes += if piece.equal || piece.is_hole { 0 } else { piece.length };
            true
        })?;
        Ok(differs.then_some(bytes))
    }
}
