//! Errors about files, and the text of errors with their causes.

use std::error::Error;
use std::fmt::{Display, Formatter};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::path_text;

/// A failed operation on a file.
#[derive(Debug)]
pub struct FileError {
    /// The operation, as in "cannot *read* FILE".
    pub action: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The cause.
    pub source: io::Error,
}

impl FileError {
    /// Returns an error of `action` on `path`.
    pub fn new(action: &'static str, path: impl AsRef<Path>, source: io::Error) -> FileError {
        FileError {
            action,
            path: path.as_ref().to_owned(),
            source,
        }
    }
}

impl Display for FileError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "cannot {} {}: {}",
            self.action,
            path_text(&self.path),
            reason(&self.source)
        )
    }
}

impl Error for FileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// Returns an error's text followed by its causes, each fact once. Leaves out the causes of an
/// error for which `names_its_cause` holds.
pub fn with_causes(error: &(dyn Error + 'static), names_its_cause: impl Fn(&(dyn Error + 'static)) -> bool) -> String {
    let mut text = error.to_string();
    let mut next = Some(error);
    while let Some(error) = next {
        if names_its_cause(error) {
            break;
        }
        let Some(cause) = error.source() else { break };
        let said = cause.to_string();
        let wanted = system_error(cause).map_or_else(|| said.clone(), reason);
        if text.contains(&said) {
            text = text.replace(&said, &wanted);
        } else if !text.contains(&wanted) {
            text.push_str(": ");
            text.push_str(&wanted);
        }
        next = Some(cause);
    }
    text
}

fn system_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e io::Error> {
    error
        .downcast_ref()
        .or_else(|| error.downcast_ref::<Arc<io::Error>>().map(Arc::as_ref))
}

/// Returns the operating system's message in lower case, without the error number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let Some(number) = error.raw_os_error() else {
        return text;
    };
    let text = text.strip_suffix(&format!(" (os error {number})")).unwrap_or(&text);
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if letters.as_str().starts_with(char::is_lowercase) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let error = FileError::new("read", "a\nb", io::Error::other("no disk"));
        assert_eq!(with_causes(&error, |_| false), "cannot read a\\nb: no disk");
    }
}
