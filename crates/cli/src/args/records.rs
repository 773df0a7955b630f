//! `ibid records`: which store, which namespace, which key.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use ibid_record::replicate::nats;

use super::value;

#[derive(Debug, Subcommand)]
#[command(after_help = "\
A store is a folder of its own, and no repository; one program at a time has it open. It is encrypted if it was made with \
--encrypted: keys can be seen then, and nothing of the bodies. It keeps records, which are bytes, under keys, in namespaces. A namespace keeps every version of what was under a key, or the latest \
only; that is settled when it is made. `load` and `put` make store and namespace, if they are not there.

Examples:
  export IBID_STORE=~/wiki
  ibid records load revisions.jsonl.zst --key page --body text
  ibid records get Ibid                what is under a key now
  ibid records versions Ibid           what was there before
  ibid records get Ibid@3              the third of these
  ibid records scan --prefix Talk: --limit 10
  ibid records verify")]
pub(crate) enum RecordsCommand {
    /// Store each line of a JSON Lines file
    Load(LoadArgs),
    /// Store one record
    Put(PutArgs),
    /// Write one record to standard output
    Get(GetArgs),
    /// Delete a key
    Delete(DeleteArgs),
    /// List records, in the order of their keys or of time
    Scan(ScanArgs),
    /// List the versions of a key
    Versions(VersionsOfArgs),
    /// Compress what is stored, and give room on the disk back
    Compact(CompactArgs),
    /// Show how much there is
    Stats(RecordsStatsArgs),
    /// Check that everything is there and right
    Verify(VerifyArgs),
    /// Let other stores follow this one
    Serve(ServeArgs),
    /// Make a store the same as another one, and keep it so
    Replicate(ReplicateArgs),
    /// Make a replica the store that others follow
    Promote(PromoteArgs),
}

/// Which store.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which records")]
pub(crate) struct StoreArgs {
    /// The store: a folder
    #[arg(long, value_name = "DIR", env = "IBID_STORE", hide_env_values = true)]
    pub(crate) store: Option<PathBuf>,
}

/// Which store, and what of it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which records")]
pub(crate) struct NamespaceArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The namespace in the store
    #[arg(long, value_name = "NAME", default_value = "records", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) namespace: String,
}

