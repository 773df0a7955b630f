//! What to look for.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ibid_chunk::{SeqCdcSettings, Settings, SettingsError};
use ibid_terminal::value::size_in_memory;

use super::files::JsonFile;
use super::value;

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  ibid-bench tune seqcdc --average 16KiB --data ~/dumps")]
pub(crate) enum TuneCommand {
    /// Parameters of SeqCDC for an average size
    Seqcdc(TuneSeqcdcArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Averages are simulated on random bytes for several lengths of sequences (seq_length) and numbers of opposing pairs \
before a skip \
(skip_trigger); for each, the skip (skip_size) is sought that gives the average. All that give it are then tried on \
the data, and \
the one that stores least, metadata included, is best; of those within 1 % of it, the fastest. On data that is not \
random, averages \
differ: those that come out are shown, and what is far from the average asked for is best only if all are.

Examples:
  ibid-bench tune seqcdc --average 16KiB
  ibid-bench tune seqcdc --average 16KiB --data ~/dumps
  ibid-bench tune seqcdc --average 8KiB --param equal=strict --param size_min=2KiB
  ibid-bench tune seqcdc --average 16KiB --json tuning.json")]
pub(crate) struct TuneSeqcdcArgs {
    /// Average size of a chunk that is wanted
    #[arg(long, value_name = "SIZE", value_parser = size_in_memory)]
    pub(crate) average: usize,
    /// Files, and folders with files, to try candidates on; can be repeated [default: edited
    /// versions of random bytes]
    #[arg(long, value_name = "PATH")]
    pub(crate) data: Vec<PathBuf>,
    /// A parameter that is not looked for: size_min, size_max, mode, equal; can be repeated
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = value::parameter)]
    pub(crate) parameters: Vec<(String, String)>,
    /// Other numbers make other random bytes
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) seed: u64,
    /// How often each speed is measured
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// How much of the data is kept in memory to measure speeds on
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size_in_memory)]
    pub(crate) sample: usize,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}

impl TuneSeqcdcArgs {
    /// What is settled already.
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

    /// Parameters that were given, and are looked for.
    pub(crate) fn sought(&self) -> Option<&str> {
        let sought = ["seq_length", "skip_trigger", "skip_size", "size_average"];
        let names = self.parameters.iter().map(|(name, _)| name.as_str());
        names.into_iter().find(|name| sought.contains(name))
    }
}
