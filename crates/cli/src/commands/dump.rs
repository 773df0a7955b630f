//! `ibid dump`.

use ibid_repo::ArchiveFormat;
use ibid_terminal::number::counted;

use super::no_json;
use super::open::Context;
use super::watch::Watch;
use crate::args::{ArchiveName, DumpArgs};
use crate::failure::{Failure, Outcome, Result};
use crate::print::Verb;

pub(crate) fn run(context: &mut Context, args: &DumpArgs) -> Result<Outcome> {
    no_json(context, "dump")?;
    let opened = context.open()?;
    let info = opened.snapshot(&args.address.snapshot, &args.select)?;
    let watch = Watch::silent(Verb::Look)?;
    if let Some(name) = args.archive {
        let format = match name {
            ArchiveName::Tar => ArchiveFormat::Tar,
            ArchiveName::Zip => ArchiveFormat::Zip,
        };
        if context.out.is_terminal() {
            return Err(Failure::Usage(
                "an archive is not for terminals. Send it into a file or another program, such as `| tar -tvf -`"
                    .into(),
            ));
        }
        let repository = opened.repository.watched_by(&watch.monitor);
        let summary = repository.archive(info.at(&args.address.path), format, context.out.raw())?;
        watch.finish();
        return Ok(match summary.left_out {
            0 => Outcome::Done,
            _ => Outcome::Partial,
        });
    }
    let start = args.offset.unwrap_or(0);
    let end = args.length.map_or(u64::MAX, |length| start.saturating_add(length));
    let out = &mut context.out;
    let found =
        opened
            .repository
            .watched_by(&watch.monitor)
            .dump_parts(info.at(&args.address.path), start..end, |part| out.part(part))?;
    match args.length {
        Some(length) if found < length => Err(Failure::Fatal(format!(
            "the file ends too early: expected {} from byte {start} on, found {found}",
            counted(length, "byte", "bytes")
        ))),
        _ => Ok(Outcome::Done),
    }
}
