//! `ibid-bench duplicate-locality` and `ibid-bench locality`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use ibid_bench::{ChunkSizes, LocalityData, Series};
use ibid_chunk::locality::Criterion;
use ibid_chunk::{Settings, SettingsError};
use ibid_terminal::value::{share, size};

use super::files::{JsonFile, ReportFile};
use super::generate::KindName;
use super::value;

/// A chunker by the three sizes that papers state.
#[derive(Debug, Args)]
pub(crate) struct SizedChunkerArgs {
    /// Cut with this chunker, by the names of `ibid-bench chunk --algorithm`
    #[arg(
        long,
        value_name = "NAME",
        value_parser = PossibleValuesParser::new(ibid_chunk::NAMES),
        hide_possible_values = true,
        default_value = "rabin"
    )]
    pub(crate) chunker: String,
    /// Cut chunks of this minimum, average and maximum size; fixed, ae, ram and maxp go by the average
    /// alone
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
Files are cut one after the other, as a series of backups would: those that you name in your order, those in folders \
by name, v2 before v10. A chunk is a duplicate if the same bytes were a chunk before. Of several duplicates in a row, \
those after the first are an LQ sequence (RapidCDC §2): once the first is found, the others can be expected. An \
isolated duplicate has no duplicate beside it.

Files are read once, in pieces. Memory: 4 MiB, three times the maximum chunk size, and up to 14 bytes for each \
different chunk (23 for moments).

Examples:
  ibid-bench duplicate-locality ~/dumps
  ibid-bench duplicate-locality v1.tar v2.tar v3.tar --report locality.html
  ibid-bench duplicate-locality ~/dumps --chunker fastcdc --sizes 2KiB,16KiB,64KiB --checkpoints 5
  ibid-bench duplicate-locality ~/dumps --json locality.json   the tables here, JSON in a file")]
pub(crate) struct DuplicateLocalityArgs {
    /// Read these files, and the files in these folders
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) chunker: SizedChunkerArgs,
    /// Count N times, evenly spaced over the files
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) checkpoints: u32,
    #[command(flatten)]
    pub(crate) report: ReportFile,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}

#[derive(Debug, Args)]
#[command(after_help = "\
When a chunk is a duplicate, the chunk that followed it last time says where the next one probably ends (RapidCDC). \
So the lengths of the chunks that followed are kept with every chunk: its hints. A criterion says when a hint is \
accepted without looking at the bytes before:

  ff           always. Fastest; after an edit it cuts where the chunker would not, so a little more is stored.
  ff+mt        if the byte there is the one that ended the chunk last time. Wrong once in 256 times where data changed.
  ff+rwt       if the chunker's own condition holds there: the hash of its window, its sequence, ….
  ff+rwt+fpt   if that holds and the chunk is known. Cuts are then exactly those of the chunker alone.

If no hint is accepted, the chunker searches for a boundary as usual. argmin, ae, tttd and others that keep a boundary \
in reserve compare all bytes of a chunk and cannot judge a single place: with them there are only ff and ff+mt, and \
the tables have a dash for the others.

Plain is the chunker without hints. Chunking is the time to find boundaries, with all that hints cost; naming chunks \
(BLAKE3) and looking them up come on top. All contenders cut the same bytes in memory, piece by piece in turn, on one \
thread, and only its processor time counts: compare figures of one run.

Memory: 64 MiB and, for each chunker, criterion and length of lists, up to 23 bytes for each different chunk and 6 to \
8 for each hint. A synthetic series takes two versions, with --threads all of them.

Examples:
  ibid-bench locality ~/dumps                          what rabin gains on your data
  ibid-bench locality ~/dumps --chunkers rabin,gear,fastcdc,argmin --report hints.html
  ibid-bench locality --synthetic                      the series of the paper: 25 GB, some minutes
  ibid-bench locality --synthetic --size 50MB --edits 100 --spread 10%,50%,100%
  ibid-bench locality ~/dumps --sizes 4KiB,8KiB,12KiB --sizes 2KiB,16KiB,64KiB --list-length 1,2,4,8
  ibid-bench locality ~/dumps --criteria ff,ff+mt --worst --threads 4 --store /mnt/disk --json hints.json")]
