//! The comparison of backup tools: each tool backs up all versions of a file or folder in order,
//! then reads the last version again and restores it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::corpus::{Corpus, Version};
use crate::files;
use crate::measure::{self, Cost};
use crate::record::{CorpusInfo, Outcome, Record, Repositories, Sample, Step, ToolInfo};
use crate::report;
use crate::summary;
use crate::tools::{Kind, Task, Tool, shown};

/// How many times a round repeats the steps after the backups.
const REPEATS: usize = 3;

/// The plan of a run.
pub(crate) struct Plan {
    pub(crate) experiment: String,
    pub(crate) corpora: Vec<Corpus>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) rounds: u32,
    /// The folder in which a temporary folder is made.
    pub(crate) work: PathBuf,
}

/// Runs the plan. Writes the results into `json` after each round.
pub(crate) fn run(plan: &Plan, json: Option<&Path>) -> Result<Record> {
    refuse_twice("tool", plan.tools.iter().map(|tool| &tool.label))?;
    refuse_twice("corpus", plan.corpora.iter().map(|corpus| &corpus.name))?;
    let mut found = Repositories {
        rounds: 0,
        tools: plan.tools.iter().map(tool_info).collect::<Result<_>>()?,
        corpora: plan.corpora.iter().map(corpus_info).collect(),
        commands: Vec::new(),
        samples: Vec::new(),
        results: Vec::new(),
    };
    let mut record = Record::begin(&plan.experiment, Outcome::Repositories(found.clone()));
    for round in 1..=plan.rounds {
        for corpus in &plan.corpora {
            let folder = tempfile::Builder::new()
                .prefix("ibid-bench-")
                .tempdir_in(&plan.work)
                .with_context(|| format!("making a folder in {}", plan.work.display()))?;
            let work = folder.path().canonicalize()?;
            Run {
                plan,
                corpus,
                round,
                current: work.join("current"),
                work,
                found: &mut found,
            }
            .run()
            .with_context(|| format!("round {round}, {}", corpus.name))?;
        }
        found.rounds = round;
        found.results = summary::results(&found);
        record.outcome = Outcome::Repositories(found.clone());
        record.save(json)?;
    }
    Ok(record)
}

fn refuse_twice<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Result<()> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            bail!("the {what} {name} is given twice");
        }
    }
    Ok(())
}

fn tool_info(tool: &Tool) -> Result<ToolInfo> {
    Ok(ToolInfo {
        label: tool.label.clone(),
        version: tool.version()?,
    })
}

fn corpus_info(corpus: &Corpus) -> CorpusInfo {
    let bytes = |version: Option<&Version>| version.map_or(0, |version| version.bytes);
    CorpusInfo {
        name: corpus.name.clone(),
        versions: corpus.versions.len() as u64,
        bytes: corpus.bytes(),
        first_bytes: bytes(corpus.versions.first()),
        last_bytes: bytes(corpus.versions.last()),
    }
}

/// One round with one corpus.
struct Run<'a> {
    plan: &'a Plan,
    corpus: &'a Corpus,
    round: u32,
    /// The temporary folder of the round.
    work: PathBuf,
    /// The path that is backed up, whose contents are the versions in order.
    current: PathBuf,
    found: &'a mut Repositories,
}

impl<'a> Run<'a> {
    fn run(&mut self) -> Result<()> {
        let (plan, corpus, current) = (self.plan, self.corpus, self.current.clone());
        for tool in &plan.tools {
            for &task in tool.preparation() {
                self.measure(tool, task)?;
            }
        }
        for (at, version) in corpus.versions.iter().enumerate() {
            self.put(version)?;
            for tool in self.in_turn(at) {
                let (source, name) = (current.as_path(), stem(version));
                let cost = self.measure(tool, Task::Backup { source, name })?;
                let bytes = files::folder_bytes(&tool.repository(&self.work))?;
                self.note(&tool.label, Step::Backup, version, cost, Some(bytes));
            }
        }
        let last = corpus.versions.last().context("a corpus has versions")?;
        for repeat in 0..REPEATS {
            self.read_and_copy(last)?;
            for tool in self.in_turn(repeat) {
                let cost = self.measure(tool, Task::Open)?;
                self.note(&tool.label, Step::Open, last, cost, None);
            }
            for tool in self.in_turn(repeat) {
                let (source, name) = (current.as_path(), format!("{}-again-{repeat}", stem(last)));
                let cost = self.measure(tool, Task::Rebackup { source, name: &name })?;
                let bytes = files::folder_bytes(&tool.repository(&self.work))?;
                self.note(&tool.label, Step::Rebackup, last, cost, Some(bytes));
            }
            for tool in self.in_turn(repeat) {
                self.restore(tool, last)?;
            }
        }
        Ok(())
    }

