//! Encrypted values.

use crate::{Error, FileId, Keys, SealKind};

/// Returns the file id and position that stand for a table and a key in the value's seal.
fn place(table: u8, key: &[u8]) -> (FileId, u64) {
    let mut file = FileId::ZERO;
    file.0.copy_from_slice(&blake3::hash(key).as_bytes()[..16]);
    (file, table.into())
}

/// Appends the seal of a value, given in parts, to `out`, bound to its key and to the number of its table.
///
/// ```
/// use ibid_format::record::{open_value, seal_value};
/// use ibid_format::{FileId, Keys, MasterKey};
///
/// let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
/// let mut sealed = Vec::new();
/// seal_value(&keys, 9, b"key", &[b"val", b"ue"], &mut sealed);
/// assert!(open_value(&keys, 9, b"other key", &mut sealed.clone()).is_err());
/// assert_eq!(open_value(&keys, 9, b"key", &mut sealed)?, b"value");
/// # Ok::<(), ibid_format::Error>(())
/// ```
pub fn seal_value(keys: &Keys, table: u8, key: &[u8], value: &[&[u8]], out: &mut Vec<u8>) {
    let (file, position) = place(table, key);
    keys.seal_parts(SealKind::Value, file, position, value, out);
}

/// Opens the seal of a value in place.
///
/// # Errors
///
/// [`Error::Seal`] if a byte changed, or the value was sealed under another key or in another
/// table.
pub fn open_value<'a>(keys: &Keys, table: u8, key: &[u8], sealed: &'a mut [u8]) -> Result<&'a mut [u8], Error> {
    let (file, position) = place(table, key);
    keys.open(SealKind::Value, file, position, sealed)
}
