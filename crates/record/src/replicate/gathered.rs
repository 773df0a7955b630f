//! The entries and bodies of an answer, as a sender gathers them.

use super::bodies_digest::BodiesDigest;

/// Bytes of the bodies that they make.
const BODY_BYTES: usize = 32 << 20;
/// Entries in a message.
const ENTRIES: usize = 1 << 14;

/// The entries and bodies of an answer.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) entries: Vec<Vec<u8>>,
    /// Bytes of the entries.
    pub(super) entry_bytes: usize,
    /// The encoded bodies, one after the other, in buffers.
    pub(super) bodies: Vec<Vec<u8>>,
    /// Bytes of the encoded bodies.
    encoded_bytes: usize,
    /// Of each the base that it is a delta of, 0 if it is whole, and its length.
    pub(super) parts: Vec<(u64, usize)>,
    /// Bytes of the bodies, before they were encoded.
    pub(super) body_bytes: usize,
    pub(super) digest: BodiesDigest,
}

impl Gathered {
    /// Returns where to append a body: a buffer that has fewer than so many bytes.
    pub(super) fn buffer(&mut self, buffer_bytes: usize) -> &mut Vec<u8> {
        if self.bodies.last().is_none_or(|last| last.len() >= buffer_bytes) {
            self.bodies.push(Vec::new());
        }
        let last = self.bodies.len() - 1;
        &mut self.bodies[last]
    }

    /// Notes a body that was appended, as a delta of `base` or whole if that is 0.
    pub(super) fn add(&mut self, base: u64, length: usize) {
        self.parts.push((base, length));
        self.encoded_bytes += length;
    }

    /// Whether no more entries are to be added to a message of so many bytes.
    pub(super) fn is_full(&self, message_bytes: usize) -> bool {
        let bytes = self.entry_bytes + self.encoded_bytes;
        bytes >= message_bytes || self.body_bytes >= BODY_BYTES || self.entries.len() == ENTRIES
    }
}
