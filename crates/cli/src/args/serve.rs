//! The arguments of `serve`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
For a repository at ssh://HOST/PATH, another machine starts this command itself. You write it only into \
~/.ssh/authorized_keys, to say which folder a key may use, and that it may only add (docs/remote.md).

Examples:
  command=\"ibid serve --stdio --append-only /srv/backup\",restrict ssh-ed25519 AAAA… laptop")]
pub(crate) struct ServeRepositoryArgs {
    /// Serve the repository in this folder
    #[arg(value_name = "PATH")]
    pub(crate) folder: PathBuf,
    /// Read requests from standard input, and write answers to standard output
    #[arg(long, required = true)]
    pub(crate) stdio: bool,
    /// Let the other machine add snapshots, and delete and change nothing
    #[arg(long)]
    pub(crate) append_only: bool,
}
