//! `ibid-bench chunk`, and the options of a chunker.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use ibid_chunk::{Settings, SettingsError};
use ibid_terminal::value::size_in_memory;

use super::value;

#[derive(Debug, Args)]
#[command(after_help = "\
Prints the offset, the length and the fingerprint of each chunk: BLAKE3 of its bytes, as `b3sum` prints it.

Examples:
  ibid-bench chunk disk.img                              as new repositories cut it
  ibid-bench chunk disk.img --algorithm seqcdc --average 16KiB
  ibid-bench chunk disk.img --algorithm seqcdc --param equal=strict --param seq_length=6
  tar c ~/letters | ibid-bench chunk - | sort -k3 | uniq -c -f2 -d     chunks that occur more than once
  ibid-bench chunk disk.img --json                       one JSON object a line")]
pub(crate) struct ChunkArgs {
    /// Cut this file, or standard input if it is -
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) chunker: ChunkerArgs,
    /// Print JSON, as docs/measuring.md describes it
    #[arg(long)]
    pub(crate) json: bool,
}

/// A chunker with its parameters.
#[derive(Debug, Args)]
pub(crate) struct ChunkerArgs {
    /// Cut with this chunker: fastcdc, seqcdc, argmin, ae, ram, maxp, gear, rabin, crc32, tttd, fixed, and
    /// many more in docs/measuring.md
    #[arg(
        long,
        value_name = "NAME",
        value_parser = PossibleValuesParser::new(ibid_chunk::NAMES),
        hide_possible_values = true,
        default_value = "argmin"
    )]
    pub(crate) algorithm: String,
    /// Set the average size of chunks; the other parameters follow from it
    #[arg(long, value_name = "SIZE", value_parser = size_in_memory, default_value = "128KiB")]
    pub(crate) average: usize,
    /// Set the minimum size of chunks: same as --param size_min=SIZE
    #[arg(long, value_name = "SIZE", value_parser = size_in_memory)]
    pub(crate) min: Option<usize>,
    /// Set the maximum size of chunks: same as --param size_max=SIZE
    #[arg(long, value_name = "SIZE", value_parser = size_in_memory)]
    pub(crate) max: Option<usize>,
    /// Set a parameter of the chunker; can be repeated. A wrong NAME lists the names
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = value::parameter)]
    pub(crate) parameters: Vec<(String, String)>,
}

impl ChunkerArgs {
    /// Returns the settings of the chunker.
    pub(crate) fn settings(&self) -> Result<Settings, SettingsError> {
        let limit = |name, size: Option<usize>| size.map(|size| (name, size.to_string()));
        let limits = [limit("size_min", self.min), limit("size_max", self.max)];
        let limits = limits.iter().flatten().map(|(name, value)| (*name, value.as_str()));
        let parameters = self
            .parameters
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        Settings::for_average(&self.algorithm, self.average)?.with_parameters(limits.chain(parameters))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Cli, Command};

    #[test]
    fn without_options_it_cuts_as_new_repositories_do() {
        let cli = Cli::try_parse_from(["ibid-bench", "chunk", "FILE"]).unwrap();
        let Command::Chunk(args) = cli.command else {
            panic!("{cli:?}")
        };
        let repository = ibid_repo::InitOptions::default().chunker;
        assert_eq!(args.chunker.settings().unwrap(), repository);
    }
}