pub(crate) struct LocalityArgs {
    /// Read these files, and the files in these folders: versions of the same, one after the other
    #[arg(
        value_name = "PATH",
        required_unless_present = "synthetic",
        conflicts_with = "synthetic"
    )]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) synthetic: SyntheticArgs,
    /// Cut with these chunkers, by the names of `ibid-bench chunk --algorithm`
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(ibid_chunk::NAMES),
        hide_possible_values = true,
        default_value = "rabin"
    )]
    pub(crate) chunkers: Vec<String>,
    /// Cut chunks of this minimum, average and maximum size; can be repeated. fixed, ae, ram and maxp go by
    /// the average alone
    #[arg(long, value_name = "MIN,AVERAGE,MAX", value_parser = value::chunk_sizes, default_value = "4KiB,8KiB,12KiB")]
    pub(crate) sizes: Vec<ChunkSizes>,
    /// Accept hints by these criteria: ff, ff+mt, ff+rwt, ff+rwt+fpt [default: each that the chunker can
    /// meet]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = value::criterion)]
    pub(crate) criteria: Vec<Criterion>,
    /// Keep N hints of each chunk, 1 to 8; --threads and --store use the first number
    #[arg(
        long = "list-length",
        value_name = "N",
        value_delimiter = ',',
        default_value = "2",
        value_parser = value::list_length
    )]
    pub(crate) lists: Vec<usize>,
    /// Measure also what it costs if every hint is refused after its test
    #[arg(long)]
    pub(crate) worst: bool,
    /// Cut several files at once with 1, 2, 4, … N threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Deduplicate into a file in this folder, which leaves nothing behind: with fixed sizes,
    /// plain, with each criterion, and with all boundaries known beforehand
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) report: ReportFile,
    #[command(flatten)]
    pub(crate) json: JsonFile,
}

/// Series of versions, made in memory.
#[derive(Debug, Args)]
#[command(next_help_heading = "Synthetic series")]
pub(crate) struct SyntheticArgs {
    /// Make versions of random bytes instead of reading files, as `ibid-bench generate versions` makes
    /// them
    #[arg(long)]
    pub(crate) synthetic: bool,
    /// Set the size of the first version
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = size,
        default_value = "500MB",
        requires = "synthetic",
        conflicts_with = "paths"
    )]
    size: u64,
    /// Generate N versions
    #[arg(
        long,
        value_name = "N",
        default_value = "10",
        requires = "synthetic",
        conflicts_with = "paths"
    )]
    versions: u32,
    /// Make N edits between a version and the next; a series for each number
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "1000,2000,5000,10000,20000",
        requires = "synthetic",
        conflicts_with = "paths"
    )]
    edits: Vec<u64>,
    /// Make edits of these kinds, each as likely as the others
    #[arg(
        long = "kind",
        value_name = "KIND",
        value_enum,
        value_delimiter = ',',
        default_value = "insert,delete",
        requires = "synthetic",
        conflicts_with = "paths"
    )]
    kinds: Vec<KindName>,
    /// Insert, delete or overwrite this many bytes with each edit
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = size,
        default_value = "100",
        requires = "synthetic",
        conflicts_with = "paths"
    )]
    edit_bytes: u64,
    /// Make all edits within this share of a file, from its start; a series for each
    #[arg(
        long,
        value_name = "SHARE",
        value_delimiter = ',',
        value_parser = share,
        default_value = "100%",
        requires = "synthetic", conflicts_with = "paths"
    )]
    spread: Vec<f64>,
    /// Generate other bytes and edits with another number
    #[arg(
        long,
        value_name = "NUMBER",
        default_value = "1",
        requires = "synthetic",
        conflicts_with = "paths"
    )]
    seed: u64,
}

impl LocalityArgs {
    /// Returns the data to cut: the files, or a series for each number of edits and each spread.
    pub(crate) fn data(&self) -> Vec<LocalityData> {
        let given = &self.synthetic;
        if !given.synthetic {
            return vec![LocalityData::Files(self.paths.clone())];
        }
        let series = |edits: u64, spread: f64| {
            LocalityData::Series(Series {
                size: given.size,
                versions: given.versions,
                edits,
                edit_bytes: given.edit_bytes,
                kinds: given.kinds.iter().map(|kind| (*kind).into()).collect(),
                spread,
                seed: given.seed,
            })
        };
        let with_edits = |edits: &u64| {
            let edits = *edits;
            given.spread.iter().map(move |spread| series(edits, *spread))
        };
        given.edits.iter().flat_map(with_edits).collect()
    }

    /// Returns every chunker with all sizes.
    pub(crate) fn contenders(&self) -> Result<Vec<Settings>, SettingsError> {
        let each = |name: &String| self.sizes.iter().map(|sizes| sizes.settings(name)).collect::<Vec<_>>();
        self.chunkers.iter().flat_map(each).collect()
    }

    /// 1, 2, 4 and so on up to the number given, which comes last.
    pub(crate) fn thread_counts(&self) -> Vec<usize> {
        let Some(most) = self.threads else {
            return Vec::new();
        };
        let doublings = (0..32).map(|exponent| 1 << exponent).take_while(|count| *count < most);
        doublings.chain([most]).map(|count| count as usize).collect()
    }
}
