//! The digest of the bodies of a message.

use ibid_format::record::{Digest, body_digest};

/// Computes the digest of several bodies, by which a receiver checks that it has made the same.
#[derive(Default)]
pub(super) struct BodiesDigest(Vec<u8>);

impl BodiesDigest {
    pub(super) fn add(&mut self, body: &[u8]) {
        self.0.extend_from_slice(&(body.len() as u64).to_le_bytes());
        self.0.extend_from_slice(&body_digest(body));
    }

    pub(super) fn finish(self) -> Digest {
        body_digest(&self.0)
    }
}
