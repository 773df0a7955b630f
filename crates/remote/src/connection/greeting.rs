//! What each side says first.

use std::io::{self, BufReader, Read};

use super::frame::{fill, put_name};

pub(super) const MAGIC: &[u8; 7] = b"ibidcon";
pub(super) const VERSION: u8 = 1;
/// The program, as greetings name it.
pub(super) const PROGRAM: &str = concat!("ibid ", env!("CARGO_PKG_VERSION"));

/// Returns the greeting of this program.
pub(super) fn greeting() -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.push(VERSION);
    put_name(&mut bytes, PROGRAM);
    bytes
}

/// Why there is no greeting that this program understands.
#[derive(Debug)]
pub(super) enum NoGreeting {
    Io(io::Error),
    /// The stream ended before a greeting had come.
    Nothing,
    /// Something else came, of which this is the beginning.
    Noise(String),
    Version {
        found: u8,
        program: String,
    },
}

impl From<io::Error> for NoGreeting {
    fn from(error: io::Error) -> NoGreeting {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => NoGreeting::Nothing,
            _ => NoGreeting::Io(error),
        }
    }
}

/// Reads the greeting of the other side; returns what it says of its program.
pub(super) fn read_greeting<R: Read>(reader: &mut BufReader<R>) -> Result<String, NoGreeting> {
    let mut found = Vec::new();
    while found.len() < MAGIC.len() {
        let mut byte = [0];
        match fill(reader, &mut byte)? {
            true => found.push(byte[0]),
            // What came is the beginning of a greeting.
            false => return Err(NoGreeting::Nothing),
        }
        if !MAGIC.starts_with(&found) {
            // What has come together with it says more than its first letter, and nothing is waited for.
            found.extend_from_slice(reader.buffer());
            return Err(NoGreeting::Noise(shown(&found)));
        }
    }
    let mut rest = [0; 2];
    reader.read_exact(&mut rest)?;
    let [version, length] = rest;
    let mut program = vec![0; usize::from(length)];
    reader.read_exact(&mut program)?;
    let program = shown(&program);
    match version {
        VERSION => Ok(program),
        found => Err(NoGreeting::Version { found, program }),
    }
}

/// Returns the first line of what another program has sent, without what terminals obey.
pub(super) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.next().unwrap_or_default();
    plain(line).chars().take(200).collect()
}

/// Returns a text of the other side without what terminals obey.
pub(super) fn plain(text: &str) -> String {
    text.chars().filter(|found| !found.is_control()).collect()
}
