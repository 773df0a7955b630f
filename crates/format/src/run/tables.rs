//! What a reader of a run keeps in memory: the index files it stands for, its packs, and where pages
//! begin.

use super::Trailer;
use crate::error::{equal, in_range};
use crate::pack::{self, PackKind};
use crate::wire::{self, Reader};
use crate::{Error, FileId};

const PACK: usize = 32;

/// A pack of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPack {
    /// The pack's name.
    pub id: FileId,
    /// The kind of its chunks.
    pub kind: PackKind,
    /// Size of the file, bytes.
    pub size: u64,
    /// Number of its first frame in the run.
    pub first_frame: u32,
}

/// The tables of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// Index files whose packs the run has.
    pub covers: Vec<FileId>,
    /// Packs, in the order of their frames.
    pub packs: Vec<RunPack>,
    /// First 32 bits of the first id of each page of entries.
    pub entry_fences: Vec<u32>,
    /// Ordinal of the first chunk of each page of frames.
    pub frame_fences: Vec<u64>,
}

impl Tables {
    /// Returns the encoded tables.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.covers.iter().for_each(|id| out.extend_from_slice(&id.0));
        for pack in &self.packs {
            out.extend_from_slice(&pack.id.0);
            wire::put_u64(&mut out, pack.size);
            wire::put_u32(&mut out, pack.first_frame);
            out.extend_from_slice(&[pack.kind.number(), 0, 0, 0]);
        }
        self.entry_fences
            .iter()
            .for_each(|&fence| wire::put_u32(&mut out, fence));
        self.frame_fences
            .iter()
            .for_each(|&fence| wire::put_u64(&mut out, fence));
        out
    }

    /// Returns the length of the tables that a trailer announces, bytes.
    pub fn len_of(trailer: &Trailer) -> u64 {
        u64::from(trailer.covers) * 16
            + u64::from(trailer.packs) * PACK as u64
            + u64::from(trailer.entry_pages) * 4
            + u64::from(trailer.frame_pages()) * 8
    }

    /// Reads the tables that this trailer announces.
    ///
    /// # Errors
    ///
    /// The first fault: another length, numbers out of range or out of order.
    pub fn read(trailer: &Trailer, bytes: &[u8]) -> Result<Tables, Error> {
        equal("tables of a run", Tables::len_of(trailer), bytes.len() as u64)?;
        let mut reader = Reader::new(bytes);
        let mut tables = Tables::default();
        for _ in 0..trailer.covers {
            tables.covers.push(FileId(reader.array("index file of a run")?));
        }
        let mut before = 0;
        for _ in 0..trailer.packs {
            let id = FileId(reader.array("pack id")?);
            let size = in_range("pack size", reader.u64("pack size")?, 0, pack::LIMIT)?;
            let first_frame = reader.u32("first frame of a pack")?;
            in_range(
                "first frame of a pack",
                first_frame.into(),
                before,
                trailer.frames.into(),
            )?;
            let kind = PackKind::from_number(reader.u8("pack kind")?)?;
            reader.array::<3>("end of a pack record")?;
            before = first_frame.into();
            tables.packs.push(RunPack {
                id,
                kind,
                size,
                first_frame,
            });
        }
        for _ in 0..trailer.entry_pages {
            tables.entry_fences.push(reader.u32("first id of a page")?);
        }
        for _ in 0..trailer.frame_pages() {
            tables.frame_fences.push(reader.u64("first ordinal of a page")?);
        }
        let ascend = tables.entry_fences.is_sorted() && tables.frame_fences.is_sorted();
        if !ascend {
            return Err(Error::Unordered {
                field: "pages of a run",
                position: 0,
            });
        }
        Ok(tables)
    }
}
