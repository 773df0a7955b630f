//! How much of what is similar is still found when a repository has many times the sketches that fit into
//! memory: real backups of versions, and between them the sketches and index of data that resembles nothing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use clap::Args;
use ibid_repo::scale::{add_unlike_chunks, sketches_in_memory};
use ibid_repo::{BackupOptions, InitOptions, LocalStorage, Repository, Similarity, SimilaritySearch};
use ibid_terminal::value::size;

use crate::corpus::Corpus;
use crate::files;
use crate::listed_packs::ListedPacks;
use crate::record::{Outcome, Record, SimilarityResult, SimilarityRun};
use crate::report;

#[derive(Debug, Args)]
#[command(after_help = "\
Each version is backed up by the library itself, as one file that becomes version after version. Between them, index \
files and sketches of other data are added, as if backups of that had come between. That data resembles nothing and is \
not there, so a chunk that took some of it for similar would fail.

What is saved is measured in bytes of packs: nothing without --similarity, all in a repository without other data.

Examples:
  ibid-bench similarity --corpus lnx=corpora/lnx --times 1,10,100 --json run.json")]
pub(crate) struct Options {
    /// Store the versions in this folder, and call them so: files, or else folders, whose names begin
    /// with `v`, in the order of their names
    #[arg(long = "corpus", value_name = "NAME=DIR", required = true)]
    corpora: Vec<Corpus>,
    /// Add so many times the sketches that are read into memory at once
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 10, 100])]
    times: Vec<u64>,
    /// Set the memory budget of the repository
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = size)]
    memory: u64,
    /// Keep repositories in this folder meanwhile [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Write the results into this file, after each run
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the experiment.
pub(crate) fn run(options: &Options, quiet: bool) -> Result<()> {
    let found = SimilarityRun {
        memory: options.memory,
        results: Vec::new(),
    };
    let mut record = Record::begin("similarity", Outcome::Similarity(found));
    for corpus in &options.corpora {
        let none = back_up(options, corpus, Similarity::Off, 0, quiet)?;
        let mut alone = None;
        for times in std::iter::once(0).chain(options.times.iter().copied()) {
            let mut result = back_up(options, corpus, Similarity::Auto, times, quiet)?;
            let most = alone.get_or_insert(result.stored_bytes);
            let saved = |stored: u64| none.stored_bytes as f64 - stored as f64;
            // Where nothing can be saved, nothing is lost.
            result.saved_share = match saved(*most) {
                0.0 => 1.0,
                most => saved(result.stored_bytes) / most,
            };
            if let Outcome::Similarity(found) = &mut record.outcome {
                found.results.push(result);
            }
            record.save(options.json.as_deref())?;
        }
    }
    record.save(options.json.as_deref())?;
    report::show(&report::markdown(&record));
    Ok(())
}

/// Backs up all versions of a corpus, with so many times the sketches that fit into memory between them.
fn back_up(
    options: &Options,
    corpus: &Corpus,
    similarity: Similarity,
    times: u64,
    quiet: bool,
) -> Result<SimilarityResult> {
    let work = options.work.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new().prefix("ibid-bench-").tempdir_in(work)?;
    let (path, cache) = (folder.path().join("version"), folder.path().join("cache"));
    let unlike_packs = Arc::new(Mutex::new(Vec::new()));
    let listed = unlike_packs.clone();
    let storage = Arc::new(LocalStorage::create(folder.path().join("repository"))?);
    let storage = ListedPacks::new(storage, move |each| {
        let packs = listed.lock().expect("no holder of this lock panics");
        packs.iter().copied().for_each(each);
    });
    let repository = Repository::init(Arc::new(storage), Some(b"a good password"), &InitOptions::default())?
        .with_cache(&cache)
        .with_memory(options.memory)?;
    let unlike = sketches_in_memory(&repository) * times / corpus.versions.len() as u64;
    let mut result = SimilarityResult {
        corpus: corpus.name.clone(),
        times,
        other_chunks: unlike * corpus.versions.len() as u64,
        ..SimilarityResult::default()
    };
    let mut search = SimilaritySearch::default();
    for (number, version) in (0..).zip(&corpus.versions) {
        files::remove(&path)?;
        files::copy(&version.path, &path)?;
        if unlike > 0 {
            let packs = add_unlike_chunks(&repository, unlike, number)?;
            let mut listed = unlike_packs.lock().expect("no holder of this lock panics");
            listed.extend(packs);
        }
        let before = cpu_s();
        let backup = BackupOptions::default().path(&path).similarity(similarity);
        let summary = repository.backup(&backup)?;
        result.cpu_s += cpu_s() - before;
        result.stored_bytes += summary.counters.stored_bytes;
        result.new_bytes += summary.counters.new_bytes;
        result.delta_bytes += summary.deltas.bytes;
        search += summary.search;
        if !quiet {
            let stored = summary.counters.stored_bytes as f64 / 1e6;
            report::note(&format!(
                "{} {times} times, {}: {stored:.2} MB",
                corpus.name, version.name
            ));
        }
    }
    result.sketch_bytes = files::folder_bytes(&cache.join(repository.id().to_string()).join("sketches")).unwrap_or(0);
    result.chunks = search.chunks;
    result.in_memory = search.found_in_memory;
    result.by_neighbours = search.found_by_neighbours;
    result.by_features = search.found_by_features;
    result.limited_bytes = search.limited_bytes;
    Ok(result)
}

/// Returns the CPU time that this process has used, seconds.
fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_find_one_another_among_other_data() {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = ibid_bench::Random::new(1).bytes(4 << 20);
        for version in 0..3 {
            std::fs::write(folder.path().join(format!("v{version}")), &bytes).unwrap();
            bytes.iter_mut().step_by(30_000).for_each(|byte| *byte ^= 1);
        }
        let options = Options {
            corpora: vec![format!("noise={}", folder.path().display()).parse().unwrap()],
            times: vec![2],
            memory: 512 << 20,
            work: None,
            json: None,
        };
        let result = back_up(&options, &options.corpora[0], Similarity::Auto, 2, true).unwrap();
        assert!(
            result.other_chunks > 100_000 && result.sketch_bytes > 5_000_000,
            "{result:?}"
        );
        assert!((4 << 20..5 << 20).contains(&result.stored_bytes), "{result:?}");
        assert!(result.by_neighbours + result.by_features > 0, "{result:?}");
    }
}
