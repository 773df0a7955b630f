//! Backs up an image of which a map says what has changed since the parent snapshot.
//!
//! The parent's list of chunks is followed from its start. A chunk is taken over unread if all bytes
//! that decide where it ends are unchanged: its own, and the chunker's lookahead. Anything else is
//! read and cut as usual, from the boundary before it until a boundary from which the parent's chunks
//! fit again. No state passes from one chunk to the next, so the list is the one that reading all
//! would give. Two things can make it another one: members of archives, because their headers may not
//! be read, and a stretch in which no boundary fits for long ([`RESYNC_MAX`]).
//!
//! What the map calls unchanged is read in any case where the parent can't help: if a chunk is not
//! stored any more, if the rest of the parent's list is damaged, and where the file system has data
//! in a hole of the parent.

use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ibid_format::content::{Content, Item};
use ibid_format::tree::{EntryKind, Time, TreeEntry};
use rustix::fs::{AtFlags, CWD, FileType};

use super::job::Job;
use super::large::{LargeCutter, StopResult};
use super::options::BackupOptions;
use super::unread::{Changed, OpenImage, Sample};
use super::work::ToRead;
use crate::read::ChunkReader;
use crate::source::{Extent, Opened, entry_from};
use crate::tree::{Found, Items};
use crate::{ChangedBlocks, ChangedBlocksError, Error, Result, SnapshotInfo};

/// Memory for lists of chunks, bytes.
const LISTS: u64 = 4 << 20;
/// Fewest digits of the parent's id: as many as listings show.
const ID_MIN: usize = 8;

/// So many times the longest chunk is cut in search of a boundary of the parent. Then the next one
/// ends a chunk in any case: fixed sizes may never fit again, and nor may a long run of one byte.
const RESYNC_MAX: usize = 8;

/// An image, and what is known of it.
pub(crate) struct Image {
    /// Its size when it was found, bytes.
    pub(crate) size: u64,
    /// Device and inode.
    file: (u64, u64),
    /// Its contents in the parent.
    former: Content,
    /// The first digits of the parent's id.
    parent: String,
    changed: Changed,
    sample: Sample,
}

/// Checks what can be checked before the repository's index is loaded.
pub(crate) fn check_request(options: &BackupOptions) -> Result<()> {
    if options.paths.len() != 1 {
        let found = options.paths.len();
        return Err(ChangedBlocksError::Paths { found }.into());
    }
    let is_id = |name: &String| name.len() >= ID_MIN && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !options.parent.as_ref().is_some_and(is_id) {
        let found = options.parent.clone();
        return Err(ChangedBlocksError::NoParent { found }.into());
    }
    Ok(())
}

impl Image {
    /// Looks up the image at `path` in the parent, and checks that the map can describe it.
    pub(crate) fn find(job: &Job<'_>, path: &Path, parent: &SnapshotInfo, map: &ChangedBlocks) -> Result<Image> {
        let id = parent.id.to_string();
        if let Some(expected) = map.parent.as_ref().filter(|expected| !id.starts_with(*expected)) {
            return Err(Error::from(ChangedBlocksError::OtherParent {
                expected: expected.clone(),
                found: id,
            }));
        }
        let (file, size) = look(path)?;
        let reader = ChunkReader::new(&job.repository.files, job.loaded.clone(), LISTS);
        let former = match job.repository.find(&reader, &parent.at(path))? {
            Found::Entry(entry) => *entry,
            Found::Root(_) => return Err(ChangedBlocksError::NoImage { found: "a folder" }.into()),
        };
        let EntryKind::File(content) = former.kind else {
            return Err(Error::WrongType {
                snapshot: parent.short_id(),
                path: path.to_owned(),
                expected: "a file",
                found: former.kind.description(),
            });
        };
        if former.changed_while_read {
            let parent = parent.short_id();
            return Err(ChangedBlocksError::ParentMixed { parent }.into());
        }
        map.check(size, size.max(content.length))?;
        let described = content.length.min(map.size.unwrap_or(u64::MAX));
        Ok(Image {
            size,
            file,
            changed: Changed::new(map.ranges.clone(), described.min(size), content.length.max(size)),
            former: content,
            parent: parent.short_id(),
            sample: Sample::new(job.options.verify_unchanged),
        })
    }
}

/// Returns device and inode of a regular file or a block device, and its size.
fn look(path: &Path) -> Result<((u64, u64), u64)> {
    let failed = |action| move |error: rustix::io::Errno| Error::local(action, path, error);
    let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).map_err(failed("look at"))?;
    let size = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => stat.st_size as u64,
        FileType::BlockDevice => Opened::open(CWD, path.as_os_str().as_bytes())
            .and_then(|device| device.size())
            .map_err(failed("open"))?,
        _ => {
            let found = entry_from(b"image", &stat).map_or("of an unknown type", |entry| entry.kind.description());
            return Err(ChangedBlocksError::NoImage { found }.into());
        }
    };
    Ok(((stat.st_dev, stat.st_ino), size))
}

/// How far an image was read and cut.
struct Reread {
    /// The last boundary.
    at: u64,
    /// Whether the parent's chunks fit again there.
    fits: bool,
    /// Whether the file ended too early.
    is_short: bool,
}

