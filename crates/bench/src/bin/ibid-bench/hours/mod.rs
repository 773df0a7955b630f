//! A day of a store: a mixed load, with the rhythm of a day, and what it costs in each hour.

mod chart;
mod client;
mod report;
mod results;
mod text;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
pub(crate) use chart::draw;
use clap::Args;
use client::{Client, KEPT, Kind};
use ibid_record::{Options as StoreOptions, Retention, Store, Versions};
pub(crate) use report::markdown;
use results::{Hour, Load, Seen};
pub(crate) use results::{Hours, Lived};
use serde::{Deserialize, Serialize};

use crate::measure;
use crate::record::{Outcome, Record};
use crate::statistics::{Latency, microseconds};
use crate::{files, report as output};

/// The hidden command by which this program runs itself.
pub(crate) const STAGE_COMMAND: &str = "hours-stage";

/// How often disk and memory are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// The load of the quietest hour, of that of the busiest.
const NIGHT: f64 = 0.15;

#[derive(Debug, Args)]
#[command(after_help = "\
Of a hundred operations, 55 read the latest version of a key, 15 any of its last 20 versions, 25 read and update one, \
4 insert or purge a key, and one scans 20 keys. Each is a commit of its own, synced. Older versions are removed by \
the store's retention. A client begins an operation when it is due, or when its last one has ended; that one's time \
is not counted again. With --rate 0, none waits.

Every body that is read is compared, in the end all of them.

Examples:
  ibid-bench hours --json hours.json
  ibid-bench hours --hours 2 --hour 5 --keys 500 --subjects ddedup")]
pub(crate) struct Options {
    /// Run for N hours
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=1000))]
    hours: u32,
    /// Let an hour take so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    hour: u32,
    /// Store about N keys
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Do N operations a second in the busiest hour; 0 for as many as possible
    #[arg(long, value_name = "N", default_value_t = 1000)]
    rate: u64,
    /// Use N threads
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=64))]
    clients: u64,
    /// Compare these: ddedup, the record store with its default options, and plain, the same without deltas
    #[arg(long, value_delimiter = ',', default_values = ["ddedup", "plain"], value_parser = ["ddedup", "plain"])]
    subjects: Vec<String>,
    /// Choose other operations with another number
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Keep the stores in this folder meanwhile [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Write the results into this file, after each subject
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The order for a process of its own, which measures one subject.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    subject: String,
    load: Load,
    folder: PathBuf,
    answer: PathBuf,
}

/// Runs the experiment.
pub(crate) fn run(options: &Options, quiet: bool) -> Result<()> {
    let load = Load {
        hours: options.hours,
        hour_s: options.hour.into(),
        keys: options.keys,
        rate: options.rate,
        clients: options.clients,
        seed: options.seed,
    };
    let mut found = Hours {
        load: load.clone(),
        subjects: Vec::new(),
    };
    let mut record = Record::begin("hours", Outcome::Hours(found.clone()));
    for subject in &options.subjects {
        let work = options.work.clone().unwrap_or_else(std::env::temp_dir);
        let work = tempfile::Builder::new().prefix("ibid-bench-").tempdir_in(&work)?;
        let order = Order {
            subject: subject.clone(),
            load: load.clone(),
            folder: work.path().join("store"),
            answer: work.path().join("answer"),
        };
        let (cost, seen) = measure::run_stage(STAGE_COMMAND, &order, &order.answer, work.path())?;
        let lived = Lived {
            subject: subject.clone(),
            seen,
            cost,
        };
        if !quiet {
            output::hours_progress(&lived);
        }
        found.subjects.push(lived);
        record.outcome = Outcome::Hours(found.clone());
        record.save(options.json.as_deref())?;
    }
    output::show(&output::markdown(&record));
    Ok(())
}

/// Runs the order in a file.
pub(crate) fn run_stage(order: &Path) -> Result<()> {
    let order: Order = measure::read_json(order)?;
    measure::write_json(&order.answer, &order.live()?)
}

/// Times in µs, by kind.
#[derive(Debug, Default)]
struct Times {
    latest: Vec<f64>,
    any: Vec<f64>,
    commit: Vec<f64>,
    operations: u64,
}

impl Times {
    fn add(&mut self, kind: Kind, took: Duration) {
        self.operations += 1;
        let took_us = microseconds(took);
        match kind {
            Kind::Latest => self.latest.push(took_us),
            Kind::Any => self.any.push(took_us),
            Kind::Commit => self.commit.push(took_us),
            Kind::Scan => {}
        }
    }

    fn append(&mut self, other: &Times) {
        self.operations += other.operations;
        self.latest.extend(&other.latest);
        self.any.extend(&other.any);
        self.commit.extend(&other.commit);
    }
}

/// The largest that was seen, bytes.
#[derive(Debug, Default)]
struct Most {
    disk: AtomicU64,
    memory: AtomicU64,
}

