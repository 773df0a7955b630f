//! How a repository with a server is reached.

use std::path::PathBuf;

use clap::Args;
use ibid_remote::Addressing;
use ibid_storage::{Lock, LockMode};

use super::value;
use crate::complete;

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Repositories with a server (docs/remote.md)")]
pub(crate) struct NetworkArgs {
    /// Use the S3 server at this URL [default: AWS_ENDPOINT_URL, else Amazon]
    #[arg(long, global = true, value_name = "URL", hide_short_help = true)]
    pub(crate) endpoint: Option<String>,
    /// Use this region of the service [default: AWS_REGION; Amazon is asked for it]
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub(crate) region: Option<String>,
    /// Name the bucket to the server in the path of URLs, or as a part of the host: path, virtual
    #[arg(long, global = true, value_name = "HOW", hide_short_help = true, add = complete::words(&["path", "virtual"]))]
    pub(crate) addressing: Option<Addressing>,
    /// Keep packs with data of files in this class of storage, as the service calls it: STANDARD_IA, GLACIER_IR, Cool;
    /// DEEP_ARCHIVE and GLACIER take hours until they can be read (`--thaw` of restore, dump and copy)
    #[arg(long, global = true, value_name = "CLASS", hide_short_help = true)]
    pub(crate) storage_class: Option<String>,
    /// Keep packs, index files, snapshots, config and keys locked for so many days, such as 30d: the server has them
    /// until then, whatever is deleted. `init` records it for all who use the repository
    #[arg(long, global = true, value_name = "SPAN", value_parser = days, hide_short_help = true)]
    lock: Option<u32>,
    /// Let those with a right for that end a lock early (governance), or no one at all (compliance) [default:
    /// governance]
    #[arg(
        long,
        global = true,
        value_name = "MODE",
        requires = "lock",
        hide_short_help = true,
        add = complete::words(&LockMode::NAMES)
    )]
    lock_mode: Option<LockMode>,
    /// Limit what is sent, per second, such as 2MiB
    #[arg(long, global = true, value_name = "SIZE", value_parser = value::rate, hide_short_help = true)]
    pub(crate) limit_upload: Option<u64>,
    /// Limit what is received, per second, such as 2MiB
    #[arg(long, global = true, value_name = "SIZE", value_parser = value::rate, hide_short_help = true)]
    pub(crate) limit_download: Option<u64>,
    /// Accept the certificates in this file, too (PEM)
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub(crate) ca_file: Option<PathBuf>,
    /// Take what a server charges from FILE, for --estimate and --max-cost [default: what this program knows]
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub(crate) prices: Option<PathBuf>,
    /// Run this command in place of `ssh` for ssh://…
    #[arg(
        long,
        global = true,
        value_name = "COMMAND",
        env = "IBID_SSH",
        hide_env_values = true,
        hide_short_help = true
    )]
    pub(crate) ssh: Option<String>,
    /// Trust servers at tls://… with a certificate of one of these authorities (PEM)
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub(crate) authority: Option<PathBuf>,
    /// Require a certificate of the server for this name or address [default: HOST]
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub(crate) server_name: Option<String>,
    /// Show this certificate to servers at tls://…, and those between it and the authority (PEM)
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub(crate) certificate: Option<PathBuf>,
    /// Use this private key of the certificate (PEM)
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub(crate) private_key: Option<PathBuf>,
}

/// Parses `30d`.
fn days(text: &str) -> Result<u32, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse().ok());
    days.filter(|days| (1..=Lock::DAYS_MAX).contains(days)).ok_or_else(|| {
        format!(
            "expected days such as 30d, from 1d to {}d, found {text:?}",
            Lock::DAYS_MAX
        )
    })
}

impl NetworkArgs {
    /// Returns how files are to be locked, if that is given.
    pub(crate) fn lock(&self) -> Option<Lock> {
        Lock::new(self.lock?, self.lock_mode.unwrap_or(LockMode::Governance))
    }

    /// Returns what holds for another repository, too, which may be with another server.
    pub(crate) fn of_another(&self) -> NetworkArgs {
        NetworkArgs {
            limit_upload: self.limit_upload,
            limit_download: self.limit_download,
            ca_file: self.ca_file.clone(),
            prices: self.prices.clone(),
            ssh: self.ssh.clone(),
            authority: self.authority.clone(),
            certificate: self.certificate.clone(),
            private_key: self.private_key.clone(),
            ..NetworkArgs::default()
        }
    }
}
