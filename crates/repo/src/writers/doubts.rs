//! What a keeper who prunes the files of a writer does not believe.
//!
//! A writer, or who has stolen its key, can store packs that say they have a chunk and have another one, and index
//! files that list what is in no pack. A prune decides which copy of a chunk is the last one, so it takes nothing of
//! that for true: it reads the directories of the packs that the writer has signed, decodes their frames, and compares
//! the chunks with their ids. A frame with a chunk that has another id than it should counts as lost. So does a delta:
//! a writer stores none, and what it says the bases are could be anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ibid_format::frame::FrameDecoder;
use ibid_format::pack::FrameSummary;
use ibid_format::writer::Signer;
use ibid_format::{FileId, FileKind};

use crate::files::Files;
use crate::index::{LoadedIndex, NumberSet, Pack};
use crate::prune::rules::{self, Rule};
use crate::threads::each;
use crate::{Error, Monitor, Repository, Result, Warning};

/// Packs that are verified at once. Each takes the memory of a frame.
const AT_ONCE: usize = 4;

/// What was found of the packs that a writer has signed.
pub(crate) struct Doubts {
    /// Whether packs are verified: an estimate takes them for what they say.
    verifies: bool,
    /// Of the packs that were verified, the offsets of the frames that do not hold what they should.
    verified: Mutex<HashMap<FileId, False>>,
}

/// The frames of a pack that do not hold what they should.
enum False {
    /// Those at these offsets.
    Frames(Vec<u32>),
    /// All of them: the pack can't be read now.
    All,
}

impl False {
    fn has(&self, offset: u32) -> bool {
        match self {
            False::Frames(offsets) => offsets.contains(&offset),
            False::All => true,
        }
    }
}

impl Repository {
    /// Returns a handle to the same files that believes nothing of what a writer has signed, if they are a writer's,
    /// and `verifies` its packs.
    pub(crate) fn doubting(&self, verifies: bool) -> Repository {
        if !self.files.keys.is_of_writer() || self.files.doubts.is_some() {
            return self.clone();
        }
        self.with_doubts(Arc::new(Doubts {
            // A rehearsal only counts what would be read.
            verifies: verifies && self.files.rehearsal.is_none(),
            verified: Mutex::default(),
        }))
    }

    /// Does the same, and verifies each pack once for all such handles: many snapshots are changed one after the other.
    pub(crate) fn doubting_still(&self) -> Repository {
        match &self.written {
            Some(written) if self.files.doubts.is_none() => self.with_doubts(written.doubts.clone()),
            _ => self.clone(),
        }
    }

    fn with_doubts(&self, doubts: Arc<Doubts>) -> Repository {
        let files = Files {
            doubts: Some(doubts),
            names_denied: self.files.names_denied,
            rehearsal: self.files.rehearsal.clone(),
            ..Files::new(self.files.storage.clone(), self.files.keys.clone())
        };
        // Runs of the cache are made of index files that anyone of both has signed.
        self.with_files(files, None).with_scratch(&self.scratch_folder())
    }
}

impl Files {
    /// Returns whether these are a writer's files that a keeper prunes now, and verifies.
    pub(crate) fn verifies(&self) -> bool {
        self.doubts.as_ref().is_some_and(|doubts| doubts.verifies)
    }

    /// Returns whether an index file that was just read is believed.
    pub(crate) fn believes_index(&self, id: FileId) -> bool {
        self.doubts.is_none()
            || !rules::holds(Rule::Doubt)
            || self.keys.signer_of(FileKind::Index, id) == Some(Signer::Keeper)
    }

    /// Returns whether a pack is doubted: no keeper has signed it. Its header must have been read.
    fn doubts_pack(&self, id: FileId) -> bool {
        self.doubts.is_some() && self.keys.signer_of(FileKind::Pack, id) != Some(Signer::Keeper)
    }

