//! Runs: sorted files on the local disk that say where chunks are.
//!
//! A run stands for index files of the repository (see [`RunWriter`]), or holds entries that an
//! operation has no memory for. Each lookup reads one page; [`PageCache`] keeps pages that were used.

mod pages;
mod sorter;
mod stack;
mod writer;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ibid_format::run::{
    EntryPage, Filter, FramePage, PACKS_A_PAGE, PackPage, RunFrame, RunPack, ShortId, Tables, Trailer,
};
use ibid_format::{FileId, FileKind};
pub(super) use pages::PageCache;
pub(crate) use sorter::{Merge, Merged, Sorter};
pub(super) use stack::RunStack;
pub(crate) use writer::RunWriter;

use crate::cache::{Kept, SealedFile};
use crate::{Error, Result};

/// Lookups after which a run's filter is loaded, if there is memory for it.
const LOOKUPS_BEFORE_FILTER: u32 = 256;

/// A run that is open for lookups.
pub(crate) struct Run {
    file: SealedFile,
    pub(super) trailer: Trailer,
    pub(super) tables: Tables,
    filter: OnceLock<Option<Filter>>,
    lookups: AtomicU32,
}

impl Kept for Run {
    const FOLDER: &'static str = "index";

    fn open(file: SealedFile) -> Result<Run> {
        file.check(FileKind::Run)?;
        let size = file.size()?;
        let mut sealed = [0; Trailer::LEN];
        file.read_at(&mut sealed, size.saturating_sub(Trailer::LEN as u64))?;
        let trailer = Trailer::open(file.keys(), file.id(), size, &mut sealed).map_err(file.damaged())?;
        let tables = file.section(trailer.tables())?;
        Ok(Run {
            tables: Tables::read(&trailer, &tables).map_err(file.damaged())?,
            file,
            trailer,
            filter: OnceLock::new(),
            lookups: AtomicU32::new(0),
        })
    }

    fn file(&self) -> &SealedFile {
        &self.file
    }

    fn weight(&self) -> u64 {
        self.trailer.entries
    }

    fn covers(&self) -> &[ibid_format::FileId] {
        &self.tables.covers
    }
}

/// Memory that filters may still take, shared by all runs of an index, bytes.
pub(super) struct FilterRoom(AtomicU64);

impl FilterRoom {
    pub(super) fn new(bytes: u64) -> FilterRoom {
        FilterRoom(AtomicU64::new(bytes))
    }

