//! `ibid bench chunkers`.

use super::observe::Observed;
use super::open::Context;
use super::watch::Watch;
use crate::args::ChunkersArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};
use ibid_chunk::Backend;
use ibid_measure::{Error, Plan, compare, html};
use std::path::Path;

pub(crate) fn run(context: &mut Context, args: &ChunkersArgs) -> Result<Outcome> {
    let outputs = [args.report.as_deref(), args.json.file()];
    outputs.into_iter().flatten().try_for_each(check_place)?;
    let contenders = args.contenders();
    let plan = Plan {
        paths: args.paths.clone(),
        contenders: contenders.map_err(|error| Failure::Usage(format!("--averages: {error}")))?,
        backends: match args.backends.as_slice() {
            [] => Backend::available().collect(),
            named => named.to_vec(),
        },
        rounds: args.rounds,
        sample: args.sample,
        threads: std::thread::available_parallelism().map_or(1, Into::into),
    };
    let watch = Watch::start(Verb::Look, context.global.quiet)?;
    let mut observed = Observed::new(&watch.monitor);
    let comparison = compare(&plan, &mut observed);
    let is_complete = observed.is_complete;
    watch.finish();
    let comparison = comparison.map_err(|error| match error {
        Error::Stopped => Failure::Interrupted("nothing was written"),
        error => error.into(),
    })?;
    if let Some(path) = &args.report {
        write(path, &html(&comparison))?;
    }
    if let Some(path) = args.json.file() {
        write(path, &print::chunkers_json(&comparison)?)?;
    }
    print::chunkers(&mut context.out, &comparison)?;
    Ok(if is_complete { Outcome::Done } else { Outcome::Partial })
}

/// Refuses what can't be written to before minutes are spent on what to write.
fn check_place(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let error = |kind: std::io::ErrorKind| Err(Failure::local("write", path, kind.into()));
    match folder.unwrap_or(Path::new(".")).metadata() {
        _ if path.is_dir() => error(std::io::ErrorKind::IsADirectory),
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => error(std::io::ErrorKind::NotADirectory),
        Err(source) => Err(Failure::local("write", path, source)),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|source| Failure::local("write", path, source))
}
