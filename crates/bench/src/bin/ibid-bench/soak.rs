//! The program on far more than fits into its memory: chunks, files, names in a folder, snapshots.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};

use anyhow::{Context, Result, ensure};
use clap::Args;
use ibid_bench::Random;
use ibid_terminal::value::size;

use crate::args::count;
use crate::measure::{self, Cost};
use crate::record::{Outcome, Record, Soak, SoakStep};
use crate::tools::{Kind, Task, Tool, find_ibid};
use crate::{files, report};

/// Memory of the program beside the budget, bytes: code, stacks, the allocator.
pub(crate) const BESIDE: u64 = 20 << 20;
/// Bytes of a chunk of the stream.
const CHUNK: usize = 4096;
/// Files in one folder of the tree.
const FILES_A_FOLDER: u64 = 1000;
/// Files of the tree that has many snapshots.
const FILES_OF_SNAPSHOTS: u64 = 2000;

#[derive(Debug, Args)]
#[command(after_help = "\
Four cases, each with a repository of its own: a stream of new chunks of 4 KiB; a tree of text files of 0.2 to 1.5 KB; \
as many files in one folder; and a tree of 2000 files that is backed up again and again, with one file changed. The \
run fails if a command takes more memory than its budget and 20 MiB. A case is left out if its number is 0.

The defaults take 30 minutes, 15 GB of disk and 3 million inodes.

Examples:
  ibid-bench soak --chunks 100k --files 10k --names 10k --snapshots 20
  ibid-bench soak --work /var/tmp --beside restic,borg --json soak.json")]
pub(crate) struct Options {
    /// Run this ibid [default: the one beside this program, else the one on the PATH]
    #[arg(long, value_name = "PATH")]
    ibid: Option<PathBuf>,
    /// Set the memory budget of every command
    #[arg(long, value_name = "SIZE", default_value = "128MiB", value_parser = size)]
    memory: u64,
    /// Back up a stream of N chunks
    #[arg(long, value_name = "N", default_value = "20M", value_parser = number)]
    chunks: u64,
    /// Back up a tree of N files
    #[arg(long, value_name = "N", default_value = "1600k", value_parser = number)]
    files: u64,
    /// Back up one folder with N files
    #[arg(long, value_name = "N", default_value = "1M", value_parser = number)]
    names: u64,
    /// Make N snapshots
    #[arg(long, value_name = "N", default_value = "1k", value_parser = number)]
    snapshots: u64,
    /// Back up the tree with these tools as well
    #[arg(long, value_delimiter = ',')]
    beside: Vec<Kind>,
    /// Keep data and repositories in this folder meanwhile [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Write the results into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn number(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { count(text) }
}

/// Runs the experiment.
pub(crate) fn run(options: &Options, quiet: bool) -> Result<()> {
    let work = options.work.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new().prefix("ibid-bench-").tempdir_in(work)?;
    let ibid = find_ibid(options.ibid.as_deref())?;
    let mut soaking = Soaking {
        options,
        quiet,
        // Whatever the folder is called, commands name it without links.
        work: folder.path().canonicalize()?,
        ibid: Kind::Ibid.tool(&ibid),
        beside: options.beside.iter().map(|kind| kind.tool(&ibid)).collect(),
        steps: Vec::new(),
    };
    for (case, number) in [
        (Case::Stream, options.chunks),
        (Case::Tree, options.files),
        (Case::Folder, options.names),
        (Case::Snapshots, options.snapshots),
    ] {
        if number > 0 {
            soaking.run(case)?;
            soaking.clean()?;
        }
    }
    let found = Soak {
        memory: options.memory,
        steps: soaking.steps,
    };
    let over: Vec<String> = found.beyond_budget().map(|step| step.command.clone()).collect();
    let mut record = Record::begin("soak", Outcome::Soak(found));
    record.save(options.json.as_deref())?;
    report::show(&report::markdown(&record));
    ensure!(
        over.is_empty(),
        "more memory than the budget and 20 MiB: {}",
        over.join("; ")
    );
    Ok(())
}

/// What there is much of.
enum Case {
    Stream,
    Tree,
    Folder,
    Snapshots,
}

struct Soaking<'o> {
    options: &'o Options,
    quiet: bool,
    work: PathBuf,
    ibid: Tool,
    beside: Vec<Tool>,
    steps: Vec<SoakStep>,
}

