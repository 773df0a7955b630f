//! `ibid backup`.

use std::path::PathBuf;
use std::time::Instant;

use ibid_repo::{BackupOptions, ChangedBlocks, Checkpoints, Error, Excludes, Stream};
use ibid_storage::SWEEP_AGE;
use ibid_terminal::Progress;
use ibid_terminal::input::{self, PatientInput};

use super::costs::{self, Costs, Meter};
use super::open::{Context, Opened};
use super::producer::Producer;
use super::watch::Watch;
use super::{init, lists};
use crate::args::{self, BackupArgs};
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Verb};

/// What an interrupted backup with checkpoints leaves.
const FINISHED: &str = "the next backup of the same paths does not read finished files again";
/// What an interrupted backup without them leaves: of a stream, or with a map of changed blocks.
pub(super) const LEFT: &str = "the next backup continues with what was stored so far";

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
    if args.init && context.global.key_file().is_some() {
        return Err(Failure::Usage(
            "--init does not go with the key of a writer, which belongs to a repository that exists. Leave it out"
                .into(),
        ));
    }
    let paths = lists::paths(&mut args)?;
    let changed_blocks = args.changed_blocks.take().map(read_map).transpose()?;
    let stdin = args.stdin.take();
    let stdin_name = args.stdin_name.take();
    let from_command = args.stdin_from_command;
    if from_command && paths.is_empty() {
        return Err(Failure::Usage(
            "--stdin-from-command needs a command after `--`, such as `-- pg_dump mill`".into(),
        ));
    }
    let started = Instant::now();
    let costs = Costs::limit(context, args.max_cost)?;
    let settings = args.init.then(|| std::mem::take(&mut args.settings));
    // To count everything beforehand is a second walk, which only the progress has a use for.
    let estimate = !context.global.quiet && Progress::is_shown();
    let mut options = options(args, estimate).changed_blocks(changed_blocks);
    if !from_command {
        options.paths.clone_from(&paths);
    }
    // Files can be read again, and a stream can't.
    let reads_files = !from_command && stdin.is_none();
    let mut opened = match settings {
        Some(settings) => {
            // Whatever is wrong should be found before there is a repository.
            options.check()?;
            init::open_or_make(context, &settings)?
        }
        None if reads_files => context.open_to_back_up()?,
        None => context.open_to_store()?,
    };
    opened.place.refuse_deltas(options.similarity)?;
    costs.know(&opened)?;
    if !options.dry_run {
        sweep(context, &opened);
    }
    let meter = costs.meter(context);
    let watch = Watch::start_metered(Verb::Read, context.global.quiet, &meter)?;
    let repository = opened.repository.watched_by(&watch.monitor);
    let has_checkpoints = reads_files && options.changed_blocks.is_none();
    let left = if has_checkpoints { FINISHED } else { LEFT };
    let mut producer = None;
    let result = if from_command {
        let (started, output) = Producer::start(&paths)?;
        producer = Some(started);
        let name = stdin_name.unwrap_or_else(|| "stdin".into());
        repository.backup_stream(Stream::new(name, output), &options)
    } else if let Some(name) = stdin {
        repository.backup_stream(Stream::new(name, PatientInput), &options)
    } else {
        match repository.backup(&options) {
            Err(Error::KeyGone { .. }) => {
                opened = context.open_again(&opened)?;
                opened.place.refuse_deltas(options.similarity)?;
                opened.repository.watched_by(&watch.monitor).backup(&options)
            }
            result => result,
        }
    };
    let was_stopped = watch.monitor.is_cancelled();
    let problems = watch.finish();
    if let Some(producer) = producer {
        producer.end(&result, was_stopped)?;
    }
    let summary = result.map_err(Failure::if_interrupted(left));
    let summary = summary.map_err(|failure| Meter::explain(&meter, failure))?;
    costs::remember_rates(&opened, started);
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
pub(super) fn sweep(context: &Context, opened: &Opened) {
    if let Some(swept) = opened.place.sweep(SWEEP_AGE)
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
        .any_case(exclude.iexclude)
        .if_present(exclude.exclude_if_present)
        .caches(exclude.exclude_caches)
        .larger_than(exclude.exclude_larger_than)
        .one_file_system(exclude.one_file_system);
    let tags = args.tag.iter().flat_map(|tag| args::tags(tag)).map(str::to_owned);
    BackupOptions::default()
        .excludes(excludes)
        .tags(tags.collect::<Vec<_>>())
        .host(args.host)
        .time(args.time)
        .program(super::PROGRAM)
        .force(args.force)
        .parent(args.parent)
        .verify_unchanged(args.verify_unchanged.unwrap_or(0.0))
        .skip_if_unchanged(args.skip_if_unchanged)
        .dry_run(args.dry_run)
        .compression(args.compression)
        .similarity(args.similarity)
        .hints(args.hints)
        .checkpoints(args.checkpoint_every.map_or(Checkpoints::Auto, Checkpoints::Every))
        .estimate(estimate)
        .threads(args.threads.map(usize::from))
}
