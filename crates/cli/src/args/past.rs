//! Reading a repository as it was.

use clap::Args;
use ibid_format::tree::Time;

use super::value;

#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct PastArgs {
    /// Read the repository as it was at this time, through what was deleted or replaced since: needs a bucket that
    /// keeps versions (s3://…)
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    pub(crate) as_of: Option<Time>,
}
