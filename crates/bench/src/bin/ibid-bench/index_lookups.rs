//! Lookups in an index of as many chunks as a repository of 100 TB has: runs of the real format, written
//! and read by the real code, of chunks that exist nowhere else.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ibid_bench::Random;
use ibid_repo::scale::{OpenIndex, SyntheticIndex};
use ibid_repo::{ChunkId, InitOptions, MemoryStorage, Repository};
use ibid_terminal::value::size;

use crate::args::count;
use crate::listed_packs::ListedPacks;
use crate::record::{IndexLookups, LookupResult, Outcome, Record};
use crate::report;

/// Most chunks: 2^40, as many as a run can have.
const CHUNKS_MAX: u64 = 1 << 40;
/// Of this many chunks that are found, the place of one is compared with where it must be.
const COMPARED: u64 = 16;

#[derive(Debug, Args)]
#[command(after_help = "\
The chunks have 128 KiB each and lie in packs of 16 MiB: 800M are 105 TB in 6.25 million packs. Their run takes 18 \
bytes a chunk in the folder of --work. Before each measurement, the kernel is asked to drop it from its page cache. \
The list of packs in the storage is generated: what a storage takes to list so many files is not measured.

Examples:
  ibid-bench index --chunks 1M --lookups 10k
  ibid-bench index --chunks 800M --memory 512MiB --lookups 1M --threads 1,16 --json run.json")]
pub(crate) struct Options {
    /// Make an index of N chunks
    #[arg(long, value_name = "N", default_value = "10M", value_parser = chunks)]
    chunks: u64,
    /// Set the memory budget of the repository
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = size)]
    memory: u64,
    /// Look up N chunks in each measurement
    #[arg(long, value_name = "N", default_value = "100k", value_parser = count)]
    lookups: u64,
    /// Look them up with so many threads
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_values_t = [1, 16],
        value_parser = clap::value_parser!(u32).range(1..=1024)
    )]
    threads: Vec<u32>,
    /// Keep the index in this folder meanwhile [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Write the results into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn chunks(text: &str) -> Result<u64, String> {
    match count(text)? {
        count @ 1..=CHUNKS_MAX => Ok(count),
        _ => Err(format!(
            "expected a number of chunks from 1 to {CHUNKS_MAX}, found {text:?}"
        )),
    }
}

/// Runs the experiment.
pub(crate) fn run(options: &Options, quiet: bool) -> Result<()> {
    let mut record = Record::begin("index", Outcome::IndexLookups(measure(options, quiet)?));
    record.save(options.json.as_deref())?;
    report::show(&report::markdown(&record));
    Ok(())
}

fn measure(options: &Options, quiet: bool) -> Result<IndexLookups> {
    let work = options.work.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new().prefix("ibid-bench-").tempdir_in(work)?;
    let index = SyntheticIndex { chunks: options.chunks };
    let (memory, password) = (Arc::new(MemoryStorage::new()), Some(&b"a good password"[..]));
    Repository::init(memory.clone(), password, &InitOptions::default())?;
    let storage = ListedPacks::new(memory, move |each| {
        (0..index.packs()).map(|number| index.pack(number)).for_each(each);
    });
    let repository = Repository::open(Arc::new(storage), password)?
        .with_cache(folder.path())
        .with_memory(options.memory)?;
    let started = Instant::now();
    let file = index.write(&repository, |written| {
        if !quiet && written > 0 && written % (64 << 20) == 0 {
            let seconds = started.elapsed().as_secs_f64();
            report::note(&format!("{written} of {} entries after {seconds:.0} s", options.chunks));
        }
    })?;
    let write_s = started.elapsed().as_secs_f64();
    drop_from_page_cache(&file)?;
    // The peak of writing is not of interest. Where it can't be forgotten, it counts too.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let started = Instant::now();
    let opened = OpenIndex::load(&repository)?;
    let open_s = started.elapsed().as_secs_f64();
    let mut results = Vec::new();
    for &threads in &options.threads {
        for (seed, what) in (1..).zip([What::Absent, What::Known, What::Place]) {
            drop_from_page_cache(&file)?;
            results.push(look_up(&opened, index, what, options.lookups, threads, seed)?);
        }
    }
    Ok(IndexLookups {
        chunks: options.chunks,
        packs: index.packs(),
        memory: options.memory,
        run_bytes: std::fs::metadata(&file)?.len(),
        write_s,
        open_s,
        index_memory_bytes: opened.memory(),
        peak_bytes: proc_value("/proc/self/status", "VmHWM:").context("reading the peak of memory")? << 10,
        results,
    })
}

/// Writes what of a file is only in memory, and asks the kernel to forget its pages.
fn drop_from_page_cache(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).context("dropping pages of the index")
}

/// What is looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// Whether a chunk is known that is not.
    Absent,
    /// Whether a chunk is known that is.
    Known,
    /// The place of a chunk that is known.
    Place,
}

fn look_up(
    opened: &OpenIndex,
    index: SyntheticIndex,
    what: What,
    lookups: u64,
    threads: u32,
    seed: u64,
) -> Result<LookupResult> {
    let of_thread = |thread: u32| {
        let mut random = Random::stream(seed, thread.into());
        let count =
            lookups * (u64::from(thread) + 1) / u64::from(threads) - lookups * u64::from(thread) / u64::from(threads);
        for n in 0..count {
            let number = random.below(index.chunks);
            let id = index.id(number);
            let is_right = match what {
                What::Absent => {
                    let mut id = [0; 32];
                    random.fill(&mut id);
                    !opened.contains(&ChunkId(id))
                }
                What::Known => opened.contains(&id),
                What::Place => opened
                    .get(&id)
                    .is_some_and(|found| n % COMPARED != 0 || opened.ordinal(found) == index.ordinal(number)),
            };
            ensure!(is_right, "the lookup of chunk {number} came out wrong");
        }
        Ok(())
    };
    let (pages, disk) = (opened.pages_read(), bytes_read());
    let started = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        let of_thread = &of_thread;
        let running: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || of_thread(thread)))
            .collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().expect("lookups do not panic"))
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let each = |total: u64| total as f64 / lookups as f64;
    Ok(LookupResult {
        what: match what {
            What::Absent => "is it known? it is not",
            What::Known => "is it known? it is",
            What::Place => "where is it?",
        }
        .to_owned(),
        threads,
        lookups,
        seconds,
        pages_each: each(opened.pages_read() - pages),
        disk_bytes_each: disk.zip(bytes_read()).map(|(before, after)| each(after - before)),
    })
}

/// Returns how many bytes this process has read from disks; none if the kernel does not say.
fn bytes_read() -> Option<u64> {
    proc_value("/proc/self/io", "read_bytes:")
}

/// Returns the number after a name in a file of the kernel.
fn proc_value(path: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_is_found_where_it_is_and_no_other() {
        let options = Options {
            chunks: 300_001,
            memory: 128 << 20,
            lookups: 5000,
            threads: vec![1, 3],
            work: None,
            json: None,
        };
        let found = measure(&options, true).unwrap();
        assert_eq!((found.chunks, found.packs), (300_001, 2344));
        assert_eq!(found.results.len(), 6);
        assert!(found.run_bytes < 21 * 300_001, "{} bytes", found.run_bytes);
        let place = &found.results[2];
        assert!(place.pages_each > 0.0 && place.pages_each < 2.1, "{place:?}");
        assert!(
            found
                .results
                .iter()
                .all(|result| result.lookups == 5000 && result.seconds > 0.0)
        );
    }
}
