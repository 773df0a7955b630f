//! The options of commands that read what may be in an archive of a service.

use std::time::Duration;

use clap::Args;
use ibid_storage::{Thaw, ThawTier};

use crate::complete;

/// What to do about packs that are in an archive of the service.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Archives of a server (docs/remote.md)")]
pub(crate) struct ThawArgs {
    /// Let the service thaw what is in an archive, wait for that, and go on. It takes hours and money: --estimate
    /// says how much of both
    #[arg(long)]
    pub(crate) thaw: bool,
    /// End once that was asked for. The same command without this goes on
    #[arg(long, requires = "thaw", conflicts_with = "estimate")]
    pub(crate) thaw_only: bool,
    /// Choose how fast, and for how much: bulk, standard or expedited [default: bulk]
    #[arg(long, requires = "thaw", value_name = "TIER", add = complete::words(&ThawTier::NAMES))]
    thaw_tier: Option<ThawTier>,
    /// Keep what is thawed for N days [default: 7]
    #[arg(
        long,
        requires = "thaw",
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(Thaw::DAYS_MAX))
    )]
    thaw_days: Option<u32>,
    /// Look every so many seconds whether it is thawed [default: 300]
    #[arg(
        long,
        requires = "thaw",
        value_name = "N",
        hide_short_help = true,
        value_parser = clap::value_parser!(u32).range(1..=86_400)
    )]
    thaw_poll: Option<u32>,
}

impl ThawArgs {
    /// Returns how to thaw.
    pub(crate) fn how(&self) -> Thaw {
        let days = self.thaw_days.unwrap_or(DAYS);
        Thaw::new(days, self.thaw_tier.unwrap_or_default()).expect("the parser knows the limits")
    }

    /// Returns how often to look.
    pub(crate) fn poll(&self) -> Duration {
        Duration::from_secs(self.thaw_poll.unwrap_or(POLL).into())
    }
}

/// Days for which what is thawed is kept, by default.
const DAYS: u32 = 7;
/// Seconds between two looks, by default.
const POLL: u32 = 300;
