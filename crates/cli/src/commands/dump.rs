//! `ibid dump`.

use ibid_repo::{ArchiveFormat, Repository};
use ibid_terminal::number::counted;

use super::costs::{Costs, Meter};
use super::no_json;
use super::open::Context;
use super::thaw::Reading;
use super::watch::Watch;
use crate::args::{ArchiveName, DumpArgs};
use crate::failure::{Failure, Outcome, Result};
use crate::print::Verb;

pub(crate) fn run(context: &mut Context, args: &DumpArgs) -> Result<Outcome> {
    let writes = !args.costs.estimate && !args.thaw.thaw_only;
    if writes {
        no_json(context, "dump")?;
    }
    if writes && args.archive.is_some() && context.out.is_terminal() {
        return Err(Failure::Usage(
            "an archive is not for terminals. Send it into a file or another program, such as `| tar -tvf -`".into(),
        ));
    }
    let mut costs = Costs::new(context, &args.costs)?;
    let opened = context.open()?;
    costs.know(&opened)?;
    let info = opened.snapshot(&args.address.snapshot, &args.select)?;
    let start = args.offset.unwrap_or(0);
    let end = args.length.map_or(u64::MAX, |length| start.saturating_add(length));
    let rehearse = |rehearsal: &Repository| match args.archive {
        Some(_) => rehearsal.plan_archive(info.at(&args.address.path)),
        None => rehearsal.plan_dump(info.at(&args.address.path), start..end),
    };
    let reading = Reading {
        of: "dump",
        verb: Verb::Look,
        opened: &opened,
        thaw: &args.thaw,
        rehearse: &rehearse,
    };
    let Some(spent) = reading.begin(context, &mut costs)? else {
        return Ok(Outcome::Done);
    };
    let meter = costs.meter_after(context, spent);
    let watch = Watch::start_metered(Verb::Look, true, &meter)?;
    let repository = opened.repository.watched_by(&watch.monitor);
    let from = info.at(&args.address.path);
    let outcome = match args.archive {
        Some(name) => {
            let format = match name {
                ArchiveName::Tar => ArchiveFormat::Tar,
                ArchiveName::Zip => ArchiveFormat::Zip,
            };
            let summary = repository.archive(from, format, context.out.raw());
            summary.map(|summary| match summary.left_out {
                0 => Ok(Outcome::Done),
                _ => Ok(Outcome::Partial),
            })
        }
        None => {
            let out = &mut context.out;
            let found = repository.dump_parts(from, start..end, |part| out.part(part));
            found.map(|found| match args.length {
                Some(length) if found < length => Err(Failure::Fatal(format!(
                    "the file ends too early: expected {} from byte {start} on, found {found}",
                    counted(length, "byte", "bytes")
                ))),
                _ => Ok(Outcome::Done),
            })
        }
    };
    watch.finish();
    let outcome = outcome.map_err(Failure::if_interrupted("what was written is not all"));
    outcome.map_err(|failure| Meter::explain(&meter, failure))?
}
