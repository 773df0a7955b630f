//! Places, frames and packs, by their numbers in the loaded index.

use ibid_format::FileId;
use ibid_format::index::IndexedFrame;
use ibid_format::pack::PackKind;

/// Location of a chunk: a frame, and its slot in that frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// Number of the frame: see [`Index::frame`](super::lookup::Index::frame).
    pub(crate) frame: u32,
    pub(crate) slot: u16,
}

/// A frame of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) pack: u32,
    pub(crate) offset: u32,
    pub(crate) sealed: u32,
    /// Sum of its chunks' lengths, bytes.
    pub(crate) length: u32,
    pub(crate) blobs: u16,
    /// Maximum length of the chain of frames that must be decoded before it.
    pub(crate) depth: u8,
}

impl Frame {
    /// A frame that a backup is gathering: its chunks are known but can't be read yet.
    pub(super) const UNSTORED: Frame = Frame {
        pack: u32::MAX,
        offset: 0,
        sealed: 0,
        length: 0,
        blobs: 0,
        depth: 0,
    };

    /// Returns a frame from an index file; its pack has this number.
    pub(crate) fn of(pack: u32, listed: &IndexedFrame) -> Frame {
        Frame {
            pack,
            offset: listed.offset,
            sealed: listed.sealed,
            length: listed.length,
            blobs: listed.blobs,
            depth: listed.depth,
        }
    }

    /// Returns whether its pack is durable.
    pub(crate) fn is_stored(&self) -> bool {
        self.pack != Frame::UNSTORED.pack
    }

    /// Returns whether an index file lists this frame the same way.
    pub(super) fn is(&self, listed: &IndexedFrame) -> bool {
        *self == Frame::of(self.pack, listed)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pack {
    pub(crate) id: FileId,
    pub(crate) kind: PackKind,
    pub(crate) size: u64,
    /// Number of its first frame.
    pub(crate) first_frame: u32,
}

impl Pack {
    /// A pack of a run that has become unreadable.
    pub(super) const UNKNOWN: Pack = Pack {
        id: FileId::ZERO,
        kind: PackKind::Data,
        size: 0,
        first_frame: 0,
    };
}