    /// Returns the frames of a pack that do not hold what its directory says, and what there is to tell of that.
    fn false_frames(&self, pack: &Pack) -> Result<(False, Option<Error>)> {
        let directory = match self.read_directory(pack.id, pack.size) {
            Ok(directory) => directory,
            Err(error) if error.is_fault() => return Ok((False::All, Some(error))),
            Err(error) => return Err(error),
        };
        let mut decoder = FrameDecoder::new();
        let (mut found, mut to_tell) = (Vec::new(), None);
        for frame in &directory.frames {
            match self.holds(&mut decoder, pack, frame) {
                Ok(()) => {}
                Err(error) if error.is_fault() => {
                    found.push(frame.offset);
                    to_tell = to_tell.or(Some(error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok((False::Frames(found), to_tell))
    }

    /// Returns an error if a frame does not hold the chunks that it should, or needs others.
    pub(crate) fn holds(&self, decoder: &mut FrameDecoder, pack: &Pack, frame: &FrameSummary) -> Result<()> {
        let lies = || Error::FalsePack { pack: pack.id };
        if frame.depth > 0 || !frame.bases.is_empty() {
            return Err(lies());
        }
        let plain = self.read_plain_frame(pack, frame.offset, frame.sealed)?;
        // With an empty prefix, a frame that is a delta all the same is none.
        let decoded = decoder.decode(&plain, &[], None).map_err(|_| lies())?;
        let mut blobs = frame.blobs.iter();
        let is_next = |chunk: &[u8]| {
            let blob = blobs.next();
            blob.is_some_and(|blob| blob.length as usize == chunk.len() && self.keys.chunk_id(chunk) == blob.id)
        };
        let all = decoded.chunks().all(is_next);
        match all && blobs.next().is_none() {
            true => Ok(()),
            false => Err(lies()),
        }
    }
}

impl LoadedIndex {
    /// Makes the frames of packs that the writer has signed rank behind all others, and those lost that do not hold
    /// what they should. Packs that no index file of a keeper lists are the only ones that it can have signed.
    pub(crate) fn doubt(&mut self, files: &Files, monitor: &Monitor) -> Result<()> {
        let Some(doubts) = &files.doubts else { return Ok(()) };
        // Their directories were read, and so were their headers.
        let doubted = self.unlisted.iter().filter(|(id, _)| files.doubts_pack(*id));
        let doubted = doubted.filter_map(|(id, _)| self.index.find_pack(*id));
        let doubted: Vec<u32> = doubted.filter(|number| !self.index.is_missing(*number)).collect();
        let packs: Vec<Pack> = doubted.iter().map(|number| self.index.pack(*number)).collect();
        if doubts.verifies && rules::holds(Rule::Verify) {
            doubts.verify(files, monitor, &packs)?;
        }
        let verified = doubts.verified.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut frames, mut lost) = (NumberSet::default(), Vec::new());
        for (&number, pack) in doubted.iter().zip(&packs) {
            let wrong = verified.get(&pack.id);
            for frame in self.index.frames_of(number) {
                frames.insert(frame);
                if wrong.is_some_and(|wrong| wrong.has(self.index.frame(frame).offset)) {
                    lost.push(frame);
                }
            }
        }
        drop(verified);
        self.index.doubt(frames);
        self.index.lose(lost);
        Ok(())
    }

    /// Returns whether there are index files that are not believed.
    pub(crate) fn has_doubted_files(&self, files: &Files) -> bool {
        self.untrusted.iter().any(|id| !files.believes_index(*id))
    }

    /// Returns whether a pack is one that the writer has signed, and that is doubted.
    pub(crate) fn is_doubted(&self, pack: u32) -> bool {
        self.index.frames_of(pack).any(|frame| self.index.is_doubted(frame))
    }
}

impl Doubts {
    /// Returns doubts of one who verifies packs.
    pub(super) fn verifying() -> Doubts {
        Doubts {
            verifies: true,
            verified: Mutex::default(),
        }
    }

    /// Verifies these packs, each once. Those that do not hold what they should are named.
    fn verify(&self, files: &Files, monitor: &Monitor, packs: &[Pack]) -> Result<()> {
        let lock = || self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<Pack> = {
            let verified = lock();
            packs
                .iter()
                .filter(|pack| !verified.contains_key(&pack.id))
                .copied()
                .collect()
        };
        for group in new.chunks(AT_ONCE) {
            monitor.check_cancelled()?;
            let found = each(true, group, |pack| files.false_frames(pack));
            for (pack, found) in group.iter().zip(found) {
                let (found, to_tell) = found?;
                to_tell
                    .into_iter()
                    .for_each(|error| monitor.warn(Warning::Repository { error }));
                lock().insert(pack.id, found);
            }
        }
        Ok(())
    }
}
