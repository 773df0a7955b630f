//! `ibid-bench breakdown`, `ibid-bench hashes` and `ibid-bench cpu`.

use std::path::PathBuf;

use clap::Args;
use ibid_terminal::value::size_in_memory;

use super::chunkers::Measured;
use super::files::JsonFile;

#[derive(Debug, Args)]
#[command(after_help = "\
BARE searches every byte for boundaries, BASE starts at the minimum size, SEQ adds content-defined skips. VBASE-512 is \
BASE with vectors of 512 bits, and so on. BASE and SEQ cut at different places, so their chunk sizes differ.

Examples:
  ibid-bench breakdown                 on random bytes
  ibid-bench breakdown ~/dumps --average 16KiB --backends scalar,avx512
  ibid-bench breakdown --sample 1GiB   too much for any cache")]
pub(crate) struct BreakdownArgs {
    /// Read these files, and the files in these folders [default: random bytes]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Set the average size of chunks
    #[arg(long, value_name = "SIZE", default_value = "16KiB", value_parser = size_in_memory)]
    pub(crate) average: usize,
    #[command(flatten)]
    pub(crate) measured: Measured,
    /// Measure on this many bytes, from the beginning of each file
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size_in_memory)]
    pub(crate) sample: usize,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Speed is measured with a chunker that computes every hash and almost never finds one that fits.

Examples:
  ibid-bench hashes
  ibid-bench hashes --windows 10000000 --backends scalar
  ibid-bench hashes --json hashes.json")]
pub(crate) struct HashesArgs {
    /// Hash N random windows to see how hashes are spread
    #[arg(long, value_name = "N", default_value = "1000000")]
    pub(crate) windows: u64,
    #[command(flatten)]
    pub(crate) measured: Measured,
    /// Measure speed on this many random bytes
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = size_in_memory)]
    pub(crate) sample: usize,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}

#[derive(Debug, Args)]
#[command(after_help = "\
SeqCDC's vector form uses popcnt, pdep and tzcnt beside vectors; pdep is slow on some CPUs.

Examples:
  ibid-bench cpu
  IBID_SIMD=avx2 ibid-bench cpu        shows what the environment asks for, too
  ibid-bench cpu --json")]
pub(crate) struct CpuArgs {
    /// Measure the speed with each set of vector instructions N times
    #[arg(long, value_name = "N", default_value = "9", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}
