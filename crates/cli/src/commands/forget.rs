//! `ibid forget`.

use std::io::{BufRead, IsTerminal};

use ibid_repo::{Error, FileId, GroupBy, KeepPolicy, PolicyGroup};
use ibid_storage::ErrorKind;
use ibid_terminal::escape;
use ibid_terminal::number::counted;

use super::costs::Costs;
use super::open::{Context, Opened};
use super::{PROGRAM, prune};
use crate::args::{self, ForgetArgs, GroupName, RuleArgs};
use crate::failure::{Failure, Outcome, Result};
use crate::print::{self, Forgotten, Pruned};

/// Days without snapshots after which a profile does not forget what was made before them. A clock that is wrong is
/// mostly wrong by years, and a machine is seldom off for so long.
const GAP_DAYS_MAX: i64 = 31;

pub(crate) fn run(context: &mut Context, args: &ForgetArgs) -> Result<Outcome> {
    let costs = Costs::new(context, &args.costs)?;
    let opened = context.open()?;
    costs.know(&opened)?;
    if args.undo {
        return undo(context, &opened, args);
    }
    let policy = policy(&args.rules);
    let groups = match (args.snapshots.as_slice(), policy.is_empty()) {
        ([], true) => {
            return Err(Failure::Usage(
                "nothing to forget was named. Name snapshots, or give rules such as --keep-daily 7; one with 0 is none"
                    .to_owned(),
            ));
        }
        ([], false) => {
            // A snapshot that can't be read may be one that a rule keeps.
            let all = opened.snapshots_strictly(&args.select)?;
            opened.warning().apply_policy(&policy, all, group_by(&args.group_by))?
        }
        (named, _) => named_groups(&opened, args, named)?,
    };
    let ids = PolicyGroup::ids_forgotten(&groups);
    let by_rule = args.snapshots.is_empty();
    if args.by_profile && !args.yes {
        keep_some(&groups)?;
        keep_before_gaps(&groups)?;
    }
    groups.iter().for_each(print::forgotten_for_gap);
    let options = prune::default_options();
    let goes_on = costs.begin(context, "forget", &opened, |_, rehearsal| {
        rehearsal.forget(&ids)?;
        if args.prune {
            rehearsal.prune(&options)?;
        }
        Ok(())
    })?;
    if !goes_on {
        return Ok(Outcome::Done);
    }
    // Snapshots of a writer may be there to take the places of others, so a profile does not drop most of them, either.
    let of_writer = context.global.writer.is_some();
    let may_ask = (of_writer || !args.by_profile) && !args.yes && !args.dry_run;
    if may_ask && by_rule {
        if groups.iter().any(PolicyGroup::loses_most_seen) {
            confirm(
                context,
                &groups,
                &ids,
                "more than half of those that were there when the rules were applied last",
            )?;
        } else if groups.iter().any(PolicyGroup::loses_most) {
            confirm(context, &groups, &ids, "more than half of a group")?;
        }
    }
    if !args.dry_run {
        if by_rule {
            opened.repository.note_seen()?;
        }
        forget(&opened, &ids, args.prune)?;
    }
    let forgotten = Forgotten {
        groups: &groups,
        by_rule,
        dry_run: args.dry_run,
    };
    let pruned = match (args.prune, args.dry_run) {
        (false, _) => Pruned::No,
        (true, true) => Pruned::Would(prune::estimate(context, &opened, &ids, &options)?),
        (true, false) => Pruned::Done(prune::prune(context, &opened, &options, &costs)?),
    };
    print::forgotten(&mut context.out, opened.about, &forgotten, &pruned)?;
    Ok(match &pruned {
        Pruned::No => Outcome::Done,
        Pruned::Would(estimate) => prune::outcome(estimate),
        Pruned::Done(summary) => prune::outcome(&summary.estimate),
    })
}

/// Forgets snapshots. If no space is left to keep them for `--undo`, they are forgotten for good if a prune follows,
/// after which they could not come back either.
fn forget(opened: &Opened, ids: &[FileId], is_pruned: bool) -> Result<()> {
    match opened.repository.forget(ids) {
        Err(Error::Storage(error)) if error.kind() == ErrorKind::NoSpace => match is_pruned {
            true => {
                print::forgotten_for_good();
                Ok(opened.repository.forget_for_good(ids)?)
            }
            false => Err(Failure::Fatal(format!(
                "no space is left in {} to keep what is forgotten for --undo. Add --prune to forget it for good and \
                 free what it took, or free space there",
                opened.repository.location()
            ))),
        },
        forgotten => Ok(forgotten?),
    }
}

/// Returns the snapshots that were named, as one group of which nothing is kept.
fn named_groups(opened: &Opened, args: &ForgetArgs, named: &[String]) -> Result<Vec<PolicyGroup>> {
    let chosen = opened.chosen(named, &args.select)?;
    let one_group = GroupBy::default().host(false).paths(false);
    Ok(KeepPolicy::default().apply(chosen, one_group))
}

fn policy(rules: &RuleArgs) -> KeepPolicy {
    let tags = rules.keep_tag.iter();
    let tags = tags.map(|list| args::tags(list).map(str::to_owned).collect());
    KeepPolicy::default()
        .last(rules.keep_last)
        .hourly(rules.keep_hourly)
        .daily(rules.keep_daily)
        .weekly(rules.keep_weekly)
        .monthly(rules.keep_monthly)
        .yearly(rules.keep_yearly)
        .within(rules.keep_within)
        .tags(tags.collect())
}