    /// Returns the tools, with another one first each time.
    fn in_turn(&self, at: usize) -> Vec<&'a Tool> {
        let mut tools: Vec<_> = self.plan.tools.iter().collect();
        let first = (at + self.round as usize) % tools.len().max(1);
        tools.rotate_left(first);
        tools
    }

    /// Makes `current` this version: new files with new times, so that every tool has to read them.
    /// The copy also brings them into the page cache, for all tools alike.
    fn put(&self, version: &Version) -> Result<()> {
        files::remove(&self.current)?;
        files::copy(&version.path, &self.current)
    }

    fn measure(&mut self, tool: &Tool, task: Task<'_>) -> Result<Cost> {
        let mut command = tool.command(task, &self.work);
        self.measure_command(&mut command)
    }

    fn measure_command(&mut self, command: &mut Command) -> Result<Cost> {
        let shown = shown(command, &self.work);
        let cost = measure::run(command, &shown, &self.work)?;
        if !self.found.commands.contains(&shown) {
            self.found.commands.push(shown);
        }
        Ok(cost)
    }

    fn note(&mut self, tool: &str, step: Step, version: &Version, cost: Cost, repository_bytes: Option<u64>) {
        let sample = Sample {
            round: self.round,
            corpus: self.corpus.name.clone(),
            tool: tool.to_owned(),
            step,
            version: version.name.clone(),
            cost,
            repository_bytes,
        };
        report::progress(&sample);
        self.found.samples.push(sample);
    }

    /// Measures reading and copying the file or folder without any tool.
    fn read_and_copy(&mut self, last: &Version) -> Result<()> {
        let copy = self.work.join("copy");
        let (mut cat, mut cp) = (Command::new("cat"), Command::new("cp"));
        if self.current.is_dir() {
            cat = Command::new("find");
            cat.arg(&self.current).args(["-type", "f", "-exec", "cat", "{}", "+"]);
            cp.args(["-r", "-P"]);
        } else {
            cat.arg(&self.current);
        }
        let cost = self.measure_command(&mut cat)?;
        self.note("cat", Step::Cat, last, cost, None);
        let cost = self.measure_command(cp.arg(&self.current).arg(&copy))?;
        self.note("cp", Step::Cp, last, cost, None);
        files::remove(&copy)
    }

    /// Restores the last version into an empty folder, then over itself, and compares every byte.
    fn restore(&mut self, tool: &Tool, last: &Version) -> Result<()> {
        let folder = self.work.join("restored");
        let (name, destination, source) = (stem(last), folder.as_path(), self.current.clone());
        let steps: &[_] = match tool.kind {
            Kind::Ibid => &[(Step::Restore, false), (Step::RestoreOver, true)],
            _ => &[(Step::Restore, false)],
        };
        std::fs::create_dir(destination)?;
        for &(step, exists) in steps {
            let task = Task::Restore {
                source: &source,
                name,
                destination,
                exists,
            };
            let cost = self.measure(tool, task)?;
            // Compares with the version in the corpus, not with the copy that was backed up.
            files::check_restored(destination, &last.path).with_context(|| format!("{}, {step:?}", tool.label))?;
            self.note(&tool.label, step, last, cost, None);
        }
        Ok(std::fs::remove_dir_all(destination)?)
    }
}

/// Returns the name without its extension: `v01` for `v01.tar`.
fn stem(version: &Version) -> &str {
    version.name.split('.').next().unwrap_or(&version.name)
}
