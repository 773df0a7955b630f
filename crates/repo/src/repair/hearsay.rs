//! What is left of packs that the writer has signed and that don't say what is in them.
//!
//! Index files of the writer say it, and are not believed. But a frame that can be decoded, and whose chunks have the
//! ids that such a file says, is what it should be, whoever says so.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use ibid_format::frame::FrameDecoder;
use ibid_format::index::{Index as IndexFile, IndexedPack};
use ibid_format::pack::{FrameSummary, PackSummary};
use ibid_format::{ChunkId, FileId};

use super::Repairing;
use super::examine::DamagedPack;
use crate::index::{Frame, Pack};
use crate::layout::{folder, name_in};
use crate::{Error, Result};

/// The chunks of frames, by the numbers of these in an index file.
type IdsOfFrames = HashMap<u32, BTreeMap<u16, ChunkId>>;

impl Repairing<'_> {
    /// Returns the damaged packs without a readable directory of which an index file of the writer says what is in
    /// them, with the frames that hold just that.
    pub(super) fn by_hearsay(&self) -> Result<Vec<DamagedPack>> {
        let mut found = Vec::new();
        if !self.repository.files.keys.is_of_writer() {
            return Ok(found);
        }
        let of_content = self
            .loaded
            .damaged
            .iter()
            .filter(|file| file.is_pack() && file.is_of_content);
        let mut silent: HashMap<FileId, &str> = of_content
            .filter_map(|file| Some((FileId::parse(file.name.last_segment())?, file.problem.as_str())))
            .collect();
        for &id in &self.loaded.untrusted {
            if silent.is_empty() {
                break;
            }
            self.monitor.check_cancelled()?;
            let file = match self.repository.files.read_index(id) {
                Ok(file) => file,
                Err(error) if error.is_fault() => continue,
                Err(error) => return Err(error),
            };
            let packs = file.packs_with_frames();
            let here: Vec<_> = packs.filter(|(pack, _)| silent.contains_key(&pack.id)).collect();
            let wanted: HashSet<u32> = here.iter().flat_map(|(_, frames)| frames.clone()).collect();
            let mut ids = IdsOfFrames::new();
            for entry in file.entries().filter(|entry| wanted.contains(&entry.frame)) {
                ids.entry(entry.frame).or_default().insert(entry.slot, entry.id);
            }
            for (listed, frames) in here {
                let problem = silent[&listed.id];
                if let Some(damaged) = self.pack_by_hearsay(&file, &listed, frames, &ids, problem)? {
                    silent.remove(&listed.id);
                    found.push(damaged);
                }
            }
        }
        Ok(found)
    }

    /// Returns what is left of a pack according to an index file; `None` if none of it is as that says.
    fn pack_by_hearsay(
        &self,
        file: &IndexFile,
        listed: &IndexedPack,
        range: Range<u32>,
        ids: &IdsOfFrames,
        problem: &str,
    ) -> Result<Option<DamagedPack>> {
        let (files, id) = (&self.repository.files, listed.id);
        let size = match files.storage.size(&name_in(folder::PACKS, id)).map_err(Error::from) {
            Ok(size) => size,
            Err(error) if error.is_fault() => return Ok(None),
            Err(error) => return Err(error),
        };
        let pack = Pack {
            id,
            kind: listed.kind,
            size,
            first_frame: 0,
        };
        let (mut frames, mut summaries) = (Vec::new(), Vec::new());
        let mut decoder = FrameDecoder::new();
        for number in range {
            let Some(frame) = file.frame(number).map(|frame| Frame::of(0, &frame)) else {
                continue;
            };
            let summary = match ids.get(&number).filter(|_| frame.end() <= pack.size) {
                Some(ids) => self.frame_by_hearsay(&mut decoder, &pack, &frame, ids)?,
                None => None,
            };
            frames.push((frame, summary.is_some()));
            summaries.push(summary.unwrap_or(FrameSummary {
                offset: frame.offset,
                sealed: frame.sealed,
                depth: frame.depth,
                bases: Vec::new(),
                blobs: Vec::new(),
            }));
        }
        let left = frames.iter().filter(|(_, holds)| *holds).count();
        Ok((left > 0).then(|| DamagedPack {
            pack,
            problem: problem.to_owned(),
            summary: Some(PackSummary {
                id,
                kind: pack.kind,
                size: pack.size,
                frames: summaries,
            }),
            frames,
        }))
    }

    /// Returns the summary of a frame if it holds the chunks with these ids, and needs no others.
    fn frame_by_hearsay(
        &self,
        decoder: &mut FrameDecoder,
        pack: &Pack,
        frame: &Frame,
        ids: &BTreeMap<u16, ChunkId>,
    ) -> Result<Option<FrameSummary>> {
        let summary = match self.summary_of(pack, frame, ids) {
            Ok(Some(summary)) => summary,
            Ok(None) => return Ok(None),
            Err(error) if is_of_frame(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        match self.repository.files.holds(decoder, pack, &summary) {
            Ok(()) => Ok(Some(summary)),
            Err(error) if is_of_frame(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns whether an error is about what a frame is, and does not say that it can't be read now.
fn is_of_frame(error: &Error) -> bool {
    error.is_of_content() || error.is_damage()
}
