//! What targets of small sealed files have in common: the plaintext is the length of the values, the values, and
//! zeros to a Padmé size.

use std::fmt::Debug;

use ibid_format::{Error, FileId, Keys, MasterKey, padme};

#[path = "memory.rs"]
mod memory;

/// A type of file: how its plaintext is decoded, and how it is written and opened.
pub struct Kind<T> {
    pub decode: fn(&[u8]) -> Result<T, Error>,
    pub encode: fn(&T, &Keys) -> Result<Vec<u8>, Error>,
    pub open: fn(&Keys, &mut [u8]) -> Result<T, Error>,
    /// What decoding a byte may take.
    pub memory_per_byte: usize,
}

/// Decodes these values within the memory, and holds what is accepted against what is written of it: there is one
/// way to write it.
pub fn check<T: PartialEq + Debug>(values: &[u8], kind: &Kind<T>) {
    // Length and padding are supplied, or no input would get past them.
    let mut plaintext = (values.len() as u32).to_le_bytes().to_vec();
    plaintext.extend_from_slice(values);
    let size = padme::padded(plaintext.len() as u64 + 48) as usize;
    plaintext.resize(size - 48, 0);
    let most = 4096 + kind.memory_per_byte * values.len();
    let Ok(value) = memory::within(most, || (kind.decode)(&plaintext)) else {
        return;
    };
    let keys = Keys::unencrypted(FileId([1; 16]), &MasterKey::from_bytes([0; 32]));
    let mut file = (kind.encode)(&value, &keys).expect("an encoder refuses only what a decoder refuses");
    assert_eq!(file[8..file.len() - 40], plaintext, "there is one way to write it");
    assert_eq!((kind.open)(&keys, &mut file), Ok(value));
}
