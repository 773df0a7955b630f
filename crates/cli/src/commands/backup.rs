//! `ibid backup`.

use std::path::PathBuf;

use ibid_repo::{BackupOptions, ChangedBlocks, Excludes, Stream};
use ibid_storage::SWEEP_AGE;
use ibid_terminal::input::{self, PatientInput};

use super::init;
use super::open::{Context, Opened};
use super::watch::Watch;
use crate::args::BackupArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};

pub(crate) fn run(context: &mut Context, mut args: BackupArgs) -> Result<Outcome> {
    if !args.init && !args.settings.is_empty() {
        return Err(Failure::Usage(
            "settings of a new repository need --init: a repository that exists keeps its settings".into(),
        ));
    }
    if args.init && args.dry_run {
        return Err(Failure::Usage(
            "--init does not go with --dry-run, which creates nothing. Leave out one of them".into(),
        ));
    }
    let changed_blocks = args.changed_blocks.take().map(read_map).transpose()?;
    let opened = match args.init {
        true => init::open_or_make(context, &args.settings)?,
        false => context.open_to_store()?,
    };
    if !args.dry_run {
        sweep(context, &opened);
    }
    let stream = args.stdin.take().map(|name| Stream::new(name, PatientInput));
    let options = options(args, !context.global.quiet).changed_blocks(changed_blocks);
    let watch = Watch::start(Verb::Read, context.global.quiet)?;
    let repository = opened.repository.watched_by(&watch.monitor);
    let result = match stream {
        Some(stream) => repository.backup_stream(stream, &options),
        None => repository.backup(&options),
    };
    let problems = watch.finish();
    let left = "the next backup continues with what was stored so far";
    let summary = result.map_err(Failure::if_interrupted(left))?;
    print::backup(&mut context.out, opened.about, &summary, &problems)?;
    Ok(
        if summary.counters.unreadable + summary.attributes_lost + summary.damaged_frames + summary.lost_packs > 0 {
            Outcome::Partial
        } else {
            Outcome::Done
        },
    )
}

/// Removes unfinished files of killed backups. They do no harm, so a failure here is ignored.
fn sweep(context: &Context, opened: &Opened) {
    if let Ok(swept) = opened.storage.sweep(SWEEP_AGE)
        && swept.files > 0
        && !context.global.quiet
    {
        print::swept(swept.files, swept.bytes);
    }
}

/// Reads a map of changed blocks from a file or standard input.
fn read_map(path: PathBuf) -> Result<ChangedBlocks> {
    Ok(ChangedBlocks::read(input::open(&path)?)?)
}

fn options(args: BackupArgs, estimate: bool) -> BackupOptions {
    let exclude = args.exclude;
    let excludes = Excludes::default()
        .patterns(exclude.exclude)
        .files(exclude.exclude_file)
        .caches(exclude.exclude_caches)
        .larger_than(exclude.exclude_larger_than)
        .one_file_system(exclude.one_file_system);
    let tags = args.tag.into_iter().filter(|tag| !tag.is_empty());
    BackupOptions::default()
        .paths(args.paths)
        .excludes(excludes)
        .tags(tags.collect::<Vec<_>>())
        .host(args.host)
        .time(args.time)
        .program(concat!("ibid ", env!("CARGO_PKG_VERSION")))
        .force(args.force)
        .parent(args.parent)
        .verify_unchanged(args.verify_unchanged.unwrap_or(0.0))
        .dry_run(args.dry_run)
        .compression(args.compression)
        .similarity(args.similarity)
        .hints(args.hints)
        .estimate(estimate)
        .threads(args.threads.map(usize::from))
}