/// How store and namespace are made, if they are not there.
#[derive(Debug, Args)]
pub(crate) struct NewRecordsArgs {
    /// What the namespace keeps [default: what it was made to keep; kept, if it is new]
    #[arg(long, value_name = "WHICH", value_enum)]
    pub(crate) versions: Option<VersionsKept>,
    /// Encrypt the store, if it is new, with a password: IBID_PASSWORD, --password-file,
    /// --password-command, or typed in
    #[arg(long)]
    pub(crate) encrypted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VersionsKept {
    /// Every version, also of keys that were deleted
    Kept,
    /// The latest one
    Latest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityName {
    /// Each few megabytes, before the next ones are stored
    Sync,
    /// A second after it was stored
    Batched,
    /// At the end; killed before, nothing may be left of it
    None,
}

#[derive(Debug, Args)]
#[command(after_help = "\
One JSON object a line; empty lines are passed over. A record's key is the text of a field, which has text, a number, true or \
false. Of several fields the texts are joined by a slash, for data in which a key occurs again and each time should be a record \
of its own: --key page,revision. A key that is there already gets another version.

A record's body is the text of the field that --body names, or, if that is no text, its JSON without white space. Without --body \
it is the line, as it is.

A line that can't be loaded is named, the others are, and the exit code is 3. With --strict it is the end: what came before it is \
stored. So it is with Ctrl-C, a disk that fails, or `kill -9`, after which the store has the lines up to some line, and no part \
of another.

A file that zstd compressed is known by its first bytes. Lines may have an eighth of --memory: 64 MiB, unless it says otherwise.

Examples:
  ibid records load revisions.jsonl.zst --key page --body text
  ibid records load audit.jsonl --key table,id --versions kept        whole lines
  curl -s https://example.org/log.jsonl | ibid records load - --key id
  ibid records scan | ibid records load - --scanned --store ~/copy    what `scan` wrote")]
pub(crate) struct LoadArgs {
    /// What to load: a file, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The field with the key; of several, their texts joined by slashes
    #[arg(long, value_name = "FIELD", value_delimiter = ',', default_value = "key", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) key: Vec<String>,
    /// The field with the body [default: the whole line]
    #[arg(long, value_name = "FIELD", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) body: Option<String>,
    /// Read what `ibid records scan` wrote into a pipe
    #[arg(long, conflicts_with_all = ["key", "body"])]
    pub(crate) scanned: bool,
    #[command(flatten)]
    pub(crate) new: NewRecordsArgs,
    /// Stop at the first line that can't be loaded
    #[arg(long)]
    pub(crate) strict: bool,
    /// When what was loaded is on disk, whatever happens. At the end it is, in any case
    #[arg(long, value_name = "WHEN", value_enum, default_value = "batched")]
    pub(crate) durability: DurabilityName,
    /// In the end, do what `ibid records compact` does
    #[arg(long)]
    pub(crate) compact: bool,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Keys are any bytes, up to 4096, and bodies are, up to 256 MiB. What is under the key already stays as the version before, if the \
namespace keeps versions. When the command ends, the record is on disk.

Examples:
  ibid records put Ibid page.txt
  date | ibid records put now --namespace times --versions latest")]
pub(crate) struct PutArgs {
    /// The key
    #[arg(value_name = "KEY", value_parser = key())]
    pub(crate) key: Key,
    /// What to store: a file, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) new: NewRecordsArgs,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
KEY@3 is the third version of KEY: what follows the last @ is a version if it is all digits. A key that ends so itself is given \
with --version, which leaves KEY as it is. Where there is no such record the exit code is 6.

Examples:
  ibid records get Ibid                what is there now
  ibid records get Ibid@1 | diff - <(ibid records get Ibid)
  ibid records get user@1 --version latest      the key is user@1")]
pub(crate) struct GetArgs {
    /// The key, and which version of it
    #[arg(value_name = "KEY[@VERSION]", value_parser = key())]
    key: Key,
    /// The version, or latest; KEY is all key then
    #[arg(long, value_name = "VERSION", value_parser = value::record_version)]
    version: Option<VersionName>,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

impl GetArgs {
    /// The key that is meant, and the version.
    pub(crate) fn wanted(&self) -> Result<(&[u8], VersionName), String> {
        let key = &self.key.0;
        if let Some(version) = self.version {
            return Ok((key, version));
        }
        let versioned = key
            .iter()
            .rposition(|&byte| byte == b'@')
            .map(|at| (&key[..at], &key[at + 1..]));
        match versioned {
            Some((key, digits)) if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
                let version = value::record_version(&String::from_utf8_lossy(digits));
                let version =
                    version.map_err(|error| format!("{error}; if it belongs to the key, say --version latest"));
                Ok((key, version?))
            }
            _ => Ok((key, VersionName::Latest)),
        }
    }
}

/// A version of a record, as it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionName {
    Latest,
    /// From 1.
    Number(u32),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Where versions are kept, a deletion is a version, too, and those before it can still be read. --purge removes them all, for good.

Examples:
  ibid records delete Ibid
  ibid records delete Ibid --purge     and all that was ever under it")]
pub(crate) struct DeleteArgs {
    /// The key
    #[arg(value_name = "KEY", value_parser = key())]
    pub(crate) key: Key,
    /// And its versions, too
    #[arg(long)]
    pub(crate) purge: bool,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Of each key its latest version. On a terminal, a table; anywhere else one JSON object a line with the body, which `ibid records load \
--scanned` reads again. Where a body is no text, `body_bytes` has it in hexadecimal digits instead of `body`, and `key_bytes` a key.

Records have numbers, which grow with each that is stored: --in-order lists by them, and --after goes on from one.

Examples:
  ibid records scan --limit 20
  ibid records scan --prefix Talk: --keys-only
  ibid records scan --from a --to b | jq -r .body
  ibid records scan --in-order --after 1000       what was stored since record 1000")]
pub(crate) struct ScanArgs {
    /// From this key on
    #[arg(long, value_name = "KEY", value_parser = key())]
    pub(crate) from: Option<Key>,
    /// Up to this key, which is left out
    #[arg(long, value_name = "KEY", value_parser = key())]
    pub(crate) to: Option<Key>,
    /// Keys that begin so
    #[arg(long, value_name = "TEXT", value_parser = key(), conflicts_with_all = ["from", "to"])]
    pub(crate) prefix: Option<Key>,
    /// Records at most
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Only keys, one a line, escaped as `ibid ls` does it; with --json as they are
    #[arg(long)]
    pub(crate) keys_only: bool,
    /// In the order in which they were stored
    #[arg(long, conflicts_with_all = ["from", "to", "prefix"])]
    pub(crate) in_order: bool,
    /// Only what was stored after the record of this number
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "in_order",
        default_value = "0",
        hide_default_value = true
    )]
    pub(crate) after: u64,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibid records versions Ibid
  ibid records versions Ibid --json")]
pub(crate) struct VersionsOfArgs {
    /// The key
    #[arg(value_name = "KEY", value_parser = key())]
    pub(crate) key: Key,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
What is stored lies by itself at first, so that storing is fast. Compacting makes older records what differs from newer ones, as far \
as that was not done yet, compresses them together, and the latest ones with few others, and gives back what the file has free. What \
was compressed before is left as it is, but for blocks that are half empty or of little use any more. Whatever ends it, all records are there.

Examples:
  ibid records compact
  ibid records load more.jsonl --compact     after loading")]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
What is under the keys, what is stored of it (whole, as what differs from other records, or only because others are read with its \
help), how many others must be read for a record, and how many records are like others. Every record is read for it, and none is \
decoded. Faults that it comes across are counted; `ibid records verify` names them.

Examples:
  ibid records stats
  ibid records stats --json")]
pub(crate) struct RecordsStatsArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Every record is read, and looked for both ways: each key leads to its versions and these to their records, and each record is one \
that its key leads to. What is wrong is named, entry by entry, and the exit code is 4.

Examples:
  ibid records verify
  ibid records verify --store /mnt/disk/wiki --json")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// A key, or the beginning of some: any bytes.
#[derive(Clone, Debug)]
pub(crate) struct Key(pub(crate) Vec<u8>);

fn key() -> impl TypedValueParser<Value = Key> {
    OsStringValueParser::new().map(|text: OsString| Key(text.into_vec()))
}

#[derive(Debug, Args)]
#[command(after_help = "\
Answers until Ctrl-C, or publishes, or both. From the first time on the store keeps a log of what is done to it, which takes some ten bytes and the key of each record. One program at a \
time has a store open, so nothing else is written to it meanwhile: a program that writes while others follow links the library (docs/replication.md).

--publish appends the log to a stream of NATS JetStream, which is made if it is not there, and from which any number of replicas read, also while this program does not run. It goes on \
after what is in the stream. What the servers have acknowledged outlives as many of them as are fewer than half of those that keep the stream. One that another was promoted over is told by the \
stream, and writes no more.

Without --certificate messages are not encrypted, and without --clients whoever can connect gets everything: then let it listen where only those can who may, or through a tunnel. Servers of \
NATS are spoken to over TLS with --authority, and it is they who know who may read.

Examples:
  ibid records serve --listen 127.0.0.1:7117
  ibid records serve --listen 0.0.0.0:7117 --certificate primary.pem --private-key primary.key --clients ca.pem
  ibid records serve --publish nats://127.0.0.1:4222/wiki
  ibid records serve --publish nats://10.0.0.1,10.0.0.2,10.0.0.3/wiki --stream-max 10GiB
  ibid records serve --publish nats://nats.example.org/wiki --authority ca.pem --certificate primary.pem --private-key primary.key")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Where to wait for those who follow; port 0 takes one that is free, and says which
    #[arg(long, value_name = "ADDRESS:PORT", required_unless_present = "publish")]
    pub(crate) listen: Option<SocketAddr>,
    /// Where to publish, and under which name: servers of one cluster, with commas between them
    #[arg(long, value_name = "nats://HOST:PORT/NAME")]
    pub(crate) publish: Option<nats::Address>,
    /// Entries of the log that are kept; the oldest go, and a replica that lacks them takes all
    /// that there is [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) log_entries: Option<u64>,
    /// Publish over TLS, to servers that have a certificate of one of these authorities, PEM
    #[arg(long, value_name = "FILE", requires = "publish")]
    pub(crate) authority: Option<PathBuf>,
    /// Answer over TLS only, and show this certificate, PEM: its own first, then those between it
    /// and the authority. It is shown to servers of NATS, too, if they ask
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub(crate) certificate: Option<PathBuf>,
    /// The certificate's key, PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) private_key: Option<PathBuf>,
    /// Answer only those who have a certificate of one of these authorities, PEM
    #[arg(long, value_name = "FILE", requires = "certificate", requires = "listen")]
    pub(crate) clients: Option<PathBuf>,
    /// If the stream is made: how many servers keep it [default: 3 of a cluster, else 1]
    #[arg(long, value_name = "N", requires = "publish", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) stream_replicas: Option<u8>,
    /// If the stream is made: bytes from which on its oldest messages go [default: none go]
    #[arg(long, value_name = "SIZE", requires = "publish", value_parser = value::size)]
    pub(crate) stream_max: Option<u64>,
}

/// The log that is followed.
#[derive(Clone, Debug)]
pub(crate) enum Followed {
    /// Of a store that is served there, HOST:PORT.
    Served(String),
    /// That is published there.
    Published(nats::Address),
}

impl FromStr for Followed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains("://") {
            let address = text.parse().map_err(|error: nats::AddressError| error.to_string())?;
            return Ok(Followed::Published(address));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Followed::Served(text.to_owned()))
            }
            _ => Err("it is neither HOST:PORT nor nats://HOST:PORT/NAME".to_owned()),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Goes on from where it was, after it was killed too, and tries again when the connection fails, which it says. A replica is read as any store, and nothing else is written to it, until `promote`.

Of what is published it reads what comes after its position. What is not in the stream (any more), it asks of the one that publishes, which has to run for that.

A store that others followed, as the old one does after another was promoted, loses what it has and the new one has not. So that has to be said, with --discard. One that \
has records and was never followed is refused.

Examples:
  ibid records replicate --from 127.0.0.1:7117 --store ~/replica
  ibid records replicate --from 127.0.0.1:7117 --store ~/replica --once && ibid records stats --store ~/replica
  ibid records replicate --from db.example.org:7117 --store ~/replica --authority ca.pem --certificate replica.pem --private-key replica.key
  ibid records replicate --from nats://127.0.0.1:4222/wiki --store ~/replica --once")]
pub(crate) struct ReplicateArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The one to follow, or where it publishes: nats://HOST:PORT/NAME
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) from: Followed,
    /// Ask over TLS, and believe who has a certificate of one of these authorities, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) authority: Option<PathBuf>,
    /// The name or address that the certificate has to be for [default: HOST]
    #[arg(long, value_name = "NAME", requires = "authority")]
    pub(crate) server_name: Option<String>,
    /// Show this certificate, PEM, where the other one answers only those it knows
    #[arg(long, value_name = "FILE", requires = "authority", requires = "private_key")]
    pub(crate) certificate: Option<PathBuf>,
    /// The certificate's key, PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) private_key: Option<PathBuf>,
    /// End as soon as everything is here
    #[arg(long)]
    pub(crate) once: bool,
    /// Give up what this store has and the other one has not
    #[arg(long)]
    pub(crate) discard: bool,
    /// Encrypt the store, if it is new, with a password: IBID_PASSWORD, --password-file,
    /// --password-command, or typed in
    #[arg(long)]
    pub(crate) encrypted: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Stop the old one first: what it acknowledges afterwards is lost, and it only learns of this when somebody asks it who knows, or when it publishes after the new one did. What it had and no \
replica has is lost, too.

A replica that is to publish where the old one did must have all that was published, or it is refused there: `ibid records replicate --once` first, and promote then.

Examples:
  ibid records replicate --from nats://127.0.0.1:4222/wiki --store ~/replica --once
  ibid records promote --store ~/replica
  ibid records serve --publish nats://127.0.0.1:4222/wiki --store ~/replica")]
pub(crate) struct PromoteArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