    fn take(&self, bytes: u64) -> bool {
        let left = |room: u64| room.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Run {
    pub(crate) fn file(&self) -> &SealedFile {
        &self.file
    }

    /// Reads a page of entries.
    pub(super) fn read_entries(&self, number: u32) -> Result<EntryPage> {
        self.file.page(self.trailer.entry_page(number), EntryPage::read)
    }

    /// Reads a page of frames.
    pub(super) fn read_frames(&self, number: u32) -> Result<FramePage> {
        self.file.page(self.trailer.frame_page(number), FramePage::read)
    }

    /// Reads a page of packs.
    pub(super) fn read_packs(&self, number: u32) -> Result<PackPage> {
        let Trailer { packs, frames, .. } = self.trailer;
        let after = packs.saturating_sub(number.saturating_mul(PACKS_A_PAGE as u32)) as usize;
        let read = |plain: &[u8]| PackPage::read(plain, after.min(PACKS_A_PAGE), frames);
        self.file.page(self.trailer.pack_page(number), read)
    }

    /// Reads a page of the ids of packs.
    fn read_pack_ids(&self, number: u32) -> Result<EntryPage> {
        self.file.page(self.trailer.pack_id_page(number), EntryPage::read)
    }

    /// Returns whether the run may have this id, as far as its filter tells.
    fn may_have(&self, id: ShortId, room: &FilterRoom) -> bool {
        if self.filter.get().is_none() && self.lookups.fetch_add(1, Ordering::Relaxed) >= LOOKUPS_BEFORE_FILTER {
            self.load_filter(room);
        }
        match self.filter.get() {
            Some(Some(filter)) => filter.may_have(id),
            _ => true,
        }
    }

    /// Loads the filter, if there is memory for it. Without it, lookups take longer.
    pub(super) fn load_filter(&self, room: &FilterRoom) {
        self.filter.get_or_init(|| {
            let section = self.trailer.filter();
            if !room.take(section.plain) {
                return None;
            }
            let read = self.file.section(section);
            let filter = read.and_then(|bytes| Filter::read(self.trailer.entries, &bytes).map_err(self.file.damaged()));
            // The pages have the truth: a filter that can't be read is only slow.
            filter.inspect_err(|_| room.give_back(section.plain)).ok()
        });
    }

    /// Gives back the memory of the filter.
    pub(super) fn drop_filter(&self, room: &FilterRoom) {
        if let Some(Some(filter)) = self.filter.get() {
            room.give_back(filter.memory());
        }
    }

    /// Returns the memory in use besides pages, bytes.
    pub(super) fn memory(&self) -> u64 {
        let filter = self.filter.get().and_then(Option::as_ref).map_or(0, Filter::memory);
        let tables = &self.tables;
        let fences =
            tables.entry_fences.capacity() * 4 + tables.frame_fences.capacity() * 8 + tables.pack_fences.capacity() * 4;
        filter + (fences + tables.covers.capacity() * 16) as u64
    }

    /// Calls `found` with the number of every entry whose id is in the range, both ends included.
    pub(super) fn find(
        &self,
        (first, last): (ShortId, ShortId),
        pages: &PageCache,
        room: &FilterRoom,
        mut found: impl FnMut(ShortId, u64),
    ) -> Result<()> {
        let fences = &self.tables.entry_fences;
        if fences.is_empty() || (first == last && !self.may_have(first, room)) {
            return Ok(());
        }
        // Entries may begin in the last page whose first id is smaller.
        let start = fences.partition_point(|&fence| fence < first.fence()).saturating_sub(1);
        let end = fences.partition_point(|&fence| fence <= last.fence());
        for number in start..end {
            let page = pages.entries(self, number as u32)?;
            page.find(first, last).for_each(|(id, value)| found(id, value));
        }
        Ok(())
    }

    /// Returns the frame with this number in the run.
    pub(super) fn frame(&self, number: u32, pages: &PageCache) -> Result<RunFrame> {
        let a_page = ibid_format::run::FRAMES_A_PAGE as u32;
        let page = pages.frames(self, number / a_page)?;
        page.get((number % a_page) as usize)
            .ok_or_else(|| self.no_such(number.into()))
    }

    /// Returns the number of the frame that has the chunk with this ordinal, and the frame.
    pub(super) fn frame_of(&self, ordinal: u64, pages: &PageCache) -> Result<(u32, RunFrame)> {
        let fences = &self.tables.frame_fences;
        let at = fences.partition_point(|&fence| fence <= ordinal).checked_sub(1);
        let number = at.ok_or_else(|| self.no_such(ordinal))? as u32;
        let (position, frame) = pages
            .frames(self, number)?
            .find(ordinal)
            .ok_or_else(|| self.no_such(ordinal))?;
        Ok((number * ibid_format::run::FRAMES_A_PAGE as u32 + position as u32, frame))
    }

    /// Returns the pack with this number in the run, and the number of the first frame after it.
    pub(super) fn pack(&self, number: u32, pages: &PageCache) -> Result<(RunPack, u32)> {
        let a_page = PACKS_A_PAGE as u32;
        let get = |number: u32| {
            let page = pages.packs(self, number / a_page)?;
            let pack = page.packs().get((number % a_page) as usize).copied();
            pack.ok_or_else(|| self.no_such(number.into()))
        };
        let pack = get(number)?;
        let end = match number + 1 < self.trailer.packs {
            true => get(number + 1)?.first_frame,
            false => self.trailer.frames,
        };
        Ok((pack, end))
    }

    /// Returns the number of the pack with this id, and its size in bytes.
    pub(super) fn find_pack(&self, id: FileId, pages: &PageCache) -> Result<Option<(u32, u64)>> {
        let id = ShortId::of_file(id);
        let fences = &self.tables.pack_fences;
        let start = fences.partition_point(|&fence| fence < id.fence()).saturating_sub(1);
        let end = fences.partition_point(|&fence| fence <= id.fence());
        for number in start..end {
            let page = pages.pack_ids(self, number as u32)?;
            if let Some((_, value)) = page.find(id, id).next() {
                return Ok(Some(RunPack::of_value(value)));
            }
        }
        Ok(None)
    }

    /// Calls `each` with all packs, in order, and for each the number of the first frame after it.
    pub(super) fn each_pack(&self, mut each: impl FnMut(RunPack, u32) -> Result<()>) -> Result<()> {
        let mut last: Option<RunPack> = None;
        for number in 0..self.trailer.pack_pages() {
            for pack in self.read_packs(number)?.packs() {
                if let Some(last) = last.replace(*pack) {
                    if last.first_frame > pack.first_frame {
                        return Err(self.no_such(pack.first_frame.into()));
                    }
                    each(last, pack.first_frame)?;
                }
            }
        }
        last.map_or(Ok(()), |last| each(last, self.trailer.frames))
    }

    fn no_such(&self, found: u64) -> Error {
        self.file.damaged()(ibid_format::Error::OutOfRange {
            field: "chunk, frame or pack of a run",
            min: 0,
            max: self.trailer.chunks,
            found,
        })
    }
}

/// Checks that entries read from pages are in order. A writer of pages relies on it, and bytes that were wrong
/// before they were sealed are not found otherwise.
pub(crate) struct EntryOrder {
    last: ShortId,
    end: u64,
    position: u64,
}

impl EntryOrder {
    /// Returns a check of entries whose numbers must be below `end`.
    pub(crate) fn new(end: u64) -> EntryOrder {
        EntryOrder {
            last: ShortId(0),
            end,
            position: 0,
        }
    }

    /// Checks the next entry.
    pub(crate) fn check(&mut self, (id, number): (ShortId, u64)) -> std::result::Result<(), ibid_format::Error> {
        if id < self.last {
            return Err(ibid_format::Error::Unordered {
                field: "entries of a run",
                position: self.position,
            });
        }
        if number >= self.end {
            return Err(ibid_format::Error::OutOfRange {
                field: "number of a run's entry",
                min: 0,
                max: self.end.saturating_sub(1),
                found: number,
            });
        }
        self.last = id;
        self.position += 1;
        Ok(())
    }
}

/// Entries of a run in order: of its chunks, or of its packs.
pub(super) struct Entries {
    run: Arc<Run>,
    read: fn(&Run, u32) -> Result<EntryPage>,
    pages: std::ops::Range<u32>,
    page: Option<EntryPage>,
    at: usize,
    order: EntryOrder,
}

impl Entries {
    /// Their numbers must be below `end`.
    pub(super) fn of_chunks(run: Arc<Run>, end: u64) -> Entries {
        let pages = 0..run.trailer.entry_pages;
        Entries::of(run, Run::read_entries, pages, end)
    }

    pub(super) fn of_packs(run: Arc<Run>) -> Entries {
        let pages = 0..run.trailer.pack_id_pages;
        Entries::of(run, Run::read_pack_ids, pages, u64::MAX)
    }

    fn of(run: Arc<Run>, read: fn(&Run, u32) -> Result<EntryPage>, pages: std::ops::Range<u32>, end: u64) -> Entries {
        Entries {
            run,
            read,
            pages,
            page: None,
            at: 0,
            order: EntryOrder::new(end),
        }
    }

    /// Returns the next entry.
    pub(super) fn next(&mut self) -> Result<Option<(ShortId, u64)>> {
        loop {
            if let Some(page) = &self.page
                && self.at < page.len()
            {
                let entry = page.entry(self.at);
                self.at += 1;
                self.order.check(entry).map_err(self.run.file.damaged())?;
                return Ok(Some(entry));
            }
            let Some(number) = self.pages.next() else {
                return Ok(None);
            };
            self.page = Some((self.read)(&self.run, number)?);
            self.at = 0;
        }
    }
}
