//! `--json`: whether to print JSON, and where.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

/// The destination of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JsonTo {
    Nowhere,
    /// Standard output, which then carries nothing else.
    Output,
    /// A file; standard output carries text.
    File(PathBuf),
}

/// The flag of commands whose result is worth keeping, in place of the global one.
#[derive(Debug, Args)]
pub(crate) struct JsonFile {
    /// Print JSON; with FILE, which must end in .json, write it there and print text
    #[arg(
        id = "json",
        long,
        value_name = "FILE",
        num_args = 0..=1,
        default_missing_value = OUTPUT,
        value_parser = json_to(),
        help_heading = "Global options"
    )]
    pub(crate) to: Option<JsonTo>,
}

impl JsonFile {
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.to {
            Some(JsonTo::File(path)) => Some(path),
            _ => None,
        }
    }
}

/// The value that stands for `--json` without one.
pub(crate) const OUTPUT: &str = "-";
/// The value that stands for the absence of `--json`.
pub(crate) const NOWHERE: &str = "";

pub(crate) fn json_to() -> impl TypedValueParser<Value = JsonTo> {
    OsStringValueParser::new().try_map(|text: OsString| match text.to_str() {
        Some(NOWHERE) => Ok(JsonTo::Nowhere),
        Some(OUTPUT) => Ok(JsonTo::Output),
        // `--json data` is more likely to mean the data than a file to write to.
        _ => file_ending_in("json", &text).map(JsonTo::File),
    })
}

/// Returns the path of a file to write, if its name ends in `.{ending}`.
pub(crate) fn file_ending_in(ending: &str, text: &OsString) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending)) {
        true => Ok(path),
        false => Err(format!("expected the name of a file that ends in .{ending}")),
    }
}
