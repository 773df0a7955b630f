//! What a reader of a run keeps in memory: the index files it stands for, and where pages begin.

use super::Trailer;
use crate::error::equal;
use crate::wire::{self, Reader};
use crate::{Error, FileId};

/// The tables of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// Index files whose packs the run has.
    pub covers: Vec<FileId>,
    /// First 32 bits of the first id of each page of entries.
    pub entry_fences: Vec<u32>,
    /// Ordinal of the first chunk of each page of frames.
    pub frame_fences: Vec<u64>,
    /// First 32 bits of the first id of each page of pack ids.
    pub pack_fences: Vec<u32>,
}

impl Tables {
    /// Returns the encoded tables.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.covers.iter().for_each(|id| out.extend_from_slice(&id.0));
        self.entry_fences
            .iter()
            .for_each(|&fence| wire::put_u32(&mut out, fence));
        self.frame_fences
            .iter()
            .for_each(|&fence| wire::put_u64(&mut out, fence));
        self.pack_fences
            .iter()
            .for_each(|&fence| wire::put_u32(&mut out, fence));
        out
    }

    /// Returns the length of the tables that a trailer announces, bytes.
    pub fn len_of(trailer: &Trailer) -> u64 {
        u64::from(trailer.covers) * 16
            + u64::from(trailer.entry_pages) * 4
            + u64::from(trailer.frame_pages()) * 8
            + u64::from(trailer.pack_id_pages) * 4
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
        for _ in 0..trailer.entry_pages {
            tables.entry_fences.push(reader.u32("first id of a page")?);
        }
        for _ in 0..trailer.frame_pages() {
            tables.frame_fences.push(reader.u64("first ordinal of a page")?);
        }
        for _ in 0..trailer.pack_id_pages {
            tables.pack_fences.push(reader.u32("first id of a page of pack ids")?);
        }
        let ids_ascend = tables.entry_fences.is_sorted() && tables.pack_fences.is_sorted();
        if !ids_ascend || !tables.frame_fences.is_sorted() {
            return Err(Error::Unordered {
                field: "pages of a run",
                position: 0,
            });
        }
        Ok(tables)
    }
}
