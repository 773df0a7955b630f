//! `ibid-bench`: measures chunkers, deltas and whole repositories, on your data and on generated data.
//!
//! `docs/measuring.md` walks through its commands; `docs/benchmarks.md` has the results of each
//! experiment.
// Opening LMDB's memory-mapped file is `unsafe`; there is no other.
#![cfg_attr(not(feature = "lmdb"), forbid(unsafe_code))]

mod aging;
mod args;
mod card;
mod charts;
mod chunk_sizes;
mod commands;
mod corpus;
mod databases;
mod failure;
mod files;
mod hours;
mod index_lookups;
mod listed_packs;
mod measure;
mod output;
mod print;
mod random_read;
mod record;
mod report;
mod repositories;
mod similarity;
mod soak;
mod statistics;
mod summary;
mod tools;
mod watch;

use std::process::ExitCode;

use anyhow::Context;
use args::{Cli, Command, GenerateCommand, RepositoriesArgs, TuneCommand};
use clap::Parser;
use failure::{Outcome, Result};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    let json = cli.command.prints_json();
    match run(cli.command, cli.quiet) {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            let code = failure.exit_code();
            ibid_terminal::fatal("ibid-bench", &failure.to_string(), code, json);
            ExitCode::from(code)
        }
    }
}

fn run(command: Command, quiet: bool) -> Result<Outcome> {
    match command {
        Command::Chunkers(args) => commands::chunkers::run(&args, quiet),
        Command::Chunk(args) => commands::chunk::run(&args, quiet),
        Command::DuplicateLocality(args) => commands::locality::run_duplicates(&args, quiet),
        Command::Locality(args) => commands::locality::run(&args, quiet),
        Command::Records(args) => commands::records::run(&args, quiet),
        Command::Breakdown(args) => commands::measured::run_breakdown(&args, quiet),
        Command::Hashes(args) => commands::measured::run_hashes(&args, quiet),
        Command::Cpu(args) => commands::measured::run_cpu(&args),
        Command::Tune(TuneCommand::Seqcdc(args)) => commands::tune::run(&args, quiet),
        Command::Generate(GenerateCommand::Versions(args)) => commands::generate::run(&args, quiet),
        Command::Repositories { common, tools } => {
            let ibid = tools::find_ibid(common.ibid.as_deref())?;
            let tools = tools.into_iter().map(|kind| kind.tool(&ibid)).collect();
            run_repositories(common, "repositories", tools)
        }
        Command::ChunkSizes { common, averages } => {
            let ibid = tools::find_ibid(common.ibid.as_deref())?;
            run_repositories(common, "chunk-sizes", chunk_sizes::tools(&ibid, &averages))
        }
        Command::RandomRead(options) => done(random_read::run(&options)),
        Command::Index(options) => done(index_lookups::run(&options, quiet)),
        Command::Similarity(options) => done(similarity::run(&options, quiet)),
        Command::Soak(options) => done(soak::run(&options, quiet)),
        Command::Aging(options) => done(aging::run(&options, quiet)),
        Command::Databases(options) => done(databases::run(&options)),
        Command::Hours(options) => done(hours::run(&options, quiet)),
        Command::HoursStage { order } => done(hours::run_stage(&order)),
        Command::DatabasesStage { order } => done(databases::run_stage(&order)),
        Command::Charts(options) => done(charts::run(&options)),
        Command::Table { files } => {
            for file in files {
                report::show(&report::markdown(&record::read(&file)?));
            }
            Ok(Outcome::Done)
        }
    }
}

fn done(result: anyhow::Result<()>) -> Result<Outcome> {
    result?;
    Ok(Outcome::Done)
}

fn run_repositories(args: RepositoriesArgs, experiment: &str, tools: Vec<tools::Tool>) -> Result<Outcome> {
    let plan = repositories::Plan {
        experiment: experiment.to_owned(),
        corpora: args.corpora,
        tools,
        rounds: args.rounds,
        work: args.work.unwrap_or_else(std::env::temp_dir),
    };
    let record = repositories::run(&plan, args.json.as_deref())?;
    let text = report::markdown(&record);
    if let Some(path) = &args.markdown {
        std::fs::write(path, &text).with_context(|| format!("writing {}", path.display()))?;
    }
    report::show(&text);
    Ok(Outcome::Done)
}
