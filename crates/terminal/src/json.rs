//! Parts of JSON documents that both programs print.

use std::fmt;

use serde::{Serialize, Serializer};

/// The version in every document. It increases when a field is removed or changes its meaning; new
/// fields may be added at any time.
pub const VERSION: u32 = 1;

/// A line of a stream, with its kind.
#[derive(Debug, Serialize)]
pub struct Item<T> {
    /// The kind, such as `begin`, `end`, `chunk`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The other fields.
    #[serde(flatten)]
    pub body: T,
}

/// A path as text, and as hexadecimal digits if it is not UTF-8.
#[derive(Debug, Serialize)]
pub struct JsonPath {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
}

impl JsonPath {
    /// Returns the fields of a path, given as bytes.
    pub fn new(bytes: &[u8]) -> JsonPath {
        let (path, path_bytes) = lossless(bytes);
        JsonPath { path, path_bytes }
    }
}

/// Returns bytes as text, and as hexadecimal digits if they are not UTF-8.
pub fn lossless(bytes: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), Some(hex(bytes))),
    }
}

/// Bytes as two hexadecimal digits each. Written without a text of the whole in memory.
#[derive(Clone, Copy, Debug)]
pub struct Hex<'b>(pub &'b [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        /// Bytes that are written at once.
        const AT_ONCE: usize = 128;
        for bytes in self.0.chunks(AT_ONCE) {
            let mut digits = [0; 2 * AT_ONCE];
            for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
                pair[0] = DIGITS[usize::from(byte >> 4)];
                pair[1] = DIGITS[usize::from(byte & 15)];
            }
            f.write_str(std::str::from_utf8(&digits[..2 * bytes.len()]).map_err(|_| fmt::Error)?)?;
        }
        Ok(())
    }
}

impl Serialize for Hex<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns two hexadecimal digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    Hex(bytes).to_string()
}

/// Returns the bytes that pairs of hexadecimal digits stand for; [`None`] if the text is something else.
pub fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}