impl LargeCutter<'_> {
    /// Backs up an image; returns its entry.
    pub(super) fn image(&mut self, file: &ToRead, image: Image) -> StopResult<Box<TreeEntry>> {
        // Its runs would go beyond the boundaries that are looked for here.
        self.follower = None;
        let job = self.job;
        let (opened, mut entry, size) = self.open(file)?;
        if (opened.stat.st_dev, opened.stat.st_ino) != image.file {
            return Err(super::work::replaced(&file.path).into());
        }
        let Image {
            former,
            parent,
            changed,
            mut sample,
            ..
        } = image;
        let changed = match size == image.size {
            true => changed,
            false => changed.resized(image.size, size),
        };
        let reader = ChunkReader::new(&job.repository.files, job.loaded.clone(), LISTS);
        let items = Items::new(&reader, &former);
        let mut image = OpenImage::new(job, opened, &file.path, size, changed, items);
        let (mut at, mut is_short, mut took_over) = (0, false, false);
        while at < size && !is_short {
            match image.unread(at, false) {
                Some(item) => {
                    if sample.next() {
                        self.compare(&image, at, &item, &parent)?;
                    }
                    took_over = true;
                    at += item.length();
                    self.without_data(item)?;
                }
                None => (at, is_short) = self.reread(&mut image, at)?,
            }
            job.monitor.check_cancelled()?;
        }
        super::work::finish_entry(job.monitor, &image.file, &mut entry, &file.path, is_short, job.started)?;
        if took_over {
            // A backup without a map must read all of it, whatever its times say.
            entry.ctime = Time { seconds: 0, nanos: 0 };
        }
        Ok(Box::new(entry))
    }

    /// Reads and cuts from `start` until the parent's chunks or holes fit again. Returns where that
    /// is, and whether the file ended too early.
    fn reread(&mut self, image: &mut OpenImage<'_>, start: u64) -> StopResult<(u64, bool)> {
        let size = image.size;
        let mut at = start;
        while at < size {
            // All before `at` is cut, and an extent begins there or goes on.
            let end = match image.file.extents(at, size).next() {
                Some(Extent::Data { length, .. }) => at + length,
                Some(Extent::Hole { length }) => {
                    self.hole(length)?;
                    at += length;
                    at
                }
                None => break,
            };
            let cut = self.reread_data(image, at..end)?;
            at = cut.at;
            if cut.is_short || cut.fits {
                return Ok((at, cut.is_short));
            }
            if image.unread(at, at < end).is_some() {
                break;
            }
        }
        Ok((at, false))
    }

    /// Reads and cuts data until the parent's chunks fit again; at most `data`, which is an extent or
    /// the rest of one.
    fn reread_data(&mut self, image: &mut OpenImage<'_>, data: Range<u64>) -> StopResult<Reread> {
        let job = self.job;
        let settings = job.repository.chunker.settings();
        // A boundary is found with about so much of data after it; more is read if not.
        let step = settings.size_average().max(4096) as u64;
        let most = (RESYNC_MAX * settings.size_max()) as u64;
        let (mut at, mut read_to, mut end) = (data.start, data.start, data.end);
        while at < end {
            let searched_from = image.changed.last_before(at).unwrap_or(0).clamp(data.start, at);
            if at - searched_from > most
                && let Some(boundary) = image.former_end()
            {
                end = end.min(boundary);
                self.drop_last(read_to.saturating_sub(end));
                read_to = read_to.min(end);
            }
            let wanted = image.changed.reach(read_to, step).min(end) - read_to;
            let wanted = self.room()?.min(wanted);
            let read = self.read(&image.file, image.path, read_to, wanted)?;
            read_to += read;
            let is_short = read < wanted;
            while let Some(length) = self.cut_next(is_short || read_to == end) {
                at += length;
                if !is_short && at < end && image.unread(at, true).is_some() {
                    self.drop_last(read_to - at);
                    let fits = true;
                    return Ok(Reread { at, fits, is_short });
                }
            }
            if is_short {
                let fits = false;
                return Ok(Reread { at, fits, is_short });
            }
            job.monitor.check_cancelled()?;
        }
        Ok(Reread {
            at,
            fits: false,
            is_short: false,
        })
    }

    /// Compares a chunk that is said to be unchanged with the image.
    fn compare(&mut self, image: &OpenImage<'_>, offset: u64, item: &Item, parent: &str) -> Result<()> {
        // Whether a hole is one still was looked up.
        let Item::Chunk { id, length } = *item else {
            return Ok(());
        };
        self.compared.resize(length as usize, 0);
        let read = image
            .file
            .read_at(offset, &mut self.compared)
            .map_err(|error| Error::local("read", image.path, error))?;
        self.bytes_read += read as u64;
        // A file that is being shortened is marked at the end.
        if read == self.compared.len() && self.job.repository.files.keys.chunk_id(&self.compared) != id {
            let parent = parent.to_owned();
            return Err(ChangedBlocksError::Wrong { offset, length, parent }.into());
        }
        Ok(())
    }
}