impl Soaking<'_> {
    fn run(&mut self, case: Case) -> Result<()> {
        match case {
            Case::Stream => self.stream(),
            Case::Tree => self.tree(),
            Case::Folder => self.folder(),
            Case::Snapshots => self.snapshots(),
        }
    }

    /// Returns a command of ibid with the budget and a cache of its own.
    fn ibid(&self, arguments: &[&str]) -> Command {
        let mut command = self.ibid.command(Task::Configure, &self.work);
        command
            .args(arguments)
            .arg("--memory")
            .arg(self.options.memory.to_string())
            .arg("--cache-dir")
            .arg(self.work.join("cache"));
        command
    }

    fn init(&self, arguments: &[&str]) -> Result<()> {
        // Argon2's own memory, 46 MiB by default, would hide that of small commands.
        let arguments = [&["init", "--argon2", "8KiB:1:1"], arguments].concat();
        measure::run(&mut self.ibid(&arguments), "ibid init", &self.work).map(drop)
    }

    /// Runs a command and keeps what it took.
    fn step(&mut self, case: &str, arguments: &[&str]) -> Result<()> {
        let shown = format!("ibid {}", arguments.join(" "));
        let cost = measure::run(&mut self.ibid(arguments), &shown, &self.work)?;
        self.keep(case, "ibid", &shown, cost);
        Ok(())
    }

    fn keep(&mut self, case: &str, tool: &str, command: &str, cost: Cost) {
        let work = format!("{}/", self.work.display());
        let step = SoakStep {
            case: case.to_owned(),
            tool: tool.to_owned(),
            command: command.replace(&work, ""),
            cost,
        };
        if !self.quiet {
            let mib = step.cost.rss_bytes >> 20;
            report::note(&format!(
                "{case}: {} ({:.1} s, {mib} MiB)",
                step.command, step.cost.wall_s
            ));
        }
        self.steps.push(step);
    }

    fn clean(&self) -> Result<()> {
        files::remove(&self.work)?;
        std::fs::create_dir(&self.work).context("making the work folder again")
    }

    /// Makes `number` files in folders of [`FILES_A_FOLDER`], or in one; returns the folder.
    fn make_files(&self, number: u64, in_one: bool) -> Result<String> {
        let root = self.work.join("files");
        std::fs::create_dir(&root)?;
        let mut random = Random::new(number);
        for n in 0..number {
            let path = file(&root, n, in_one);
            if !in_one && n % FILES_A_FOLDER == 0 {
                std::fs::create_dir(path.parent().expect("a file is in a folder"))?;
            }
            let length = if in_one { 20 } else { 200 + random.below(1300) };
            std::fs::write(path, text(&mut random, n, length as usize))?;
        }
        Ok(root.display().to_string())
    }

    fn stream(&mut self) -> Result<()> {
        let case = format!("{} new chunks", self.options.chunks);
        self.init(&["--chunker", "fixed", "--average", "4KiB"])?;
        // The second stream has one of three chunks of the first, so a part of each frame of it.
        for (name, step) in [("stream", 1), ("third", 3)] {
            let shown = format!("ibid backup --stdin {name}");
            let mut command = self.ibid(&["backup", "--stdin", name]);
            let feed = |input: &mut ChildStdin| write_chunks(input, self.options.chunks, step);
            let cost = measure::run_fed(&mut command, &shown, &self.work, feed)?;
            self.keep(&case, "ibid", &shown, cost);
        }
        let file = self.work.join("small");
        std::fs::write(&file, text(&mut Random::new(0), 0, 1000))?;
        self.step(&case, &["backup", &file.display().to_string()])?;
        self.step(&case, &["backup", &file.display().to_string(), "--force", "--no-cache"])?;
        self.step(&case, &["check"])?;
        self.step(&case, &["stats"])?;
        self.prune(&case, &["latest~3"])
    }

    fn tree(&mut self) -> Result<()> {
        let case = format!("{} files", self.options.files);
        let root = self.make_files(self.options.files, false)?;
        self.init(&[])?;
        self.step(&case, &["backup", &root])?;
        self.step(&case, &["backup", &root])?;
        for tool in self.beside.clone() {
            for task in tool.preparation() {
                measure::run(&mut tool.command(*task, &self.work), &tool.label, &self.work)?;
            }
            for (name, times) in [("1", "first"), ("2", "unchanged")] {
                let source = Path::new(&root);
                let mut command = tool.command(Task::Backup { source, name }, &self.work);
                let cost = measure::run(&mut command, &tool.label, &self.work)?;
                self.keep(&case, &tool.label, &format!("{}, {times}", tool.label), cost);
            }
            files::remove(&tool.repository(&self.work))?;
        }
        self.read_all(&case)?;
        self.prune_after_deletions(&case, &root, self.options.files, false)
    }

    fn folder(&mut self) -> Result<()> {
        let case = format!("{} files in one folder", self.options.names);
        let root = self.make_files(self.options.names, true)?;
        self.init(&[])?;
        self.step(&case, &["backup", &root])?;
        self.step(&case, &["backup", &root])?;
        self.read_all(&case)?;
        self.prune_after_deletions(&case, &root, self.options.names, true)
    }

    fn snapshots(&mut self) -> Result<()> {
        let case = format!("{} snapshots", self.options.snapshots);
        let root = self.make_files(FILES_OF_SNAPSHOTS, false)?;
        self.init(&[])?;
        let mut worst: Option<Cost> = None;
        for n in 0..self.options.snapshots {
            let changed = file(Path::new(&root), n % FILES_A_FOLDER, false);
            std::fs::write(changed, text(&mut Random::new(n), n, 1000))?;
            let cost = measure::run(&mut self.ibid(&["backup", &root]), "ibid backup", &self.work)?;
            let worst = worst.get_or_insert(cost);
            worst.wall_s = worst.wall_s.max(cost.wall_s);
            worst.cpu_s = worst.cpu_s.max(cost.cpu_s);
            worst.rss_bytes = worst.rss_bytes.max(cost.rss_bytes);
        }
        if let Some(worst) = worst {
            self.keep(&case, "ibid", "ibid backup files, the most of each", worst);
        }
        self.step(&case, &["snapshots"])?;
        self.read_all(&case)?;
        self.prune(&case, &["--keep-last", "10", "--yes"])
    }

    /// Deletes one of three files, backs up the others, and prunes what only the snapshots before needed.
    fn prune_after_deletions(&mut self, case: &str, root: &str, number: u64, in_one: bool) -> Result<()> {
        for n in (0..number).step_by(3) {
            std::fs::remove_file(file(Path::new(root), n, in_one))?;
        }
        self.step(case, &["backup", root])?;
        self.prune(case, &["--keep-last", "1", "--yes"])
    }

    /// Forgets snapshots, prunes, and checks what is left.
    fn prune(&mut self, case: &str, forgotten: &[&str]) -> Result<()> {
        self.step(case, &[&["forget"], forgotten].concat())?;
        self.step(case, &["prune"])?;
        self.step(case, &["check", "--read-data"])
    }

    /// Runs the commands that read what was stored.
    fn read_all(&mut self, case: &str) -> Result<()> {
        let out = self.work.join("out").display().to_string();
        self.step(case, &["ls", "-R", "latest"])?;
        self.step(case, &["find", "*7.eml"])?;
        self.step(case, &["stats"])?;
        self.step(case, &["check", "--read-data"])?;
        self.step(case, &["restore", "latest", &out])
    }
}

