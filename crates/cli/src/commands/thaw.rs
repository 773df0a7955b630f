//! Has packs thawed that a command needs, and waits for that.

use ibid_repo::{ArchivedPacks, Repository};

use super::costs::{Costs, ThawCost};
use super::open::{Context, Opened};
use super::watch::Watch;
use crate::args::ThawArgs;
use crate::failure::{Failure, Result};
use crate::print::{self, Verb};

/// What an interrupted wait leaves.
const LEFT: &str = "the service goes on thawing what was asked for. To go on, run it again: nothing is asked for twice";

/// A command that reads data, of which some may be in an archive.
pub(crate) struct Reading<'a> {
    /// Its name.
    pub(crate) of: &'static str,
    pub(crate) verb: Verb,
    /// What it reads from.
    pub(crate) opened: &'a Opened,
    pub(crate) thaw: &'a ThawArgs,
    /// Runs it in a rehearsal of the repository.
    pub(crate) rehearse: &'a dyn Fn(&Repository) -> ibid_repo::Result<()>,
}

impl Reading<'_> {
    /// Estimates the command if that is wanted, and has thawed what it needs if that was asked for. Returns what was
    /// spent for that, before requests are paid; `None` if the command ends with it.
    pub(crate) fn begin(&self, context: &mut Context, costs: &mut Costs) -> Result<Option<f64>> {
        self.begin_with(context, costs, |context, costs| {
            costs.begin(context, self.of, self.opened, |_, rehearsal| {
                Ok((self.rehearse)(rehearsal)?)
            })
        })
    }

    /// Does the same where `estimate` makes the estimate, and returns whether to go on.
    pub(crate) fn begin_with(
        &self,
        context: &mut Context,
        costs: &mut Costs,
        estimate: impl FnOnce(&mut Context, &Costs) -> Result<bool>,
    ) -> Result<Option<f64>> {
        let repository = &self.opened.repository;
        let packs = match (costs.is_wanted(), self.thaw.thaw) {
            // The estimate goes on with the index of this look, so what is wrong with that is said here.
            (true, _) => self.opened.warning().archived_for(self.rehearse)?,
            (false, true) => repository.archived_for(self.rehearse)?,
            (false, false) => ArchivedPacks::default(),
        };
        costs.thaw(self.opened, &packs, self.thaw)?;
        if !estimate(context, costs)? {
            return Ok(None);
        }
        let spent = match self.thaw.thaw {
            true => self.thaw(context, costs, packs)?,
            false => Some(0.0),
        };
        // The command loads the index by itself: it says what is wrong with it, and has less memory for it in a copy.
        repository.refresh();
        Ok(spent)
    }

    /// Has packs thawed, and waits until all can be read that the command needs. `packs` are those that it needs as far
    /// as that is known.
    fn thaw(&self, context: &mut Context, costs: &mut Costs, mut packs: ArchivedPacks) -> Result<Option<f64>> {
        let (opened, how, currency) = (self.opened, self.thaw.how(), costs.currency(self.opened));
        let is_quiet = context.global.quiet || context.out.json;
        let mut spent = 0.0;
        loop {
            let cost = costs.thaw(opened, &packs, self.thaw)?;
            costs.allow_more(opened, spent)?;
            let watch = Watch::silent(self.verb)?;
            let repository = opened.repository.watched_by(&watch.monitor);
            if let Some(cost) = cost.filter(|_| !is_quiet) {
                print::thaw_begins(&cost, &currency);
            }
            // Of what can be read, copies that end soon live for longer.
            let asked = repository
                .thaw(&mut packs, how)
                .map_err(Failure::if_interrupted(LEFT))?;
            if self.thaw.thaw_only {
                let cost = cost.unwrap_or_else(|| ThawCost::nothing(how));
                let about = (opened.about, self.of);
                print::thaw_asked(&mut context.out, about, &packs, &cost, asked, &currency)?;
                return Ok(None);
            }
            let Some(cost) = cost else {
                return Ok(Some(spent));
            };
            spent += cost.cost.unwrap_or(0.0);
            let mut before = packs.waiting().packs;
            let waited = repository.wait_until_thawed(&mut packs, how, self.thaw.poll(), |packs| {
                let left = packs.waiting().packs;
                if std::mem::replace(&mut before, left) != left && !is_quiet {
                    print::thaw_goes_on(packs);
                }
            });
            watch.finish();
            waited.map_err(Failure::if_interrupted(LEFT))?;
            // What deltas need is known now.
            packs = opened.repository.archived_for(self.rehearse)?;
        }
    }
}
