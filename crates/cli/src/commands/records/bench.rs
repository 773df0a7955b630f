//! `ibid bench records`.

use std::path::{Path, PathBuf};

use ibid_bench::{Bursts, Error, RecordsPlan, records, records_html};

use super::fields::Shape;
use super::lines::{Line, Lines};
use crate::args::RecordsBenchArgs;
use crate::commands::observe::Observed;
use crate::commands::open::Context;
use crate::commands::output;
use crate::commands::watch::Watch;
use crate::failure::{Failure, Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context, args: &RecordsBenchArgs) -> Result<Outcome> {
    let outputs = [args.report.as_deref(), args.json.file()];
    outputs.into_iter().flatten().try_for_each(output::check_place)?;
    let watch = Watch::start_records(context.global.quiet)?;
    let sample = read(context, args, &watch)?;
    let folder = Folder::new(args.work.as_deref())?;
    let plan = RecordsPlan {
        records: sample,
        folder: folder.0.clone(),
        traces: args.traces.clone(),
        bursts: Bursts {
            count: args.bursts,
            busy: args.busy,
            idle: args.idle,
        },
    };
    let found = records(&plan, &mut Observed::new(&watch.monitor));
    watch.finish();
    drop(folder);
    let found = found.map_err(|error| match error {
        Error::Stopped => Failure::Interrupted("nothing was written".into()),
        error => error.into(),
    })?;
    if let Some(path) = &args.report {
        output::write(path, &records_html(&found))?;
    }
    if let Some(path) = args.json.file() {
        output::write(path, &print::records_bench_json(&found)?)?;
    }
    print::records_bench(&mut context.out, &found)?;
    Ok(Outcome::Done)
}

/// Keys and bodies of the first lines, up to so many bytes.
fn read(context: &Context, args: &RecordsBenchArgs, watch: &Watch) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let shape = Shape::Fields {
        key: args.key.clone(),
        body: args.body.clone(),
    };
    let (mut records, mut bytes) = (Vec::new(), 0);
    for file in &args.files {
        let mut lines = Lines::open(file, context.global.memory, &watch.monitor)?;
        while bytes < args.sample {
            let line = match lines.next() {
                Ok(line) => line,
                Err(_) if watch.monitor.is_cancelled() => {
                    return Err(Failure::Interrupted("nothing was written".into()));
                }
                Err(source) => return Err(Failure::local("read", file, source)),
            };
            let record = match line {
                None => break,
                Some(Line::Waiting) => continue,
                Some(Line::Whole(line)) if line.trim_ascii().is_empty() => continue,
                Some(Line::Whole(line)) => shape.record(line).map(|(key, body)| (key, body.into_owned())),
                Some(Line::TooLong { bytes_max }) => Err(format!("it has more than {bytes_max} bytes")),
            };
            let (key, body) = record.map_err(|problem| {
                Failure::Fatal(format!("{}, line {}: {problem}", print::name(file), lines.number))
            })?;
            bytes += body.len();
            records.push((key, body));
        }
    }
    if records.is_empty() {
        return Err(Failure::Usage("there are no records in these files".to_owned()));
    }
    Ok(records)
}

/// A folder of our own, removed with what is in it.
struct Folder(PathBuf);

impl Folder {
    fn new(work: Option<&Path>) -> Result<Folder> {
        let work = work.map_or_else(std::env::temp_dir, Path::to_owned);
        let folder = work.join(format!("ibid-bench-records-{}", std::process::id()));
        let made = std::fs::create_dir(&folder);
        made.map_err(|source| Failure::local("make", &folder, source))?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Who can't have it removed is told so by whoever tried before.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
