//! Repositories over months: each day a backup, `forget` by rules, and `prune`, by each program.
//!
//! At intervals a fresh repository is made of the snapshots that are left, and compared: size, and
//! the time to restore the newest and the oldest.

mod chart;
mod program;
mod report;
mod results;
mod state;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
pub(crate) use chart::draw;
use clap::Args;
use ibid_terminal::value::size;
use program::Program;
pub(crate) use report::markdown;
pub(crate) use results::Aging;
use results::{Day, Fresh, Restores, Series};
use state::State;
use tree::Original;

use crate::corpus::Corpus;
use crate::record::{self, Record, ToolInfo};
use crate::tools::{Kind, find_ibid};
use crate::{files, measure, report as output};

/// How many times each restore is timed.
const RESTORES: usize = 3;
/// The most rounds, so that no backup is of a day to come: the first one is of [`program::FIRST_DAY`].
const DAYS_MOST: i64 = 300;

#[derive(Debug, Args)]
#[command(after_help = "\
Each round is a day. A folder becomes what it is on that day; each tool backs it up, forgets all but 7 daily, 4 weekly \
and 6 monthly snapshots, and prunes. With --tree, 2 % of some files are edited each day, a few are added, deleted and \
renamed, and 1 % of the records of a dump change. With --corpus, the folder has one file: the versions are spread \
evenly over the days, each with a few more edits every day.

A fresh repository with the same snapshots, stored in their order, is made of the days again every --every rounds for \
ibid, and at the end for all tools. Restores are compared with the original.

Examples:
  ibid-bench aging --tree /usr/include --rounds 200 --json aging.json
  ibid-bench aging --corpus lnx=corpora/lnx --rounds 60 --tools ibid,restic --work /var/tmp")]
pub(crate) struct Options {
    /// Run this ibid [default: the one beside this program, else the one on the PATH]
    #[arg(long, value_name = "PATH")]
    ibid: Option<PathBuf>,
    /// Take files from this folder, and change them daily
    #[arg(long, value_name = "DIR", required_unless_present = "corpora")]
    tree: Option<PathBuf>,
    /// Take so much of the files of the tree, chosen by --seed
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = size)]
    tree_size: u64,
    /// Add a dump of this size to the tree
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size)]
    dump_size: u64,
    /// Take the versions in this folder, spread over the days, and call them so
    #[arg(long = "corpus", value_name = "NAME=DIR")]
    corpora: Vec<Corpus>,
    /// Compare these tools: ibid, restic, borg
    #[arg(long, value_delimiter = ',', default_values = ["ibid", "restic", "borg"])]
    tools: Vec<Kind>,
    /// Back up on N days
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=DAYS_MOST))]
    rounds: u32,
    /// Compare ibid with a fresh repository every N rounds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// Choose other files and other changes with another number
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Keep data and repositories in this folder meanwhile [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Write every sample and the results into this file, whenever a fresh repository was compared
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the experiment.
pub(crate) fn run(options: &Options, quiet: bool) -> Result<()> {
    let ibid = find_ibid(options.ibid.as_deref())?;
    for (at, kind) in options.tools.iter().enumerate() {
        ensure!(!options.tools[..at].contains(kind), "{kind:?} is given twice");
    }
    let programs = options
        .tools
        .iter()
        .map(|kind| Program::new(*kind, &ibid))
        .collect::<Result<Vec<_>>>()?;
    let tools = programs
        .iter()
        .map(|program| {
            Ok(ToolInfo {
                label: program.label().to_owned(),
                version: program.version()?,
            })
        })
        .collect::<Result<_>>()?;
    let mut record = Record::begin(
        "aging",
        record::Outcome::Aging(Aging {
            rounds: options.rounds,
            seed: options.seed,
            tools,
            commands: Vec::new(),
            series: Vec::new(),
        }),
    );
    for source in sources(options)? {
        run_series(options, &source, &programs, &mut record, quiet)?;
    }
    output::show(&output::markdown(&record));
    Ok(())
}

/// Where the states of a series come from.
enum Source {
    Tree(Original),
    Versions(Corpus),
}

impl Source {
    fn name(&self) -> &str {
        match self {
            Source::Tree(_) => "tree",
            Source::Versions(corpus) => &corpus.name,
        }
    }

    /// Returns the folder before the first day, which must not exist yet.
    fn begin(&self, folder: &Path, options: &Options) -> Result<State> {
        std::fs::create_dir_all(folder)?;
        match self {
            Source::Tree(original) => State::tree(original, folder, options.seed),
            Source::Versions(corpus) => Ok(State::versions(corpus.clone(), folder, options.rounds, options.seed)),
        }
    }
}

fn sources(options: &Options) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    if let Some(folder) = &options.tree {
        let original = Original::choose(folder, options.tree_size, options.dump_size, options.seed)?;
        sources.push(Source::Tree(original));
    }
    sources.extend(options.corpora.iter().cloned().map(Source::Versions));
    Ok(sources)
}

