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
    /// The encoded bodies, one after the other.
    pub(super) bodies: Vec<u8>,
    /// Of each the base that it is a delta of, 0 if it is whole, and its length.
    pub(super) parts: Vec<(u64, usize)>,
    /// Bytes of the bodies, before they were encoded.
    pub(super) body_bytes: usize,
    pub(super) digest: BodiesDigest,
}

impl Gathered {
    /// Whether no more entries are to be added to a message of so many bytes.
    pub(super) fn is_full(&self, message_bytes: usize) -> bool {
        let bytes = self.entry_bytes + self.bodies.len();
        bytes >= message_bytes || self.body_bytes >= BODY_BYTES || self.entries.len() == ENTRIES
    }
}
