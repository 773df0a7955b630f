//! Reads the fields of messages: every length is checked before anything is taken.

use ibid_storage::Name;

use super::frame::{Violation, violation};
use super::greeting::shown;

/// The fields of a message that are still to be read.
pub(super) struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Fields(bytes)
    }

    /// Returns how many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.0.len()
    }

    /// Refuses bytes that the message has too many.
    pub(super) fn end(&self) -> Result<(), Violation> {
        match self.0.len() {
            0 => Ok(()),
            more => Err(violation(format!("a message with {more} bytes too many"))),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], Violation> {
        let taken = self.0.split_at_checked(length);
        let (these, rest) = taken.ok_or_else(|| violation("a message that ends within a field"))?;
        self.0 = rest;
        Ok(these)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Violation> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Violation> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Violation> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads 0 or 1.
    pub(super) fn flag(&mut self) -> Result<bool, Violation> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(violation(format!("{found} where 0 or 1 is allowed"))),
        }
    }

    /// Reads a text of at most 255 bytes.
    pub(super) fn short_text(&mut self) -> Result<String, Violation> {
        let length = self.u8()?;
        utf8(self.take(usize::from(length))?)
    }

    /// Reads a text of at most 64 KiB.
    pub(super) fn text(&mut self) -> Result<String, Violation> {
        let length = u16::from_le_bytes(self.array()?);
        utf8(self.take(usize::from(length))?)
    }

    /// Reads the name of an object.
    pub(super) fn name(&mut self) -> Result<Name, Violation> {
        let text = self.short_text()?;
        Name::new(&text).map_err(|error| violation(error.to_string()))
    }

    /// Reads the name of an object; `None` if it is empty.
    pub(super) fn optional_name(&mut self) -> Result<Option<Name>, Violation> {
        let text = self.short_text()?;
        match text.is_empty() {
            true => Ok(None),
            false => Name::new(&text).map(Some).map_err(|error| violation(error.to_string())),
        }
    }
}

fn utf8(bytes: &[u8]) -> Result<String, Violation> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| violation(format!("a text that is not UTF-8: {:?}", shown(bytes))))?;
    Ok(text.to_owned())
}
