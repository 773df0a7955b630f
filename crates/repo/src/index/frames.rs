//! Places, frames and packs, by their numbers in the loaded index.

use ibid_format::FileId;
use ibid_format::index::IndexedFrame;
use ibid_format::pack::PackKind;

use crate::scratch::Element;

/// Location of a chunk: a frame, and its slot in that frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// Number of the frame: see [`Index::frame`](super::lookup::Index::frame).
    pub(crate) frame: u32,
    pub(crate) slot: u16,
}

/// A frame of a pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    /// Returns the offset in its pack at which it ends, bytes.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.sealed)
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

impl Element for Frame {
    const WIDTH: usize = 4 * 4 + 2 + 1;

    fn read(bytes: &[u8]) -> Frame {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Frame {
            pack: number(0),
            offset: number(4),
            sealed: number(8),
            length: number(12),
            blobs: u16::from_le_bytes([bytes[16], bytes[17]]),
            depth: bytes[18],
        }
    }

    fn write(self, bytes: &mut [u8]) {
        let numbers = [self.pack, self.offset, self.sealed, self.length];
        for (four, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            four.copy_from_slice(&number.to_le_bytes());
        }
        bytes[16..18].copy_from_slice(&self.blobs.to_le_bytes());
        bytes[18] = self.depth;
    }
}

/// A pack, without its frames.
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

impl Default for Pack {
    fn default() -> Pack {
        Pack::UNKNOWN
    }
}

impl Element for Pack {
    const WIDTH: usize = 16 + 8 + 4 + 1;

    fn read(bytes: &[u8]) -> Pack {
        Pack {
            id: FileId(bytes[..16].try_into().expect("an id")),
            size: u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes")),
            first_frame: u32::from_le_bytes(bytes[24..28].try_into().expect("four bytes")),
            kind: if bytes[28] == 0 {
                PackKind::Data
            } else {
                PackKind::Metadata
            },
        }
    }

    fn write(self, bytes: &mut [u8]) {
        bytes[..16].copy_from_slice(&self.id.0);
        bytes[16..24].copy_from_slice(&self.size.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.first_frame.to_le_bytes());
        bytes[28] = u8::from(self.kind == PackKind::Metadata);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_packs_read_back_from_their_bytes() {
        let frame = Frame {
            pack: 0x0102_0304,
            offset: u32::MAX,
            sealed: 5,
            length: 6,
            blobs: 0x0708,
            depth: 9,
        };
        let mut bytes = [0xAA; Frame::WIDTH];
        frame.write(&mut bytes);
        assert_eq!(Frame::read(&bytes), frame);
        for kind in [PackKind::Data, PackKind::Metadata] {
            let pack = Pack {
                id: FileId([7; 16]),
                kind,
                size: 1 << 28,
                first_frame: 11,
            };
            let mut bytes = [0xAA; Pack::WIDTH];
            pack.write(&mut bytes);
            let read = Pack::read(&bytes);
            assert_eq!(
                (read.id, read.kind, read.size, read.first_frame),
                (pack.id, kind, 1 << 28, 11)
            );
        }
    }
}
