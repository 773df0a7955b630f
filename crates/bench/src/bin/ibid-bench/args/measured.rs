//! `ibid-bench breakdown`, `ibid-bench hashes` and `ibid-bench cpu`.

use std::path::PathBuf;

use clap::Args;
use ibid_terminal::value::size_in_memory;

use super::chunkers::Measured;
use super::files::JsonFile;

#[derive(Debug, Args)]
#[command(after_help = "\
BARE looks for boundaries in every byte, BASE not before the minimum size, SEQ makes content-defined skips, too. \
VBASE-512 is BASE with \
vectors of 512 bits, and so on. The cuts of BASE and SEQ differ, and so do sizes of chunks.

Examples:
  ibid-bench breakdown                 on random bytes
  ibid-bench breakdown ~/dumps --average 16KiB --backends scalar,avx512
  ibid-bench breakdown --sample 1GiB   too much for any cache")]
pub(crate) struct BreakdownArgs {
    /// Files, and folders with files [default: random bytes]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Average size of a chunk
    #[arg(long, value_name = "SIZE", default_value = "16KiB", value_parser = size_in_memory)]
    pub(crate) average: usize,
    #[command(flatten)]
    pub(crate) measured: Measured,
    /// How many bytes it is measured on, of the beginning of each file
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size_in_memory)]
    pub(crate) sample: usize,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Speed is that of a chunker which looks at every hash and hardly ever finds one that fits.

Examples:
  ibid-bench hashes
  ibid-bench hashes --windows 10000000 --backends scalar
  ibid-bench hashes --json hashes.json")]
pub(crate) struct HashesArgs {
    /// How many random windows are hashed to see how hashes are spread
    #[arg(long, value_name = "N", default_value = "1000000")]
    pub(crate) windows: u64,
    #[command(flatten)]
    pub(crate) measured: Measured,
    /// How many random bytes speed is measured on
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = size_in_memory)]
    pub(crate) sample: usize,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}

#[derive(Debug, Args)]
#[command(after_help = "\
popcnt, pdep and tzcnt are what SeqCDC's vector form leans on besides vectors; on some CPUs pdep is slow.

Examples:
  ibid-bench cpu
  IBID_SIMD=avx2 ibid-bench cpu        shows what is asked for, too
  ibid-bench cpu --json")]
pub(crate) struct CpuArgs {
    /// How often the speed with each set of vector instructions is measured
    #[arg(long, value_name = "N", default_value = "9", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}
