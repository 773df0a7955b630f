//! Files of one seal: magic, then the length of the values (u32), the values, and zeros to the Padmé size.

use crate::error::{equal, in_range};
use crate::magic::MAGIC;
use crate::wire::Reader;
use crate::{Error, FileId, Keys, SEAL_OVERHEAD, SealKind, padme};

/// A length in front of the values, so that padding can follow them.
const LENGTH: usize = 4;
/// Length of a file without values and padding, bytes.
const FIXED: usize = MAGIC + SEAL_OVERHEAD + LENGTH;

/// A kind of such files.
pub(crate) struct ValuesFile {
    pub(crate) kind: SealKind,
    /// Largest file, bytes.
    pub(crate) limit: u64,
    /// Names of the file, of its values and of its padding, for errors.
    pub(crate) file: &'static str,
    pub(crate) values: &'static str,
    pub(crate) padding: &'static str,
}

impl ValuesFile {
    /// Returns the file named `id` with these values.
    pub(crate) fn seal(&self, keys: &Keys, id: FileId, values: &[u8]) -> Result<Vec<u8>, Error> {
        let size = padme::padded((FIXED + values.len()) as u64);
        in_range(self.file, size, 0, self.limit)?;
        let mut plaintext = (values.len() as u32).to_le_bytes().to_vec();
        plaintext.extend_from_slice(values);
        plaintext.resize(size as usize - MAGIC - SEAL_OVERHEAD, 0);
        let mut out = self.kind.file_kind().magic().to_vec();
        keys.seal(self.kind, id, MAGIC as u64, &plaintext, &mut out);
        Ok(out)
    }

    /// Opens the seal of the file named `id`; returns its plaintext.
    pub(crate) fn open<'b>(&self, keys: &Keys, id: FileId, bytes: &'b mut [u8]) -> Result<&'b [u8], Error> {
        self.kind.file_kind().check(bytes)?;
        in_range(self.file, bytes.len() as u64, 0, self.limit)?;
        keys.open(self.kind, id, MAGIC as u64, &mut bytes[MAGIC..])
            .map(|plain| &*plain)
    }

    /// Returns the values in a plaintext.
    pub(crate) fn values<'p>(&self, plaintext: &'p [u8]) -> Result<&'p [u8], Error> {
        let mut padded = Reader::new(plaintext);
        let length = padded.u32(self.values)?;
        let values = padded.take(self.values, length as usize)?;
        padded.zeros(self.padding)?;
        equal(
            self.file,
            padme::padded(FIXED as u64 + u64::from(length)),
            (plaintext.len() + FIXED - LENGTH) as u64,
        )?;
        Ok(values)
    }
}
