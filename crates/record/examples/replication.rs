//! Measures the cost of a replica: bytes of messages for bytes of bodies.
//!
//! `cargo run --release -p ibid-record --example replication FILE FOLDER [apart]
//! [nats://HOST/NAME]`
//!
//! FILE has JSON objects with `key`, `rev` and `body`, one a line. FOLDER is made. Revisions are
//! versions of their key, or with `apart` records of keys of their own, without a hint that they
//! are similar. With an address of NATS, the log is published there, and another replica reads it.

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use ibid_record::replicate::nats::{self, Address, Published, Publishing};
use ibid_record::replicate::{self, Progress, Receiver, Sender};
use ibid_record::{Batch, Durability, Options, Store, Versions};

/// Records in a batch.
const BATCH: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("a file and a folder expected".into());
    };
    let (mut apart, mut address) = (false, None);
    for argument in arguments {
        match &argument[..] {
            "apart" => apart = true,
            _ => address = Some(argument.parse::<Address>()?),
        }
    }
    let options = Options::default().with_durability(Durability::Batched(Duration::from_secs(1)));
    let path = |name: &str| Path::new(&folder).join(name);
    let primary = Store::open(path("primary"), options.with_oplog(true))?;
    let records = primary.namespace("records", Versions::Kept)?;
    let begun = Instant::now();
    let (mut bodies, mut batch) = (0, Batch::new());
    for line in BufReader::new(File::open(file)?).lines() {
        let line: serde_json::Value = serde_json::from_str(&line?)?;
        let (Some(key), Some(body)) = (line["key"].as_str(), line["body"].as_str()) else {
            return Err("key and body expected".into());
        };
        bodies += body.len();
        let key = if apart {
            format!("{key}/{}", line["rev"])
        } else {
            key.to_owned()
        };
        batch.put(&records, key.as_bytes(), body.as_bytes());
        if batch.len() == BATCH {
            primary.commit(std::mem::take(&mut batch))?;
        }
    }
    primary.commit(batch)?;
    primary.finish_encoding()?;
    println!("loaded {bodies} bytes in {:.1} s", begun.elapsed().as_secs_f64());

    let replica = Store::open(path("replica"), options)?;
    replica.follow()?;
    let (mut sender, mut receiver) = (Sender::new(&primary)?, Receiver::new(&replica)?);
    let begun = Instant::now();
    let (mut sending, mut asked) = (Duration::ZERO, 0);
    loop {
        let request = receiver.ask()?;
        asked += request.len() as u64;
        let now = Instant::now();
        let answer = sender.answer(&request)?;
        sending += now.elapsed();
        if receiver.take(&answer)?.is_current() {
            break;
        }
    }
    let traffic = sender.traffic();
    println!(
        "{} bodies of {} bytes, {} as deltas, in {} messages of {} bytes, asked for in {asked}: \
         1/{:.1}; {:.1} s, {:.1} of them sending",
        traffic.bodies,
        traffic.body_bytes,
        traffic.deltas,
        traffic.messages,
        traffic.bytes,
        traffic.body_bytes as f64 / (traffic.bytes + asked) as f64,
        begun.elapsed().as_secs_f64(),
        sending.as_secs_f64(),
    );
    let found = replica.verify(&mut |_| ControlFlow::Continue(()))?;
    println!("{} faults at the replica", found.faults_total);

    let Some(address) = address else { return Ok(()) };
    let (begun, stop) = (Instant::now(), AtomicBool::new(false));
    let current = |progress: Result<Progress, &ibid_record::Error>| {
        let is_current = progress
            .inspect_err(|error| println!("{error}"))
            .is_ok_and(|progress| progress.is_current());
        stop.store(is_current, Relaxed);
    };
    nats::publish(&primary, &address, Publishing::default(), &stop, &mut { current })?;
    println!("published in {:.1} s", begun.elapsed().as_secs_f64());
    let replica = Store::open(path("reader"), options)?;
    replica.follow()?;
    stop.store(false, Relaxed);
    let begun = Instant::now();
    replicate::follow(&replica, &mut Published::at(address)?, &stop, &mut { current })?;
    println!("read in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}
