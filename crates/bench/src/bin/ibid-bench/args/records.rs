//! `ibid-bench records`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use ibid_bench::Trace;
use ibid_terminal::value::{size, size_in_memory};

use super::files::{JsonFile, ReportFile};
use super::value;

#[derive(Debug, Args)]
#[command(after_help = "\
Each line is a JSON object; --key and --body name the fields of a record, as in `ibid records load`. The records are \
stored again and again, each time in another way: without deltas and with them, compared by short and by long pieces, \
with less memory for the newest records, with hops and version jumping at several distances, and searched more or less \
densely. Deduplication by chunks and compression of blocks are counted beside them. Then half of the records are \
stored, a mixture of reads and writes is timed, and the rest is stored in bursts with pauses between them.

A key that comes again is another version. If no key does, each record is compared with whatever resembles it.

Examples:
  ibid-bench records revisions.jsonl.zst --key page --body text --report revisions.html
  ibid-bench records audit.jsonl --key table,id --sample 1GB --trace 99:1 --json audit-bench.json
  ibid-bench records audit.jsonl --key table,id --bursts 10 --busy 10s --idle 10s")]
pub(crate) struct RecordsArgs {
    /// Read these JSON Lines files, plain or compressed by zstd
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Take the key from this field; several are joined by slashes
    #[arg(
        long,
        value_name = "FIELD",
        value_delimiter = ',',
        default_value = "key",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub(crate) key: Vec<String>,
    /// Take the body from this field [default: the whole line]
    #[arg(long, value_name = "FIELD", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) body: Option<String>,
    /// Take this many bytes of records, which are held in memory
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size_in_memory)]
    pub(crate) sample: usize,
    /// Time these mixtures of reads and writes
    #[arg(
        long = "trace",
        value_name = "READS:WRITES",
        value_delimiter = ',',
        value_parser = value::trace,
        default_value = "99.9:0.1,1:1"
    )]
    pub(crate) traces: Vec<Trace>,
    /// Write in N bursts; 0 for none
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub(crate) bursts: u32,
    /// Set the length of a burst
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = value::time_span)]
    pub(crate) busy: Duration,
    /// Set the length of the pause after a burst
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = value::time_span)]
    pub(crate) idle: Duration,
    /// Keep stores in this folder meanwhile [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) work: Option<PathBuf>,
    /// Limit the memory for reading: a line may take an eighth of it
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = size)]
    pub(crate) memory: u64,
    #[command(flatten)]
    pub(crate) report: ReportFile,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}
