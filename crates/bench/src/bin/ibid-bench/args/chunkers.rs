//! `ibid-bench chunkers`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use ibid_chunk::{Backend, Settings, SettingsError};
use ibid_terminal::value::size_in_memory;

use super::files::{JsonFile, ReportFile};

/// The name for all chunkers.
const ALL: &str = "all";

/// How speeds are measured.
#[derive(Debug, Args)]
pub(crate) struct Measured {
    /// Use these vector instructions: scalar, sse41, avx2, avx512, neon [default: all that this
    /// machine has]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = backend)]
    backends: Vec<Backend>,
    /// Measure each speed N times
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Each file is cut alone, and every different chunk is stored once. Savings are counted over all files, so give all \
that belong together: versions, dumps, images. Speeds are measured on one thread, on a sample of the files in memory; \
the tables show medians of the rounds.

Files are read once, in pieces. Memory: the sample and, for each chunker and average, up to 14 bytes for each \
different chunk (23 for moments) and three times the maximum chunk size.

Examples:
  ibid-bench chunkers ~/dumps
  ibid-bench chunkers v1.tar v2.tar --averages 16KiB,64KiB --report comparison.html
  ibid-bench chunkers ~/dumps --algorithms all --averages 8KiB
  ibid-bench chunkers ~/dumps --algorithms fastcdc,seqcdc --backends scalar,avx2
  ibid-bench chunkers ~/dumps --json comparison.json        the tables here, JSON in a file
  ibid-bench chunkers ~/dumps --json                        JSON here")]
pub(crate) struct ChunkersArgs {
    /// Cut these files, and the files in these folders
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Compare these chunkers, by the names of `ibid-bench chunk --algorithm`; `all` for every one
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(ibid_chunk::NAMES.into_iter().chain([ALL])),
        hide_possible_values = true,
        default_value = "fastcdc,seqcdc,argmin,ae,ram,maxp,tttd,fixed"
    )]
    pub(crate) algorithms: Vec<String>,
    /// Compare each chunker at these average sizes
    #[arg(
        long,
        value_name = "SIZE",
        value_delimiter = ',',
        value_parser = size_in_memory,
        default_value = "4KiB,8KiB,16KiB,64KiB"
    )]
    pub(crate) averages: Vec<usize>,
    #[command(flatten)]
    pub(crate) measured: Measured,
    /// Measure speeds on this much of the files, kept in memory
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size_in_memory)]
    pub(crate) sample: usize,
    #[command(flatten)]
    pub(crate) report: ReportFile,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}

impl ChunkersArgs {
    fn algorithms(&self) -> Vec<&str> {
        match self.algorithms.iter().any(|name| name == ALL) {
            true => ibid_chunk::NAMES.to_vec(),
            false => self.algorithms.iter().map(String::as_str).collect(),
        }
    }

    /// Returns every chunker with every average, by average.
    pub(crate) fn contenders(&self) -> Result<Vec<Settings>, SettingsError> {
        let each = |average: &usize| {
            let average = *average;
            let names = self.algorithms();
            names.into_iter().map(move |name| Settings::for_average(name, average))
        };
        self.averages.iter().flat_map(each).collect()
    }
}

impl Measured {
    /// Returns the named chunkers, or all of them.
    pub(crate) fn backends(&self) -> Vec<Backend> {
        match &self.backends[..] {
            [] => Backend::available().collect(),
            named => named.to_vec(),
        }
    }
}

fn backend(text: &str) -> Result<Backend, String> {
    Backend::from_name(text).map_err(|error| error.to_string())
}
