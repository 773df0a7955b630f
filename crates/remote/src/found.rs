//! What is under a name, after a put of which it is not known whether it was done.

use ibid_storage::{Error, ErrorKind, Name, Storage};

/// What is under a name.
pub(crate) enum Found {
    Nothing,
    These,
    Others,
}

/// Returns whether an object has these bytes.
pub(crate) fn compare(storage: &dyn Storage, name: &Name, parts: &[&[u8]]) -> Result<Found, Error> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    match storage.get(name, length as u64) {
        Ok(bytes) if bytes.len() == length => {
            let mut rest = &bytes[..];
            let same = parts.iter().all(|part| {
                let (these, others) = rest.split_at(part.len());
                rest = others;
                these == *part
            });
            Ok(if same { Found::These } else { Found::Others })
        }
        Ok(_) => Ok(Found::Others),
        Err(error) if error.kind() == ErrorKind::TooLarge => Ok(Found::Others),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Found::Nothing),
        Err(error) => Err(error),
    }
}