/// Returns the path of a file: in folders of [`FILES_A_FOLDER`], or all in one.
fn file(root: &Path, number: u64, in_one: bool) -> PathBuf {
    let name = format!("{number:08}.eml");
    match in_one {
        true => root.join(name),
        false => root.join(format!("{:05}", number / FILES_A_FOLDER)).join(name),
    }
}

/// Returns text of words, with a number that makes it different from all others.
fn text(random: &mut Random, number: u64, length: usize) -> String {
    let mut text = format!("Message-Id: <{number:x}.{:x}@example.org>\n", random.number());
    while text.len() < length {
        // Short words are frequent.
        let word = random.below(1 << 12) * random.below(1 << 4);
        text.push_str(&format!("{word:x}{}", if random.below(12) == 0 { '\n' } else { ' ' }));
    }
    text.truncate(length.max(8));
    text
}

/// Writes one of `step` chunks of so many, all different.
fn write_chunks(out: &mut dyn Write, chunks: u64, step: u64) -> std::io::Result<()> {
    const AT_ONCE: u64 = 1 << 8;
    let mut buffer = vec![0; CHUNK * AT_ONCE as usize];
    let written = chunks / step;
    for first in (0..written).step_by(AT_ONCE as usize) {
        let end = written.min(first + AT_ONCE);
        for (chunk, number) in buffer.chunks_exact_mut(CHUNK).zip(first..end) {
            for copy in chunk.chunks_exact_mut(1024) {
                copy[..8].copy_from_slice(&(number * step).to_le_bytes());
            }
        }
        out.write_all(&buffer[..(end - first) as usize * CHUNK])?;
    }
    Ok(())
}
