//! The options of the commands that forget snapshots and free what they took.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use ibid_repo::{KeepWithin, Limit};
use ibid_terminal::value::{share, size};

use super::{CostArgs, SelectArgs};
use crate::complete;

#[derive(Debug, Args)]
#[command(after_help = "\
Forgotten snapshots are no longer listed. Their space is freed by `ibid prune`, or at once with --prune. Until then, \
`ibid forget --undo` brings them back.

The rules apply to each group of snapshots by itself: by default to those of one machine and of the same paths. A \
snapshot is kept if any rule keeps it. --dry-run shows which, and why.

Examples:
  ibid forget 4f1a                     one snapshot
  ibid forget --keep-daily 7 --keep-weekly 4 --keep-monthly 6 --dry-run
  ibid forget --keep-within 1y2m --keep-tag release --prune
  ibid forget --host mill --keep-last 10
  ibid forget --undo")]
pub(crate) struct ForgetArgs {
    /// Forget these snapshots
    #[arg(value_name = "SNAP", add = complete::snapshots_or_forgotten(), conflicts_with = "Rules")]
    pub(crate) snapshots: Vec<String>,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    /// Group snapshots by these, separated by commas; `none` for one group of all
    #[arg(long, value_name = "WHAT", value_delimiter = ',', default_value = "host,paths")]
    pub(crate) group_by: Vec<GroupName>,
    /// Show what would be kept and forgotten, and why, and do nothing
    #[arg(short = 'n', long, conflicts_with = "estimate")]
    pub(crate) dry_run: bool,
    /// Free at once what is no longer needed, as `ibid prune` does
    #[arg(long, conflicts_with = "undo")]
    pub(crate) prune: bool,
    /// Bring back forgotten snapshots that no prune has freed yet: these, or all
    #[arg(long, conflicts_with_all = ["Rules", "estimate"])]
    pub(crate) undo: bool,
    /// Do not ask, even if more than half of a group is forgotten
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) costs: CostArgs,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Whether a profile gave the rules: there is no question, and only the loss of a whole group is refused.
    #[arg(skip)]
    pub(crate) by_profile: bool,
}

#[derive(Clone, Debug, Default, Args)]
#[group(id = "Rules", multiple = true)]
#[command(next_help_heading = "Rules")]
pub(crate) struct RuleArgs {
    /// Keep the last N
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) keep_last: u32,
    /// Keep the last one of each of the last N hours that have one
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) keep_hourly: u32,
    /// Keep the last one of each of the last N days that have one
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) keep_daily: u32,
    /// Keep the last one of each of the last N weeks that have one
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) keep_weekly: u32,
    /// Keep the last one of each of the last N months that have one
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) keep_monthly: u32,
    /// Keep the last one of each of the last N years that have one
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) keep_yearly: u32,
    /// Keep all that are not older than this, such as 1y2m or 36h
    #[arg(long, value_name = "SPAN")]
    pub(crate) keep_within: Option<KeepWithin>,
    /// Keep all with these tags, separated by commas; repeated: with any of the lists
    #[arg(long, value_name = "TAGS", value_parser = tag_list, add = complete::tags())]
    pub(crate) keep_tag: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupName {
    /// Put snapshots of each machine into a group
    Host,
    /// Put snapshots of the same paths into a group
    Paths,
    /// Put snapshots with the same tags into a group
    Tags,
    /// Put all snapshots into one group
    None,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Backups, restores and other prunes may run meanwhile. A prune can be stopped at any moment, and the next one goes on.

What backups may still need that were running when it began is freed by a later prune, after they have ended. If one \
was running on this machine and was killed, nothing waits for it. `ibid sessions` lists them.

What a writer has stored is left alone without --writer. With it, that is read, verified, and stored again as a backup \
with a password stores it.

Examples:
  ibid prune --dry-run                 what would be freed, read and written
  ibid prune
  ibid prune --max-unused 0            as small as can be
  ibid prune --writer laptop           what the writer `laptop` has stored
  ibid prune --max-repack 10GiB        a part of it now
  ibid prune --give-up-on 4f1a         do not wait for this session any longer
  ibid prune --exclusive               nothing else runs: for storage that `ibid storage test` warns of")]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    pub(crate) limits: PruneLimits,
    /// Show what would be freed, read and written, and do nothing
    #[arg(short = 'n', long, conflicts_with_all = ["give_up_on", "estimate"])]
    pub(crate) dry_run: bool,
    /// End the session whose id begins so: its backup notices, and begins again
    #[arg(
        long,
        value_name = "SESSION",
        value_parser = NonEmptyStringValueParser::new(),
        add = complete::sessions()
    )]
    pub(crate) give_up_on: Vec<String>,
    /// Trust that nothing else works in the repository meanwhile: wait for nothing, and refuse if a session is open
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) exclusive: bool,
    #[command(flatten)]
    pub(crate) costs: CostArgs,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct PruneLimits {
    /// Leave so much in packs that no snapshot needs: a share of what is needed, or a size
    #[arg(long, value_name = "SHARE|SIZE", value_parser = limit, default_value = "5%")]
    pub(crate) max_unused: Limit,
    /// Move no more than this in one run: a share of what is needed, or a size [default: no limit]
    #[arg(long, value_name = "SHARE|SIZE", value_parser = limit)]
    pub(crate) max_repack: Option<Limit>,
    /// Wait so long for backups that were running, then end them
    #[arg(long, value_name = "SPAN", value_parser = patience, default_value = "7d")]
    pub(crate) patience: Duration,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A session is a backup that is running, or was killed. A prune waits for those that are open; see `ibid prune --help`.

Examples:
  ibid sessions
  ibid sessions --json")]
pub(crate) struct SessionsArgs {}

/// Parses `release,laptop`. An empty list would keep nothing, as if a script's variable was not set.
fn tag_list(text: &str) -> Result<String, String> {
    match tags(text).next() {
        Some(_) => Ok(text.to_owned()),
        None => Err("expected a tag, or several separated by commas".to_owned()),
    }
}

/// Returns the tags of a list.
pub(crate) fn tags(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|tag| !tag.is_empty())
}

