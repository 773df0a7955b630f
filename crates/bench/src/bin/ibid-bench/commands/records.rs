//! `ibid-bench records`.

use std::path::{Path, PathBuf};

use ibid_bench::{Bursts, RecordsPlan, records, records_html};
use ibid_terminal::{Fields, FileError, Line, Lines, Unit, path_text};

use crate::args::RecordsArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::output::Files;
use crate::print;
use crate::watch::Watch;

pub(crate) fn run(args: &RecordsArgs, quiet: bool) -> Result<Outcome> {
    let files = Files {
        json: &args.json,
        report: Some(&args.report),
    };
    files.check_places()?;
    let mut watch = Watch::start(Unit::Records, quiet)?;
    let sample = read(args, &mut watch)?;
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
    let found = records(&plan, &mut watch)?;
    let outcome = watch.finish();
    drop(folder);
    let document = print::records::document(&found);
    files.publish(
        "records",
        &document,
        || records_html(&found),
        |out| print::records::text(out, &found),
    )?;
    Ok(outcome)
}

/// Reads keys and bodies of the first lines, up to `--sample` bytes of bodies.
fn read(args: &RecordsArgs, watch: &mut Watch) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let fields = Fields::Named {
        key: args.key.clone(),
        body: args.body.clone(),
        time: None,
    };
    let (mut records, mut bytes) = (Vec::new(), 0);
    for file in &args.files {
        let mut lines = Lines::open(file, args.memory, watch.counter())?;
        if let Some(bytes) = lines.file_bytes {
            watch.expect_more(bytes);
        }
        while bytes < args.sample {
            let line = match lines.next() {
                Ok(line) => line,
                Err(_) if watch.is_stopped() => return Err(Failure::Interrupted("nothing was written")),
                Err(source) => return Err(FileError::new("read", file, source).into()),
            };
            let record = match line {
                None => break,
                Some(Line::Waiting) => continue,
                Some(Line::Whole(line)) if line.trim_ascii().is_empty() => continue,
                Some(Line::Whole(line)) => fields.record(line).map(|record| (record.key, record.body.into_owned())),
                Some(Line::TooLong { bytes_max }) => Err(format!("it has more than {bytes_max} bytes")),
            };
            let (key, body) = record
                .map_err(|problem| Failure::Fatal(format!("{}, line {}: {problem}", path_text(file), lines.number)))?;
            bytes += body.len();
            records.push((key, body));
        }
    }
    if records.is_empty() {
        return Err(Failure::Usage("there are no records in these files".to_owned()));
    }
    Ok(records)
}

/// A temporary folder, removed with its contents.
struct Folder(PathBuf);

impl Folder {
    fn new(work: Option<&Path>) -> Result<Folder> {
        let work = work.map_or_else(std::env::temp_dir, Path::to_owned);
        let folder = work.join(format!("ibid-bench-records-{}", std::process::id()));
        let made = std::fs::create_dir(&folder);
        made.map_err(|source| FileError::new("make", &folder, source))?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // An error of the removal would hide the command's own error.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
