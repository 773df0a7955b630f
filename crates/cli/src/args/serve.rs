//! The arguments of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::value;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("how").required(true).args(["stdio", "listen"]), after_help = "\
For a repository at ssh://HOST/PATH, another machine starts this command itself. You write it only into \
~/.ssh/authorized_keys, to say which folder a key may use, and that it may only add.

With --listen it answers any number of machines at tls://HOST:PORT, until you press Ctrl-C. Both sides show \
certificates, always: a client without one of the authorities in --clients is not answered. docs/remote.md makes \
them with openssl. Files are read once, when it starts.

Examples:
  ibid serve --listen [::]:7118 --certificate nas.pem --private-key nas.key --clients ca.pem /srv/backup
  command=\"ibid serve --stdio --append-only /srv/backup\",restrict ssh-ed25519 AAAA… laptop")]
pub(crate) struct ServeRepositoryArgs {
    /// Serve the repository in this folder
    #[arg(value_name = "PATH")]
    pub(crate) folder: PathBuf,
    /// Read requests from standard input, and write answers to standard output
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Answer clients with certificates at this address, over TLS
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        value_parser = value::listen,
        requires_all = ["certificate", "private_key", "clients"]
    )]
    pub(crate) listen: Option<SocketAddr>,
    /// Show this certificate, and those between it and the authority (PEM)
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) certificate: Option<PathBuf>,
    /// Use this private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) private_key: Option<PathBuf>,
    /// Answer only clients with a certificate of one of these authorities (PEM)
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) clients: Option<PathBuf>,
    /// Answer at most N clients at once [default: 64]
    #[arg(long, value_name = "N", requires = "listen", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) clients_max: Option<u16>,
    /// Let other machines add snapshots, and delete and change nothing
    #[arg(long)]
    pub(crate) append_only: bool,
}
