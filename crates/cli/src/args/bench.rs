//! What to measure.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use ibid_bench::Trace;
use ibid_chunk::{Backend, Settings, SettingsError};

use super::json::{JsonFile, file_ending_in};
use super::value;
use super::{DuplicateLocalityArgs, LocalityArgs};

/// Stands for every chunker that there is.
const ALL: &str = "all";

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Everything is measured here and now: on a machine that does other things as well, figures differ from run to run.

Examples:
  ibid bench chunkers ~/backups/*.tar
  ibid bench cpu")]
pub(crate) enum BenchCommand {
    /// What each chunker saves on your files, and how fast it is
    Chunkers(ChunkersArgs),
    /// How duplicates lie together, as files are added
    DuplicateLocality(DuplicateLocalityArgs),
    /// What is gained by cutting where the next chunk ended last time
    Locality(LocalityArgs),
    /// What deltas between records save on your own, and what they cost
    Records(RecordsBenchArgs),
    /// Where SeqCDC's speed comes from: minimum size, skips, vectors
    Breakdown(BreakdownArgs),
    /// How evenly rolling hashes are spread, and how fast they roll
    Hashes(HashesArgs),
    /// What instructions cost on this CPU, and which vector instructions are used
    Cpu(CpuArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Each line is a JSON object, of which --key and --body take a record, as `ibid records load` does. The records are stored again and \
again, each time in another way: without deltas and with, compared by short pieces and by long ones; with less memory for the newest \
records; with hops and version jumping at several distances; searched more and less densely. Beside these it is counted what \
deduplication by chunks and compression of blocks would store. Then half of them are stored, and a mixture of reads and writes is \
timed; and they are stored in bursts with pauses between. Where a key comes again, it is another version; where none does, records are \
compared with whatever they are like.

Examples:
  ibid bench records revisions.jsonl.zst --key page --body text --report revisions.html
  ibid bench records audit.jsonl --key table,id --sample 1GB --trace 99:1 --json audit-bench.json
  ibid bench records audit.jsonl --key table,id --bursts 10 --busy 10s --idle 10s")]
pub(crate) struct RecordsBenchArgs {
    /// JSON Lines files, plain or compressed by zstd
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The field with the key; of several, their texts joined by slashes
    #[arg(long, value_name = "FIELD", value_delimiter = ',', default_value = "key", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) key: Vec<String>,
    /// The field with the body [default: the whole line]
    #[arg(long, value_name = "FIELD", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) body: Option<String>,
    /// How many bytes of records are taken, which are held in memory
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = value::size_in_memory)]
    pub(crate) sample: usize,
    /// Mixtures of reads and writes
    #[arg(
        long = "trace",
        value_name = "READS:WRITES",
        value_delimiter = ',',
        value_parser = value::trace,
        default_value = "99.9:0.1,1:1"
    )]
    pub(crate) traces: Vec<Trace>,
    /// How many bursts of writes; 0 for none
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub(crate) bursts: u32,
    /// How long a burst is
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = value::time_span)]
    pub(crate) busy: Duration,
    /// How long nothing is stored after a burst
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = value::time_span)]
    pub(crate) idle: Duration,
    /// Where stores lie meanwhile [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) work: Option<PathBuf>,
    /// Write a page with pictures, which needs nothing but a browser; its name has to end in .html
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(|text| file_ending_in("html", &text)))]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}

/// How speeds are measured.
#[derive(Debug, Args)]
pub(crate) struct Measured {
    /// With which vector instructions: scalar, sse41, avx2, avx512, neon [default: all that this
    /// machine has]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = backend)]
    pub(crate) backends: Vec<Backend>,
    /// How often each speed is measured
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "\
BARE looks for boundaries in every byte, BASE not before the minimum size, SEQ makes content-defined skips, too. VBASE-512 is BASE with \
vectors of 512 bits, and so on. The cuts of BASE and SEQ differ, and so do sizes of chunks.

Examples:
  ibid bench breakdown                 on random bytes
  ibid bench breakdown ~/dumps --average 16KiB --backends scalar,avx512
  ibid bench breakdown --sample 1GiB   too much for any cache")]
pub(crate) struct BreakdownArgs {
    /// Files, and folders with files [default: random bytes]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Average size of a chunk
    #[arg(long, value_name = "SIZE", default_value = "16KiB", value_parser = value::size_in_memory)]
    pub(crate) average: usize,
    #[command(flatten)]
    pub(crate) measured: Measured,
    /// How many bytes it is measured on, of the beginning of each file
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = value::size_in_memory)]
    pub(crate) sample: usize,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Speed is that of a chunker which looks at every hash and hardly ever finds one that fits.

Examples:
  ibid bench hashes
  ibid bench hashes --windows 10000000 --backends scalar
  ibid bench hashes --json hashes.json")]
pub(crate) struct HashesArgs {
    /// How many random windows are hashed to see how hashes are spread
    #[arg(long, value_name = "N", default_value = "1000000")]
    pub(crate) windows: u64,
    #[command(flatten)]
    pub(crate) measured: Measured,
    /// How many random bytes speed is measured on
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = value::size_in_memory)]
    pub(crate) sample: usize,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}

#[derive(Debug, Args)]
#[command(after_help = "\
popcnt, pdep and tzcnt are what SeqCDC's vector form leans on besides vectors; on some CPUs pdep is slow.

Examples:
  ibid bench cpu
  IBID_SIMD=avx2 ibid bench cpu        shows what is asked for, too
  ibid bench cpu --json")]
pub(crate) struct CpuArgs {
    /// How often the speed with each set of vector instructions is measured
    #[arg(long, value_name = "N", default_value = "9", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Savings are counted over all files, as if each were cut alone and every different chunk stored once. Speeds are measured on one \
thread and on bytes in memory: a sample of the files, in rounds; the table shows medians. Whoever has more than one of a kind \
(versions, dumps, images) should give all of them: what a chunker saves is what they have in common.

Files are read once, in pieces. Memory: the sample, and for each chunker and average at most 14 bytes for each different chunk (23 for \
moments) and three times the maximum chunk size.

Examples:
  ibid bench chunkers ~/dumps
  ibid bench chunkers v1.tar v2.tar --averages 16KiB,64KiB --report comparison.html
  ibid bench chunkers ~/dumps --algorithms all --averages 8KiB
  ibid bench chunkers ~/dumps --algorithms fastcdc,seqcdc --backends scalar,avx2
  ibid bench chunkers ~/dumps --json comparison.json        the tables here, JSON in a file
  ibid bench chunkers ~/dumps --json                        JSON here")]
pub(crate) struct ChunkersArgs {
    /// Files, and folders with files
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Which chunkers, by the names that `ibid chunk --algorithm` takes; `all` for every one
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(ibid_chunk::NAMES.into_iter().chain([ALL])),
        hide_possible_values = true,
        default_value = "fastcdc,seqcdc,argmin,ae,ram,maxp,tttd,fixed"
    )]
    pub(crate) algorithms: Vec<String>,
    /// Average sizes of chunks, for each of them
    #[arg(
        long,
        value_name = "SIZE",
        value_delimiter = ',',
        value_parser = value::size_in_memory,
        default_value = "4KiB,8KiB,16KiB,64KiB"
    )]
    pub(crate) averages: Vec<usize>,
    #[command(flatten)]
    pub(crate) measured: Measured,
    /// How much of the files is kept in memory to measure speeds on
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = value::size_in_memory)]
    pub(crate) sample: usize,
    /// Write a page with pictures, which needs nothing but a browser; its name has to end in .html
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(|text| file_ending_in("html", &text)))]
    pub(crate) report: Option<PathBuf>,
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

    /// Every chunker with every average, by average.
    pub(crate) fn contenders(&self) -> Result<Vec<Settings>, SettingsError> {
        let each = |average: &usize| {
            let average = *average;
            let names = self.algorithms();
            names.into_iter().map(move |name| Settings::for_average(name, average))
        };
        self.averages.iter().flat_map(each).collect()
    }
}

fn backend(text: &str) -> Result<Backend, String> {
    Backend::from_name(text).map_err(|error| error.to_string())
}
