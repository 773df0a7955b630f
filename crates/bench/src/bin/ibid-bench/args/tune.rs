//! `ibid-bench tune`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ibid_chunk::{SeqCdcSettings, Settings, SettingsError};
use ibid_terminal::value::size_in_memory;

use super::files::JsonFile;
use super::value;

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  ibid-bench tune seqcdc --average 16KiB --data ~/dumps")]
pub(crate) enum TuneCommand {
    /// Find parameters of SeqCDC for an average size
    Seqcdc(TuneSeqcdcArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Averages are simulated on random bytes for several lengths of sequences (seq_length) and numbers of opposing pairs \
before a skip (skip_trigger). For each, the skip (skip_size) that gives the average is searched for. All candidates \
are then tried on the data. The best is the one that stores least, metadata included; of those within 1 % of it, the \
fastest. Data that is not random gives other averages, which are shown: a candidate far from the average you asked for \
is chosen only if all are.

Examples:
  ibid-bench tune seqcdc --average 16KiB
  ibid-bench tune seqcdc --average 16KiB --data ~/dumps
  ibid-bench tune seqcdc --average 8KiB --param equal=strict --param size_min=2KiB
  ibid-bench tune seqcdc --average 16KiB --json tuning.json")]
pub(crate) struct TuneSeqcdcArgs {
    /// Find parameters for this average size
    #[arg(long, value_name = "SIZE", value_parser = size_in_memory)]
    pub(crate) average: usize,
    /// Try candidates on this file, or on the files in this folder; can be repeated [default:
    /// edited versions of random bytes]
    #[arg(long, value_name = "PATH")]
    pub(crate) data: Vec<PathBuf>,
    /// Fix a parameter: size_min, size_max, mode or equal; can be repeated
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = value::parameter)]
    pub(crate) parameters: Vec<(String, String)>,
    /// Generate other random bytes with another number
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) seed: u64,
    /// Measure each speed N times
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Measure speeds on this much of the data, kept in memory
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size_in_memory)]
    pub(crate) sample: usize,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}

impl TuneSeqcdcArgs {
    /// Returns the usual settings with the given parameters.
    pub(crate) fn base(&self, usual: SeqCdcSettings) -> Result<SeqCdcSettings, SettingsError> {
        let fixed = self
            .parameters
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        match Settings::SeqCdc(usual).with_parameters(fixed)? {
            Settings::SeqCdc(base) => Ok(base),
            _ => Ok(usual),
        }
    }

    /// Returns a given parameter that the search has to find, if there is one.
    pub(crate) fn sought(&self) -> Option<&str> {
        let sought = ["seq_length", "skip_trigger", "skip_size", "size_average"];
        let names = self.parameters.iter().map(|(name, _)| name.as_str());
        names.into_iter().find(|name| sought.contains(name))
    }
}