fn group_by(names: &[GroupName]) -> GroupBy {
    GroupBy::default()
        .host(names.contains(&GroupName::Host))
        .paths(names.contains(&GroupName::Paths))
        .tags(names.contains(&GroupName::Tags))
}

/// Refuses to forget every snapshot of a group.
fn keep_some(groups: &[PolicyGroup]) -> Result<()> {
    let is_lost = |group: &&PolicyGroup| group.snapshots.iter().all(|one| !one.is_kept());
    let Some(group) = groups.iter().find(is_lost).filter(|group| !group.snapshots.is_empty()) else {
        return Ok(());
    };
    let paths = group.paths.iter().flatten().map(|path| escape(path));
    let tags = group.tags.iter().flatten().map(|tag| escape(tag.as_bytes()));
    let host = group.host.iter().map(|host| escape(host.as_bytes()));
    let name: Vec<String> = host.chain(paths).chain(tags).collect();
    Err(Failure::Usage(format!(
        "nothing was forgotten: the rules of the profile keep none of the {} of {}. Add a rule such as keep-last = 1, \
         or yes = true if that is meant",
        counted(group.snapshots.len() as u64, "snapshot", "snapshots"),
        name.join(" ")
    )))
}

/// Refuses to forget what was made before a long time without snapshots: there may be no such time, and the clock is
/// wrong.
fn keep_before_gaps(groups: &[PolicyGroup]) -> Result<()> {
    let long = groups
        .iter()
        .filter_map(|group| group.gap)
        .find(|gap| gap.days() > GAP_DAYS_MAX);
    let Some(gap) = long else {
        return Ok(());
    };
    Err(Failure::Usage(format!(
        "nothing was forgotten: between the snapshots of {} and {} is so much time that keep-within would forget {}. \
         If the clock of this machine is wrong, set it. If it is right, run `ibid --profile NAME forget --yes` once, \
         or add yes = true to the profile",
        print::local_time(gap.before),
        print::local_time(gap.after),
        counted(gap.forgotten as u64, "snapshot", "snapshots"),
    )))
}

/// Asks whether to forget most of a group.
fn confirm(context: &mut Context, groups: &[PolicyGroup], ids: &[FileId], which: &str) -> Result<()> {
    let all: usize = groups.iter().map(|group| group.snapshots.len()).sum();
    let what = format!("{} of {all} snapshots would be forgotten, {which}", ids.len());
    if context.global.json || !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(format!(
            "{what}. See them with --dry-run, and add --yes to forget them"
        )));
    }
    print::ask(&format!("{what}. Forget them? [y/N] "));
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|source| Failure::local("read", "the terminal", source))?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Interrupted("nothing was forgotten".into())),
    }
}

/// Returns the ids among these that begin as is wanted, one for each.
fn named(wanted: &[String], all: &[FileId]) -> Result<Vec<FileId>> {
    let one = |wanted: &String| {
        let begins = |id: &&FileId| id.to_string().starts_with(&wanted.to_ascii_lowercase());
        let matching: Vec<FileId> = all.iter().filter(begins).copied().collect();
        match matching.as_slice() {
            [id] => Ok(*id),
            [] => Err(Error::NotForgotten { wanted: wanted.clone() }.into()),
            several => Err(Error::AmbiguousSnapshot {
                wanted: wanted.clone(),
                matches: several.len(),
            }
            .into()),
        }
    };
    wanted.iter().map(one).collect()
}

/// Brings back forgotten snapshots.
fn undo(context: &mut Context, opened: &Opened, args: &ForgetArgs) -> Result<Outcome> {
    let (mut outcome, mut damaged) = (Outcome::Done, Vec::new());
    let mut forgotten = opened.repository.forgotten(|id, error| damaged.push((id, error)))?;
    let filter = super::open::filter(&args.select)?;
    forgotten.retain(|info| filter.matches(&info.snapshot));
    if !args.snapshots.is_empty() {
        let readable = forgotten.iter().map(|info| info.id);
        let all: Vec<FileId> = readable.chain(damaged.iter().map(|(id, _)| *id)).collect();
        let wanted = named(&args.snapshots, &all)?;
        forgotten.retain(|info| wanted.contains(&info.id));
        damaged.retain(|(id, _)| wanted.contains(id));
    }
    for (_, error) in damaged {
        outcome = Outcome::Partial;
        print::failure(&error.into());
    }
    let repository = opened.warning();
    let mut back = Vec::new();
    for info in forgotten {
        let id = match args.dry_run {
            true => Ok(None),
            false => repository.remember(info.id, PROGRAM).map(Some),
        };
        match id {
            Ok(id) => back.push((info, id)),
            // Another process has brought it back meanwhile.
            Err(Error::NotForgotten { .. }) if args.snapshots.is_empty() => {}
            Err(error @ Error::PartlyFreed { .. }) => {
                outcome = Outcome::Partial;
                print::failure(&error.into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    print::remembered(&mut context.out, opened.about, &back)?;
    Ok(outcome)
}
