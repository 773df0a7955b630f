//! Sketches of stored frames, for a copy that moves these to another repository.

use std::collections::HashMap;

use ibid_delta::Sketch;
use ibid_format::FileId;
use ibid_format::sketches::Run;

use super::FEATURE_BITS;
use super::library::Library;
use super::saved::Sources;
use crate::listed::Listed;
use crate::{Repository, Result, Warning};

/// Part of the memory budget for sketches that no run of the cache has.
const MEMORY_SHARE: u64 = 16;

/// Looks up the sketches of stored frames. They are read when the first is asked for.
pub(crate) struct SketchesOfFrames {
    repository: Repository,
    /// Those that no run has, by pack; `None` before they are read.
    saved: Option<HashMap<FileId, Vec<Run>>>,
    library: Option<Library>,
    /// The pack that was asked for last, and its sketches in the library.
    near: Option<(FileId, Vec<Run>)>,
}

impl SketchesOfFrames {
    pub(crate) fn new(repository: &Repository) -> SketchesOfFrames {
        SketchesOfFrames {
            repository: repository.clone(),
            saved: None,
            library: None,
            near: None,
        }
    }

    /// Returns the sketches of the `chunks` chunks of the frame at this offset of a pack; none if no file has all of
    /// them. They are optional: if they can't be read, the monitor is told, and there are none.
    pub(crate) fn get(&mut self, pack: FileId, offset: u32, chunks: u16) -> Vec<Sketch> {
        self.look(pack, offset, chunks).unwrap_or_else(|error| {
            self.repository.monitor.warn(Warning::Cache { error });
            self.saved.get_or_insert_default();
            self.library = None;
            Vec::new()
        })
    }

    fn look(&mut self, pack: FileId, offset: u32, chunks: u16) -> Result<Vec<Sketch>> {
        if self.saved.is_none() {
            self.read()?;
        }
        if self.near.as_ref().is_none_or(|(near, _)| *near != pack) {
            let runs = match &mut self.library {
                Some(library) => library.sketches_of(pack)?,
                None => Vec::new(),
            };
            self.near = Some((pack, runs));
        }
        let saved = self.saved.as_ref().and_then(|saved| saved.get(&pack));
        let near = self.near.as_ref().map(|(_, runs)| runs);
        let runs = saved.into_iter().chain(near).flatten();
        // Files have the upper halves of features.
        let mut found: Vec<Option<Sketch>> = vec![None; chunks.into()];
        for run in runs.filter(|run| run.offset == offset) {
            let slots = found.iter_mut().skip(run.slot.into());
            for (slot, features) in slots.zip(run.chunks.iter()) {
                *slot = Some(Sketch::of(
                    features.iter().map(|&feature| u64::from(feature) << FEATURE_BITS),
                ));
            }
        }
        Ok(found.into_iter().collect::<Option<Vec<Sketch>>>().unwrap_or_default())
    }

    fn read(&mut self) -> Result<()> {
        let memory = self.repository.memory / MEMORY_SHARE;
        let sources = Sources::read(&self.repository, memory, &Listed::default())?;
        let mut saved: HashMap<FileId, Vec<Run>> = HashMap::new();
        for run in sources.saved.into_iter().flat_map(|sketches| sketches.runs) {
            saved.entry(run.pack).or_default().push(run);
        }
        self.saved = Some(saved);
        self.library = (!sources.runs.is_empty()).then(|| Library::new(sources.runs));
        Ok(())
    }
}
