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
Each line is a JSON object, of which --key and --body take a record, as `ibid records load` does. The records are \
stored again and \
again, each time in another way: without deltas and with, compared by short pieces and by long ones; with less memory \
for the newest \
records; with hops and version jumping at several distances; searched more and less densely. Beside these it is \
counted what \
deduplication by chunks and compression of blocks would store. Then half of them are stored, and a mixture of reads \
and writes is \
timed; and they are stored in bursts with pauses between. Where a key comes again, it is another version; where none \
does, records are \
compared with whatever they are like.

Examples:
  ibid-bench records revisions.jsonl.zst --key page --body text --report revisions.html
  ibid-bench records audit.jsonl --key table,id --sample 1GB --trace 99:1 --json audit-bench.json
  ibid-bench records audit.jsonl --key table,id --bursts 10 --busy 10s --idle 10s")]
pub(crate) struct RecordsArgs {
    /// JSON Lines files, plain or compressed by zstd
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The field with the key; of several, their texts joined by slashes
    #[arg(
        long,
        value_name = "FIELD",
        value_delimiter = ',',
        default_value = "key",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub(crate) key: Vec<String>,
    /// The field with the body [default: the whole line]
    #[arg(long, value_name = "FIELD", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) body: Option<String>,
    /// How many bytes of records are taken, which are held in memory
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size_in_memory)]
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
    /// Memory for reading lines: one may be an eighth of it long
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = size)]
    pub(crate) memory: u64,
    #[command(flatten)]
    pub(crate) report: ReportFile,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}