impl Order {
    fn live(&self) -> Result<Seen> {
        let mut options = StoreOptions::default().with_retention_interval(Duration::from_secs(1));
        options.encoding.enabled = self.subject == "ddedup";
        let store = Store::open(&self.folder, options)?;
        let records = store.namespace("records", Versions::Kept)?;
        records.set_retention(Retention::default().with_versions(KEPT))?;
        let mut clients: Vec<Client> = (0..self.load.clients)
            .map(|number| Client::new(records.clone(), self.load.seed, number))
            .collect();
        for client in &mut clients {
            client.begin(self.load.keys.div_ceil(self.load.clients))?;
        }
        let (most, ended) = (Most::default(), AtomicBool::new(false));
        let lived = std::thread::scope(|scope| {
            let looking = scope.spawn(|| self.look(&most, &ended));
            let hours = self.run_hours(&mut clients, &most);
            ended.store(true, Ordering::Relaxed);
            looking.join().expect("it does not panic")?;
            hours
        });
        let (hours, all) = lived?;
        store.settle(&mut |_| ControlFlow::Continue(()))?;
        let settled_bytes = files::occupied_bytes(&self.folder)?;
        clients.iter().try_for_each(Client::compare_all)?;
        store.compact(&mut |_| ControlFlow::Continue(()))?;
        let compacted_bytes = files::occupied_bytes(&self.folder)?;
        clients.iter().try_for_each(Client::compare_all)?;
        let verification = store.verify(&mut |_| ControlFlow::Continue(()))?;
        ensure!(
            verification.faults.is_empty(),
            "the store is damaged: {:?}",
            verification.faults
        );
        Ok(Seen {
            hours,
            latest: Latency::of(&all.latest),
            any: Latency::of(&all.any),
            commit: Latency::of(&all.commit),
            settled_bytes,
            compacted_bytes,
            body_bytes: clients.iter().map(|client| client.body_bytes).sum(),
        })
    }

    /// Notes the most that is on disk and in memory.
    fn look(&self, most: &Most, ended: &AtomicBool) -> Result<()> {
        while !ended.load(Ordering::Relaxed) {
            most.disk
                .fetch_max(files::occupied_bytes(&self.folder)?, Ordering::Relaxed);
            most.memory.fetch_max(resident_bytes()?, Ordering::Relaxed);
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn run_hours(&self, clients: &mut [Client], most: &Most) -> Result<(Vec<Hour>, Times)> {
        let (mut hours, mut all) = (Vec::new(), Times::default());
        for hour in 0..self.load.hours {
            most.disk.store(0, Ordering::Relaxed);
            most.memory.store(0, Ordering::Relaxed);
            let begin = Instant::now();
            let times = std::thread::scope(|scope| {
                let running: Vec<_> = clients
                    .iter_mut()
                    .map(|client| scope.spawn(move || self.run_hour(client, hour, begin)))
                    .collect();
                let mut times = Times::default();
                for client in running {
                    times.append(&client.join().expect("it does not panic")?);
                }
                anyhow::Ok(times)
            })?;
            let disk_bytes = files::occupied_bytes(&self.folder)?;
            hours.push(Hour {
                hour: hour + 1,
                seconds: begin.elapsed().as_secs_f64(),
                operations: times.operations,
                body_bytes: clients.iter().map(|client| client.body_bytes).sum(),
                disk_bytes,
                disk_bytes_max: disk_bytes.max(most.disk.load(Ordering::Relaxed)),
                rss_bytes: resident_bytes()?.max(most.memory.load(Ordering::Relaxed)),
                latest: Latency::of(&times.latest),
                any: Latency::of(&times.any),
                commit: Latency::of(&times.commit),
            });
            all.append(&times);
        }
        Ok((hours, all))
    }

    /// Does the operations of one client that are due in an hour. It begins and ends at night.
    fn run_hour(&self, client: &mut Client, hour: u32, begin: Instant) -> Result<Times> {
        let mut times = Times::default();
        let end = begin + Duration::from_secs_f64(self.load.hour_s);
        let sun = (f64::from(hour % 24) / 24.0 * std::f64::consts::PI).sin();
        let rate = self.load.rate as f64 / self.load.clients as f64 * (NIGHT + (1.0 - NIGHT) * sun * sun);
        let mut number = 0_u32;
        loop {
            let due = match self.load.rate {
                0 => Instant::now(),
                _ => begin + Duration::from_secs_f64(f64::from(number) / rate),
            };
            if due >= end {
                return Ok(times);
            }
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let begin = Instant::now();
            let (kind, done) = client.operate()?;
            times.add(kind, done - begin);
            number += 1;
        }
    }
}

/// Returns the memory that this process has now, bytes.
fn resident_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.context("/proc/self/status has no VmRSS")? << 10)
}
