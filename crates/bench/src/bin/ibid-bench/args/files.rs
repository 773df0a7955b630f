//! The options for output files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

/// The destination of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
enum JsonTo {
    /// Standard output, which then carries nothing else.
    Output,
    /// A file; standard output carries text.
    File(PathBuf),
}

/// `--json`, with or without a file.
#[derive(Debug, Args)]
pub(crate) struct JsonFile {
    /// Print JSON, as docs/measuring.md describes it; with a FILE, which must end in .json, write
    /// JSON there and print text
    #[arg(
        long = "json",
        value_name = "FILE",
        num_args = 0..=1,
        default_missing_value = OUTPUT,
        value_parser = json_to()
    )]
    to: Option<JsonTo>,
}

impl JsonFile {
    /// The file, if there is to be one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.to {
            Some(JsonTo::File(path)) => Some(path),
            _ => None,
        }
    }

    /// Whether JSON goes to standard output.
    pub(crate) fn is_printed(&self) -> bool {
        self.to == Some(JsonTo::Output)
    }
}

/// The value of `--json` without a file.
const OUTPUT: &str = "-";

fn json_to() -> impl TypedValueParser<Value = JsonTo> {
    OsStringValueParser::new().try_map(|text: OsString| match text.to_str() {
        Some(OUTPUT) => Ok(JsonTo::Output),
        // `--json data` is more likely to mean the data than a file to write to.
        _ => file_ending_in("json", &text).map(JsonTo::File),
    })
}

/// `--report`.
#[derive(Debug, Args)]
pub(crate) struct ReportFile {
    /// Write a page with charts, which needs nothing but a browser; its name must end in .html
    #[arg(long, value_name = "FILE", value_parser = html_file())]
    pub(crate) report: Option<PathBuf>,
}

fn html_file() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|text| file_ending_in("html", &text))
}

/// Returns the path of an output file, whose name must have this ending.
fn file_ending_in(ending: &str, text: &OsString) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending)) {
        true => Ok(path),
        false => Err(format!("expected the name of a file that ends in .{ending}")),
    }
}
