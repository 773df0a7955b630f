//! Has packs thawed that a command needs, and waits for that.

use ibid_repo::{ArchivedPacks, Repository};

use super::costs::Costs;
use super::open::{Context, Opened};
use super::watch::Watch;
use crate::args::ThawArgs;
use crate::failure::{Failure, Result};
use crate::print::{self, Verb};

/// What an interrupted wait leaves.
const LEFT: &str = "the service goes on thawing what was asked for. To go on, run it again: nothing is asked for twice";

/// How a thawing ended.
pub(crate) enum Thawed {
    /// All can be read. So much was spent for that.
    All(f64),
    /// It was only to be asked for.
    Asked,
}

/// Has packs thawed, and waits until all can be read that `rehearse` needs. `packs` are those that it needs as far as
/// that is known.
pub(crate) fn thaw(
    context: &mut Context,
    opened: &Opened,
    args: &ThawArgs,
    costs: &mut Costs,
    mut packs: ArchivedPacks,
    rehearse: &dyn Fn(&Repository) -> ibid_repo::Result<()>,
) -> Result<Thawed> {
    let (how, currency) = (args.how(), costs.currency(opened));
    let is_quiet = context.global.quiet || context.out.json;
    let mut spent = 0.0;
    loop {
        let cost = costs.thaw(opened, &packs, how, true)?;
        costs.allow_more(opened, spent)?;
        let watch = Watch::silent(Verb::Restore)?;
        let repository = opened.repository.watched_by(&watch.monitor);
        let Some(cost) = cost else {
            // What ends soon lives for longer.
            repository
                .thaw(&mut packs, how)
                .map_err(Failure::if_interrupted(LEFT))?;
            return Ok(Thawed::All(spent));
        };
        if !is_quiet {
            print::thaw_begins(&cost, &currency);
        }
        let asked = repository
            .thaw(&mut packs, how)
            .map_err(Failure::if_interrupted(LEFT))?;
        spent += cost.cost.unwrap_or(0.0);
        if args.thaw_only {
            print::thaw_asked(&mut context.out, opened.about, &packs, &cost, asked, &currency)?;
            return Ok(Thawed::Asked);
        }
        let mut before = packs.waiting().packs;
        let waited = repository.wait_until_thawed(&mut packs, how, args.poll(), |packs| {
            let left = packs.waiting().packs;
            if std::mem::replace(&mut before, left) != left && !is_quiet {
                print::thaw_goes_on(packs);
            }
        });
        watch.finish();
        waited.map_err(Failure::if_interrupted(LEFT))?;
        // What deltas need is known now.
        packs = opened.repository.archived_for(rehearse)?;
    }
}
