//! What to measure of duplicates that lie together.

use super::json::{JsonFile, file_ending_in};
use super::value;
use clap::Args;
use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use ibid_chunk::{Settings, SettingsError};
use ibid_measure::ChunkSizes;
use std::path::PathBuf;

/// A chunker by the three sizes that papers state.
#[derive(Debug, Args)]
pub(crate) struct SizedChunkerArgs {
    /// Which chunker, by the names that `ibid chunk --algorithm` takes
    #[arg(
        long,
        value_name = "NAME",
        value_parser = PossibleValuesParser::new(ibid_chunk::NAMES),
        hide_possible_values = true,
        default_value = "rabin"
    )]
    pub(crate) chunker: String,
    /// Minimum, average and maximum size of a chunk; fixed, ae, ram and maxp go by the average alone
    #[arg(long, value_name = "MIN,AVERAGE,MAX", value_parser = value::chunk_sizes, default_value = "4KiB,8KiB,12KiB")]
    pub(crate) sizes: ChunkSizes,
}

impl SizedChunkerArgs {
    pub(crate) fn settings(&self) -> Result<Settings, SettingsError> {
        self.sizes.settings(&self.chunker)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Files are cut one after the other, as if they were backed up in turn: first those named, in that order; in folders by name, v2 before v10. \
A chunk is a duplicate if the same bytes were a chunk before. Of several duplicates in a row, those after the first are an LQ sequence \
(RapidCDC, section 2): where the first one is found, the others can be expected. An isolated duplicate has none.

Files are read once, in pieces. Memory: 4 MiB, three times the maximum chunk size, and at most 14 bytes for each different chunk (23 for \
moments).

Examples:
  ibid bench duplicate-locality ~/dumps
  ibid bench duplicate-locality v1.tar v2.tar v3.tar --report locality.html
  ibid bench duplicate-locality ~/dumps --chunker fastcdc --sizes 2KiB,16KiB,64KiB --checkpoints 5
  ibid bench duplicate-locality ~/dumps --json locality.json   the tables here, JSON in a file")]
pub(crate) struct DuplicateLocalityArgs {
    /// Files, and folders with files
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) chunker: SizedChunkerArgs,
    /// How often it is counted, evenly spaced over the files
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) checkpoints: u32,
    /// Write a page with pictures, which needs nothing but a browser; its name has to end in .html
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(|text| file_ending_in("html", &text)))]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}