fn run_series(
    options: &Options,
    source: &Source,
    programs: &[Program],
    record: &mut Record,
    quiet: bool,
) -> Result<()> {
    let base = options.work.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new().prefix("ibid-bench-").tempdir_in(base)?;
    // Whatever the folder is called, commands name it without links.
    let work = folder.path().canonicalize()?;
    let state = source.begin(&work.join("current"), options)?;
    let mut ageing = Ageing {
        options,
        source,
        programs,
        quiet,
        work,
        state,
        commands: BTreeSet::new(),
        series: Series::new(source.name()),
    };
    for program in programs {
        measure::run(&mut program.init(&ageing.work), program.label(), &ageing.work)?;
    }
    for day in 1..=options.rounds {
        ageing.day(day)?;
        let last = day == options.rounds;
        if last || day % options.every == 0 {
            ageing.compare(day, last)?;
            ageing.keep(record, options.json.as_deref())?;
        }
    }
    Ok(())
}

/// A series under way.
struct Ageing<'o> {
    options: &'o Options,
    source: &'o Source,
    programs: &'o [Program],
    quiet: bool,
    work: PathBuf,
    state: State,
    /// The commands as they were run on the first day.
    commands: BTreeSet<String>,
    series: Series,
}

impl Ageing<'_> {
    /// Backs up, forgets and prunes with every tool.
    fn day(&mut self, day: u32) -> Result<()> {
        self.state.become_day(day)?;
        let source = self.state.folder().to_owned();
        if day == 1 {
            (self.series.files, self.series.bytes) = (files::count(&source)?, files::folder_bytes(&source)?);
        }
        for program in self.programs {
            let work = &self.work;
            let label = program.label();
            let mut run = |mut command: std::process::Command| {
                let shown = crate::tools::shown(&command, work);
                let done = measure::run_printing(&mut command, &shown, work)?;
                if day == 1 {
                    self.commands.insert(shown);
                }
                Ok::<_, anyhow::Error>(done)
            };
            let repository = program.repository(work);
            let (backup, _) = run(program.backup(work, &source, day))?;
            let (forget, _) = run(program.forget(work))?;
            let before = files::stamps(&repository)?;
            let (prune, said) = run(program.prune(work))?;
            let after = files::stamps(&repository)?;
            let written = after.iter().filter(|(path, stamp)| before.get(*path) != Some(stamp));
            let sample = Day {
                day,
                tool: label.to_owned(),
                backup,
                forget,
                prune,
                prune_written_bytes: written.map(|(_, stamp)| stamp.bytes).sum(),
                repository_bytes: after.values().map(|stamp| stamp.bytes).sum(),
                said: serde_json::from_str(&said).ok(),
            };
            if !self.quiet {
                let mb = sample.repository_bytes as f64 / 1e6;
                let cpu = sample.prune.cpu_s;
                output::note(&format!(
                    "{} day {day} {label}: {mb:.2} MB, prune {cpu:.2} s of CPU",
                    self.series.name
                ));
            }
            self.series.days.push(sample);
        }
        Ok(())
    }

    /// Makes fresh repositories with the snapshots that are left, and compares them: of all tools on the
    /// last day, of ibid otherwise.
    fn compare(&mut self, day: u32, last: bool) -> Result<()> {
        let compared: Vec<&Program> = self
            .programs
            .iter()
            .filter(|program| last || program.is_ibid())
            .collect();
        let again = self.work.join("again");
        std::fs::create_dir(&again)?;
        let mut kept = BTreeMap::new();
        for program in &compared {
            let days: Vec<u32> = program
                .snapshots(&self.work)?
                .into_iter()
                .map(|found| found.0)
                .collect();
            ensure!(
                days.last() == Some(&day),
                "{} has no snapshot of today",
                program.label()
            );
            measure::run(&mut program.init(&again), program.label(), &again)?;
            kept.insert(program.label(), days);
        }
        let days: BTreeSet<u32> = kept.values().flatten().copied().collect();
        let mut state = self.source.begin(&again.join("current"), self.options)?;
        for &day in &days {
            state.become_day(day)?;
            for program in &compared {
                let Some(at) = kept[program.label()].iter().position(|&found| found == day) else {
                    continue;
                };
                let mut command = program.backup(&again, state.folder(), day);
                measure::run(&mut command, program.label(), &again)?;
                if at == 0 {
                    let copy = again.join(format!("oldest-{}", program.label()));
                    files::copy(state.folder(), &copy)?;
                }
            }
        }
        for program in compared {
            let fresh = self.measure(program, day, &again, state.folder())?;
            if !self.quiet {
                output::note(&format!(
                    "{} day {day} {}: {:.3} of a fresh repository's size",
                    self.series.name,
                    fresh.tool,
                    fresh.ratio()
                ));
            }
            self.series.fresh.push(fresh);
        }
        files::remove(&again)
    }

    /// Compares the repository of a tool with the fresh one in `again`.
    fn measure(&self, program: &Program, day: u32, again: &Path, newest: &Path) -> Result<Fresh> {
        let aged_snapshots = program.snapshots(&self.work)?;
        let fresh_snapshots = program.snapshots(again)?;
        let days = |snapshots: &[(u32, String)]| snapshots.iter().map(|found| found.0).collect::<Vec<_>>();
        ensure!(
            days(&aged_snapshots) == days(&fresh_snapshots),
            "the fresh repository of {} has other snapshots",
            program.label()
        );
        let (open, _) = measure::run_printing(&mut program.open(&self.work), program.label(), &self.work)?;
        let restore = |work: &Path, snapshots: &[(u32, String)], original: &Path, newest: bool| -> Result<_> {
            let found = if newest { snapshots.last() } else { snapshots.first() };
            let (_, snapshot) = found.context("no snapshot is left")?;
            let out = self.work.join("restored");
            files::remove(&out)?;
            std::fs::create_dir(&out)?;
            let cost = measure::run(&mut program.restore(work, snapshot, &out), program.label(), &self.work)?;
            files::check_restored(&out, original)
                .with_context(|| format!("{} restored {snapshot} of day {day} otherwise", program.label()))?;
            files::remove(&out)?;
            Ok(cost)
        };
        let oldest = again.join(format!("oldest-{}", program.label()));
        let mut newest_restores = Restores::default();
        let mut oldest_restores = Restores::default();
        // By turns, so that whatever else runs on the machine meets both.
        for _ in 0..RESTORES {
            for (restores, original, is_newest) in [
                (&mut newest_restores, newest, true),
                (&mut oldest_restores, oldest.as_path(), false),
            ] {
                let aged = restore(&self.work, &aged_snapshots, original, is_newest)?;
                restores.aged.push(aged);
                restores
                    .fresh
                    .push(restore(again, &fresh_snapshots, original, is_newest)?);
            }
        }
        Ok(Fresh {
            day,
            tool: program.label().to_owned(),
            snapshots: days(&aged_snapshots),
            aged_bytes: files::folder_bytes(&program.repository(&self.work))?,
            fresh_bytes: files::folder_bytes(&program.repository(again))?,
            open,
            newest: newest_restores,
            oldest: oldest_restores,
        })
    }

    /// Writes all results so far.
    fn keep(&self, record: &mut Record, path: Option<&Path>) -> Result<()> {
        if let record::Outcome::Aging(found) = &mut record.outcome {
            found.series.retain(|series| series.name != self.series.name);
            found.series.push(self.series.clone());
            for command in &self.commands {
                if !found.commands.contains(command) {
                    found.commands.push(command.clone());
                }
            }
        }
        record.save(path)
    }
}