/// Parses `5%`, `0.05` or `10GiB`.
fn limit(text: &str) -> Result<Limit, String> {
    // As a size, a fraction of a byte is none.
    let is_fraction = |text: &str| text.contains('.') && text.parse::<f64>().is_ok();
    match text.strip_suffix('%') {
        Some(number) if number.parse() == Ok(0.0) => Ok(Limit::Bytes(0)),
        Some(_) => share(text).map(Limit::Share),
        None if is_fraction(text) => share(text).map(Limit::Share),
        None => size(text).map(Limit::Bytes),
    }
}

/// Parses `7d` or `12h`.
pub(crate) fn patience(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected a span such as 7d, 12h or 0h, found {text:?}");
    let at = text
        .len()
        .checked_sub(1)
        .filter(|at| text.is_char_boundary(*at))
        .ok_or_else(expected)?;
    let (number, unit) = text.split_at(at);
    let hours = match unit {
        "d" => 24,
        "h" => 1,
        _ => return Err(expected()),
    };
    let number: u32 = number.parse().map_err(|_| expected())?;
    Ok(Duration::from_secs(u64::from(number) * hours * 3600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_shares_or_sizes() {
        assert_eq!(limit("5%"), Ok(Limit::Share(0.05)));
        assert_eq!(limit("1GiB"), Ok(Limit::Bytes(1 << 30)));
        assert_eq!(limit("0"), Ok(Limit::Bytes(0)));
        assert_eq!(limit("0%"), Ok(Limit::Bytes(0)));
        assert_eq!(limit("0.05"), Ok(Limit::Share(0.05)));
        assert_eq!(limit("1.5GiB"), Ok(Limit::Bytes(3 << 29)));
        for text in ["x", "1.5", "200%", "-1%", "%"] {
            assert!(limit(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_list_of_tags_has_one() {
        assert!(tag_list("release").is_ok() && tag_list("a, b,").is_ok());
        for text in ["", " ", ",", " , "] {
            assert!(tag_list(text).is_err(), "{text:?}");
        }
        assert_eq!(tags("a, b,,c,").collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn patience_is_in_days_or_hours() {
        assert_eq!(patience("7d"), Ok(Duration::from_secs(7 * 86400)));
        assert_eq!(patience("0h"), Ok(Duration::ZERO));
        for text in ["", "7", "d", "7w", "-1d", "7é"] {
            assert!(patience(text).is_err(), "{text:?}");
        }
    }
}
