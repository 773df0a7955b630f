//! `ibid run`.

use clap::Args;

use crate::complete;

#[derive(Debug, Args)]
#[command(after_help = "\
A profile is a table of the config file. What stands in it is run in this order, each step only if it has a table:
  [profile.home.backup]   make a snapshot
  [profile.home.forget]   forget by the rules, without a question
  [profile.home.prune]    free what no snapshot needs; with every = \"7d\", once in seven days
  [profile.home.check]    check the repository; also with every
If the backup fails, nothing is forgotten or pruned. If this profile is being run already, nothing is done.

The exit code is 0 if all is well, 3 if files were left out, and else that of the first step that failed.

Examples:
  ibid run home                        for cron: ibid run --quiet home
  ibid run home photos                 one after the other
  ibid run --list
  ibid run --print-systemd home --on-calendar hourly")]
pub(crate) struct RunArgs {
    /// Run these profiles
    #[arg(value_name = "PROFILE", required_unless_present = "list", add = complete::profiles())]
    pub(crate) profiles: Vec<String>,
    /// List the profiles of the config file, and run none
    #[arg(long, conflicts_with_all = ["profiles", "print_systemd"])]
    pub(crate) list: bool,
    /// Print a service and a timer of systemd that run PROFILE, and run nothing
    #[arg(long)]
    pub(crate) print_systemd: bool,
    /// Let the timer run at these times, as systemd.time(7) writes them
    #[arg(long, value_name = "TIMES", default_value = "daily", requires = "print_systemd")]
    pub(crate) on_calendar: String,
}
