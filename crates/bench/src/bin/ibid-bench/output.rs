//! The destinations of results: standard output, a JSON file, a page.

use std::io::{self, ErrorKind};
use std::path::Path;

use ibid_terminal::json::{Item, VERSION};
use ibid_terminal::{FileError, Output};
use serde::Serialize;

use crate::args::{JsonFile, ReportFile};
use crate::failure::Result;

/// Standard output, as text or JSON.
pub(crate) struct Out {
    pub(crate) output: Output,
    pub(crate) json: bool,
}

/// The beginning of every document.
#[derive(Serialize)]
struct Document<'a, T> {
    version: u32,
    command: &'static str,
    #[serde(flatten)]
    body: &'a T,
}

impl<'a, T> Document<'a, T> {
    fn new(command: &'static str, body: &'a T) -> Document<'a, T> {
        Document {
            version: VERSION,
            command,
            body,
        }
    }
}

impl Out {
    pub(crate) fn new(json: bool) -> Out {
        Out {
            output: Output::new(),
            json,
        }
    }

    /// Prints a line of text.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        self.output.line(text)
    }

    /// Prints the one document of a command.
    pub(crate) fn document(&mut self, command: &'static str, body: &impl Serialize) -> io::Result<()> {
        self.output.json(&Document::new(command, body))
    }

    /// Prints the first line of a command that prints many objects.
    pub(crate) fn begin(&mut self, command: &'static str, body: &impl Serialize) -> io::Result<()> {
        self.item("begin", Document::new(command, body))
    }

    /// Prints an object of a command that prints many; the kind of the last is `end`.
    pub(crate) fn item(&mut self, kind: &'static str, body: impl Serialize) -> io::Result<()> {
        self.output.json(&Item { kind, body })
    }
}

/// The files that the user asked for.
#[derive(Clone, Copy)]
pub(crate) struct Files<'a> {
    pub(crate) json: &'a JsonFile,
    pub(crate) report: Option<&'a ReportFile>,
}

impl<'a> Files<'a> {
    /// Returns a JSON file alone, for commands without a page.
    pub(crate) fn json(json: &'a JsonFile) -> Files<'a> {
        Files { json, report: None }
    }

    fn report_path(&self) -> Option<&Path> {
        self.report.and_then(|report| report.report.as_deref())
    }

    /// Fails if a file can't be written, before minutes are spent on its contents.
    pub(crate) fn check_places(&self) -> Result<(), FileError> {
        let paths = [self.report_path(), self.json.path()];
        paths.into_iter().flatten().try_for_each(check_place)
    }

    /// Writes the files that the user asked for, and prints the results as JSON or, with `text`, as
    /// text.
    pub(crate) fn publish(
        &self,
        command: &'static str,
        document: &impl Serialize,
        page: impl FnOnce() -> String,
        text: impl FnOnce(&mut Out) -> io::Result<()>,
    ) -> Result<()> {
        if let Some(path) = self.report_path() {
            write(path, &page())?;
        }
        if let Some(path) = self.json.path() {
            let text = serde_json::to_string(&Document::new(command, document)).map_err(io::Error::from)?;
            write(path, &(text + "\n"))?;
        }
        let mut out = Out::new(self.json.is_printed());
        if out.json {
            out.document(command, document)?;
        } else {
            text(&mut out)?;
        }
        Ok(out.output.flush()?)
    }
}

fn check_place(path: &Path) -> Result<(), FileError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let error = |kind: ErrorKind| Err(FileError::new("write", path, kind.into()));
    match folder.unwrap_or(Path::new(".")).metadata() {
        _ if path.is_dir() => error(ErrorKind::IsADirectory),
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => error(ErrorKind::NotADirectory),
        Err(source) => Err(FileError::new("write", path, source)),
    }
}

fn write(path: &Path, text: &str) -> Result<(), FileError> {
    std::fs::write(path, text).map_err(|source| FileError::new("write", path, source))
}
