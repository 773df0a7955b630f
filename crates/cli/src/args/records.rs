//! `ibid records`: stores, namespaces and keys.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use ibid_record::replicate::nats;
use ibid_record::{Condition, Latest, Time, Versions};
use ibid_terminal::value::size;

use super::value;

#[derive(Debug, Subcommand)]
#[command(after_help = "\
A store is a folder of its own, not a repository. One program at a time can write to it; commands that only read work \
meanwhile, and where nothing may be written. It keeps records (any \
bytes) under keys, in namespaces. A namespace keeps every version of a record, or only the latest; you choose when \
you create it. `load` and `put` create the store and the namespace if they do not exist.

A store that was created with --encrypted hides the bodies of records. It does not hide their keys, nor \
the values by which they are found.

Examples:
  export IBID_STORE=~/wiki
  ibid records load revisions.jsonl.zst --key page --body text
  ibid records get Ibid                the latest version
  ibid records versions Ibid           a list of all versions
  ibid records get Ibid@3              the third version
  ibid records scan --prefix Talk: --limit 10
  ibid records verify")]
pub(crate) enum RecordsCommand {
    /// Store each line of a JSON Lines file
    Load(LoadArgs),
    /// Store one record
    Put(PutArgs),
    /// Make several changes together, or none of them
    Batch(BatchArgs),
    /// Write one record, or several, to standard output
    Get(GetArgs),
    /// Delete a key
    Delete(DeleteArgs),
    /// Remove versions of a key for good
    Purge(PurgeArgs),
    /// List records, by key or in the order they were stored
    Scan(ScanArgs),
    /// List records that have a value in an index
    Find(FindRecordsArgs),
    /// Make an index, by which records are found
    Index(IndexArgs),
    /// List the versions of a key
    Versions(VersionsOfArgs),
    /// Show or set what a namespace keeps
    Retention(RetentionArgs),
    /// Show or set how a namespace stores latest versions
    Latest(LatestArgs),
    /// Remove what namespaces no longer keep
    Expire(ExpireArgs),
    /// Make the store smaller
    Compact(CompactArgs),
    /// Show how much is stored and how much was saved
    Stats(RecordsStatsArgs),
    /// Check the store for damage
    Verify(VerifyArgs),
    /// Make a store open again whose log of commits is damaged or missing
    Repair(RepairRecordsArgs),
    /// Make a new store of what can be read of a damaged one
    Salvage(SalvageArgs),
    /// Let replicas follow this store
    Serve(ServeArgs),
    /// Make a replica of another store, and keep it up to date
    Replicate(ReplicateArgs),
    /// Turn a replica into the primary that others follow
    Promote(PromoteArgs),
}

/// The option that gives the store.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store and namespace")]
pub(crate) struct StoreArgs {
    /// Use the store in this folder
    #[arg(long, value_name = "DIR", env = "IBID_STORE", hide_env_values = true)]
    pub(crate) store: Option<PathBuf>,
}

/// The namespace that is used if none is given.
pub(crate) const NAMESPACE: &str = "records";

/// The options that give the store and the namespace.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store and namespace")]
pub(crate) struct NamespaceArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Use this namespace of the store
    #[arg(
        long,
        value_name = "NAME",
        default_value = NAMESPACE,
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub(crate) namespace: String,
}

/// The settings of a new store and a new namespace.
#[derive(Debug, Args)]
pub(crate) struct NewRecordsArgs {
    /// Create the namespace to keep these versions [default: kept; an existing namespace stays as it is]
    #[arg(long, value_name = "WHICH", value_enum)]
    pub(crate) versions: Option<VersionsKept>,
    /// Store the latest versions of keys in this way from now on, as `ibid records latest` does
    #[arg(long, value_name = "HOW", value_enum)]
    pub(crate) latest: Option<LatestName>,
    /// Encrypt a new store with a password: --password-file, --password-command, IBID_PASSWORD, or
    /// typed
    #[arg(long)]
    pub(crate) encrypted: bool,
}

impl NewRecordsArgs {
    /// Returns the versions that a new namespace keeps.
    pub(crate) fn versions(&self) -> Versions {
        match self.versions {
            Some(VersionsKept::Latest) => Versions::Latest,
            Some(VersionsKept::Kept) | None => Versions::Kept,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VersionsKept {
    /// Keep every version, also those of deleted keys
    Kept,
    /// Keep only the latest version
    Latest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LatestName {
    /// Store them as suits the records: shared if keys get further versions, otherwise as deltas
    Automatic,
    /// Store each whole
    Whole,
    /// Store each whole, but the same bytes only once
    Shared,
    /// Store them as deltas of similar records under other keys
    Deltas,
}

impl LatestName {
    pub(crate) fn latest(self) -> Latest {
        match self {
            LatestName::Automatic => Latest::Automatic,
            LatestName::Whole => Latest::Whole,
            LatestName::Shared => Latest::Shared,
            LatestName::Deltas => Latest::Deltas,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityName {
    /// Put a record on disk at most a second after it was read, before more is stored
    Sync,
    /// Put a record on disk at most two seconds after it was read
    Batched,
    /// Put records on disk at the end; if the program is killed before, everything may be lost
    None,
}

#[derive(Debug, Args)]
#[command(after_help = "\
FILE has one JSON object per line. Empty lines are skipped. A file that zstd compressed is recognised by its first \
bytes.

The key of a record is the text of a field: text, a number, true or false. With several fields, as in --key \
page,revision, it is their texts joined by slashes. Use that if one field alone occurs more than once and each line \
should be a record of its own. A key that exists gets a new version.

The body of a record is the text of the field that --body names. If that field is not text, the body is its JSON \
without white space. Without --body, the body is the whole line as it is.

Each version has the time at which it was loaded, or that of the field that --time names: text as in RFC 3339 \
(2026-11-21T12:00:00Z), or a number, seconds since 1970. Of each key the times must not run backward: where one does, \
loading stops, so sort the file first. --scanned takes the times that `scan` wrote.

With --index, each record can be found by the texts of these fields, in indexes with their names, which are made if \
there are none: see `ibid records find`. A field that is an array gives several values, null none. With --unique-index \
a value is of one key at most: a line that would give it to a second key ends the load. A record that is loaded \
without these options is in no index.

A line that cannot be loaded is named and left out, and the exit code is 3. With --strict, loading stops there. \
Whenever loading stops (by --strict, Ctrl-C, a failing disk or `kill -9`), the store has all lines up to some line, \
and no part of another. A line may be as long as an eighth of --memory: 64 MiB by default.

Examples:
  ibid records load revisions.jsonl.zst --key page --body text
  ibid records load audit.jsonl --key table,id                        whole lines
  ibid records load users.jsonl --key id --unique-index email --index city
  curl -s https://example.org/log.jsonl | ibid records load - --key id
  ibid records scan | ibid records load - --scanned --store ~/copy    what `scan` wrote")]
pub(crate) struct LoadArgs {
    /// Load this file; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Take the key from this field, or from several, joined by slashes
    #[arg(
        long,
        value_name = "FIELD",
        value_delimiter = ',',
        default_value = "key",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub(crate) key: Vec<String>,
    /// Take the body from this field [default: the whole line]
    #[arg(long, value_name = "FIELD", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) body: Option<String>,
    /// Take the time of each version from this field [default: when it is loaded]
    #[arg(long, value_name = "FIELD", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) time: Option<String>,
    /// Let records be found by these fields, each in the index of its name
    #[arg(
        long,
        value_name = "FIELD",
        value_delimiter = ',',
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub(crate) index: Vec<String>,
    /// Let records be found by these fields, each in an index where a value is of one key at most
    #[arg(
        long,
        value_name = "FIELD",
        value_delimiter = ',',
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub(crate) unique_index: Vec<String>,
    /// Load the output of `ibid records scan`
    #[arg(long, conflicts_with_all = ["key", "body", "time", "index", "unique_index"])]
    pub(crate) scanned: bool,
    #[command(flatten)]
    pub(crate) new: NewRecordsArgs,
    /// Stop at the first line that can't be loaded
    #[arg(long)]
    pub(crate) strict: bool,
    /// Choose when loaded records are safe on disk; when the command ends, all are
    #[arg(long, value_name = "WHEN", value_enum, default_value = "batched")]
    pub(crate) durability: DurabilityName,
    /// Compact the store after loading, as `ibid records compact` does
    #[arg(long)]
    pub(crate) compact: bool,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

/// The state that a key must be in.
#[derive(Debug, Args)]
pub(crate) struct ConditionArgs {
    /// Require that N is the latest version of the key: 0 for none, `deleted` for a deletion; otherwise the
    /// exit code is 7
    #[arg(long, value_name = "N", value_parser = value::record_condition)]
    if_version: Option<Condition>,
    /// Require that the latest version of the key is the record with this number
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with = "if_version"
    )]
    if_number: Option<u64>,
}

impl ConditionArgs {
    pub(crate) fn condition(&self) -> Option<Condition> {
        self.if_version.or(self.if_number.map(Condition::Number))
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
A key is any bytes, at most 4096. A body is any bytes, at most 1 TiB; it is stored while it is read. If the key \
exists, the record becomes its latest version; a namespace that keeps versions keeps the old ones. When the command \
ends, the record is on disk.

With --if-version you overwrite no version that you have not seen. In a namespace that keeps only the latest version, \
use --if-number. `put --json` prints both, and `ibid records versions` lists them.

The key is found by the values that --index-value gives, and by no others: it loses those that it had before.

Examples:
  ibid records put Ibid page.txt
  ibid records put Ibid page.txt --if-version 3     only if version 3 is still the latest
  ibid records put Ibid page.txt --if-version 0     only if there is no such key
  ibid records put Ibid page.txt --index-value by=anna --index-value by=ben
  date | ibid records put now --namespace times --versions latest")]
pub(crate) struct PutArgs {
    /// Store the record under this key
    #[arg(value_name = "KEY", value_parser = key())]
    pub(crate) key: Key,
    /// Read the body from this file; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,
    /// Let the record expire after this time, such as 90s, 15m, 12h or 30d: the key is removed then, with all versions
    #[arg(long, value_name = "SPAN", value_parser = value::record_span)]
    pub(crate) expire_after: Option<Duration>,
    /// Let the record be found by VALUE in this index, which must exist; can be given several times
    #[arg(long, value_name = "INDEX=VALUE", value_parser = index_value())]
    pub(crate) index_value: Vec<IndexValue>,
    #[command(flatten)]
    pub(crate) only: ConditionArgs,
    #[command(flatten)]
    pub(crate) new: NewRecordsArgs,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
FILE has one JSON object per line. `do` says what to do with the key: put (with `body`, and perhaps `time`, \
`expire_at`, and `index`, which gives values in indexes that exist, as in \
{\"by\": \"anna\", \"tags\": [\"a\", \"b\"]}), delete, purge (remove all versions, or the `versions` from the first \
to the last, as in [3, 7]), or require (change nothing). Each can state what must be so: `if_version`, the latest \
version, 0 for none or \"deleted\"; or `if_number`, the number of its record. `require` needs one of them. The lines \
are done in order, so that a line sees the changes before it. `namespace` takes another namespace than --namespace.

Bytes that are not text are `key_bytes` and `body_bytes`, in hexadecimal digits, as `ibid records scan` prints them.

If a condition does not hold, nothing is changed, and the exit code is 7. The same holds for a line that is wrong \
(exit code 1) or deletes a key that is not there (6). When the command ends, all changes are on disk. A batch may have \
an eighth of --memory: 64 MiB by default.

Store and namespaces are created if they do not exist, unless a line deletes there, or needs a version.

Examples:
  ibid records batch changes.jsonl
  echo '{\"do\": \"delete\", \"key\": \"Ibid\", \"if_version\": 2}' | ibid records batch -")]
pub(crate) struct BatchArgs {
    /// Read the changes from this file; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) new: NewRecordsArgs,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
KEY@3 is the third version of KEY. Digits after the last @ are always read as a version: if your key itself ends \
like that, give --version. If there is no such record, the exit code is 6.

Several records are printed as one JSON object per line, with their keys, versions and numbers, as `ibid records scan` \
prints them. Those that are not there are named, the others are printed, and the exit code is 6. --json prints a \
single record in this form, too. With --as-of you get each record as it was at that time.

Examples:
  ibid records get Ibid                the latest version
  ibid records get Ibid 'Loc. cit.' | jq -r .body
  ibid records get Ibid@1 | diff - <(ibid records get Ibid)
  ibid records get Ibid --as-of '2026-11-21 12:00:00'
  ibid records get user@1 --version latest      the key is user@1")]
pub(crate) struct GetArgs {
    /// Get the latest version of this key, or version VERSION of it
    #[arg(value_name = "KEY[@VERSION]", required = true, value_parser = key())]
    keys: Vec<Key>,
    /// Get this version, or latest, and read all of each KEY as the key
    #[arg(long, value_name = "VERSION", value_parser = value::record_version)]
    version: Option<VersionName>,
    /// Get the version that was the latest at this time, and read all of each KEY as the key
    #[arg(long, value_name = "TIME", conflicts_with = "version", value_parser = value::record_time)]
    as_of: Option<Time>,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

impl GetArgs {
    /// Returns the requested keys and versions.
    pub(crate) fn wanted(&self) -> Result<Vec<(&[u8], VersionName)>, String> {
        self.keys.iter().map(|Key(key)| self.one(key)).collect()
    }

    fn one<'k>(&self, key: &'k [u8]) -> Result<(&'k [u8], VersionName), String> {
        if let Some(version) = self.version.or(self.as_of.map(VersionName::AsOf)) {
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
                    version.map_err(|error| format!("{error}. If it belongs to the key, add --version latest"));
                Ok((key, version?))
            }
            _ => Ok((key, VersionName::Latest)),
        }
    }
}

/// A version of a record, as the user names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionName {
    Latest,
    /// Counted from 1.
    Number(u32),
    /// The latest at this time.
    AsOf(Time),
}

#[derive(Debug, Args)]
#[command(after_help = "\
In a namespace that keeps versions, a deletion is a version too, and you can still read those before it. With \
--purge, all versions are removed for good.

Examples:
  ibid records delete Ibid
  ibid records delete Ibid --purge     with all its versions
  ibid records delete Ibid --if-version 3     only if version 3 is still the latest")]
pub(crate) struct DeleteArgs {
    /// Delete this key
    #[arg(value_name = "KEY", value_parser = key())]
    pub(crate) key: Key,
    /// Remove all versions for good
    #[arg(long)]
    pub(crate) purge: bool,
    #[command(flatten)]
    pub(crate) only: ConditionArgs,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Removes versions before the latest. The numbers of the others do not change: after `purge Ibid 3`, version 4 is still \
version 4, `versions` passes over version 3, and `get Ibid@3` says that it was purged. To remove the latest version, \
delete the key or store another version first. `delete --purge` removes a key with all its versions.

Nothing leads to a purged version any more. Its bytes are in the store's files until the next `compact`, which stores \
anew what was a delta of it, and overwrites them. Replicas and copies of the files have them for longer, and so has \
what was published.

If the store has a log for replicas, that still names the version, and keeps its bytes. --truncate-log removes what \
the log has until now; a replica that lacks a part of it copies the whole store.

Examples:
  ibid records purge Ibid 3
  ibid records purge Ibid 3-7
  ibid records compact                 then no file has their bytes")]
pub(crate) struct PurgeArgs {
    /// Remove versions of this key
    #[arg(value_name = "KEY", value_parser = key())]
    pub(crate) key: Key,
    /// Remove this version, or those from the first to the last
    #[arg(value_name = "VERSIONS", value_parser = value::record_versions)]
    pub(crate) versions: (u32, u32),
    /// Remove what the log for replicas has until now, so that it does not keep the versions
    #[arg(long)]
    pub(crate) truncate_log: bool,
    #[command(flatten)]
    pub(crate) only: ConditionArgs,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A namespace that keeps versions keeps all of them, unless you set something else. With --keep-last or --keep-within, a \
version is removed unless one of the two keeps it. --keep-within counts from when the next version was stored, so that \
you can read any state of that time. The latest version always stays. With --expire-after, a key is removed, with all \
versions, when its latest version is that old. The options replace what was set before; without any, this shows what \
is set.

The store removes what is not kept while it is open for more than a minute, as with `serve` or in a program, and with \
`ibid records expire`. After that, `compact` returns the space.

Examples:
  ibid records retention
  ibid records retention --keep-last 10 --keep-within 30d
  ibid records retention --namespace sessions --expire-after 12h
  ibid records retention --keep-all")]
pub(crate) struct RetentionArgs {
    /// Keep the last N versions of each key
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep_last: Option<u32>,
    /// Keep each version for this long after the next one was stored, such as 90s, 15m, 12h or 30d
    #[arg(long, value_name = "SPAN", value_parser = value::record_span)]
    pub(crate) keep_within: Option<Duration>,
    /// Remove a key when its latest version is this old
    #[arg(long, value_name = "SPAN", value_parser = value::record_span)]
    pub(crate) expire_after: Option<Duration>,
    /// Keep everything
    #[arg(long, conflicts_with_all = ["keep_last", "keep_within", "expire_after"])]
    pub(crate) keep_all: bool,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Old versions are deltas of newer ones. The latest version of a key is read most, so by default it is stored whole, \
but if several keys have the same bytes, only once. Reading one of many copies then looks up at most 8 records more. \
Where practically no key has a second version, and in a namespace that keeps only the latest one, it may also be a \
delta of a similar record: that takes least space, and reading it takes longer.

What is stored already stays as it is, until the key gets a new version or a similar record is stored. Without HOW, \
this shows what is set.

Examples:
  ibid records latest
  ibid records latest deltas
  ibid records latest whole --namespace pages")]
pub(crate) struct LatestArgs {
    /// Store latest versions in this way from now on
    #[arg(value_name = "HOW", value_enum)]
    pub(crate) how: Option<LatestName>,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Removes what the namespaces of the store do not keep (see `ibid records retention`), and keys that have expired, in \
small commits. You can stop it at any time; the next one continues. --dry-run names what it would remove.

It goes by the clock of this machine. If that is more than a year after anything that the store knows, it may be \
wrong, and nothing is removed: then give the time by --at.

Examples:
  ibid records expire --dry-run
  ibid records expire
  ibid records expire --at 2026-11-21T12:00:00Z     as if it were that time")]
pub(crate) struct ExpireArgs {
    /// Remove nothing; name the keys and versions that would be removed
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Remove what is not kept at this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = value::record_time)]
    pub(crate) at: Option<Time>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Lists the latest version of each key. On a terminal you see a table. Anywhere else you get one JSON object per line, \
with the body, which `ibid records load --scanned` reads again. A body that is not text comes as `body_bytes`, in \
hexadecimal digits; a key likewise as `key_bytes`.

--as-of lists what was the latest at a time. Of a key whose version of that time was purged, or has no time, nothing \
is listed; how many these are is said at the end, and the exit code is 3.

--keys-only reads no record, so it is fast. --deleted lists the keys that were deleted, without reading a record. The \
namespace must keep versions; otherwise nothing is left of a deleted key.

Every record has a number, which grows with each record that is stored: --in-order lists by number, and --after \
continues from one. It reads records also with --keys-only.

Examples:
  ibid records scan --limit 20
  ibid records scan --prefix Talk: --keys-only
  ibid records scan --deleted
  ibid records scan --as-of 2026-11-21T12:00:00Z
  ibid records scan --from a --to b | jq -r .body
  ibid records scan --in-order --after 1000       records stored after number 1000")]
pub(crate) struct ScanArgs {
    /// Start at this key
    #[arg(long, value_name = "KEY", value_parser = key())]
    pub(crate) from: Option<Key>,
    /// Stop before this key
    #[arg(long, value_name = "KEY", value_parser = key())]
    pub(crate) to: Option<Key>,
    /// List only keys that begin with TEXT
    #[arg(long, value_name = "TEXT", value_parser = key(), conflicts_with_all = ["from", "to"])]
    pub(crate) prefix: Option<Key>,
    /// List at most N records
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// List only keys, one per line, escaped as in `ibid ls`; with --json unescaped
    #[arg(long)]
    pub(crate) keys_only: bool,
    /// List deleted keys, each with the version that deletes it, instead of records
    #[arg(long)]
    pub(crate) deleted: bool,
    /// List the versions that were the latest at this time
    #[arg(long, value_name = "TIME", conflicts_with_all = ["in_order", "deleted"], value_parser = value::record_time)]
    pub(crate) as_of: Option<Time>,
    /// List records in the order they were stored
    #[arg(long, conflicts_with_all = ["from", "to", "prefix"])]
    pub(crate) in_order: bool,
    /// List only records stored after the one with this number
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
Lists the records whose keys have a value in an index, in the order of values, and of keys where they are equal. \
Values are compared byte by byte, so 10 is before 9. On a terminal you see a table. Anywhere else you get one JSON \
object per line, with value, key and body. `ibid records stats` lists the indexes.

An index is about the latest versions: it does not know by which values earlier ones were found.

Examples:
  ibid records find email anna@example.org
  ibid records find city --prefix B --limit 20
  ibid records find city --from B --to D --reverse
  ibid records find city Bern --keys-only")]
pub(crate) struct FindRecordsArgs {
    /// Look in this index
    #[arg(value_name = "INDEX", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) index: String,
    /// List only records with this value [default: all]
    #[arg(value_name = "VALUE", value_parser = key(), conflicts_with_all = ["prefix", "from", "to"])]
    pub(crate) value: Option<Key>,
    /// List only values that begin with TEXT
    #[arg(long, value_name = "TEXT", value_parser = key(), conflicts_with_all = ["from", "to"])]
    pub(crate) prefix: Option<Key>,
    /// Start at this value
    #[arg(long, value_name = "VALUE", value_parser = key())]
    pub(crate) from: Option<Key>,
    /// Stop before this value
    #[arg(long, value_name = "VALUE", value_parser = key())]
    pub(crate) to: Option<Key>,
    /// List the last ones first
    #[arg(long)]
    pub(crate) reverse: bool,
    /// List at most N records
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// List only keys, one per line, escaped as in `ibid ls`; with --json unescaped, and their values
    #[arg(long)]
    pub(crate) keys_only: bool,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
An index belongs to a namespace. Keys are in it with the values that `load --index` and `put --index-value` give. A \
namespace has at most 64 indexes, and keeps them. An index that exists stays as it is.

--field fills it: each record whose body is a JSON object is found by the text of this field from then on. Records \
stay as they are, and get no new version. Bodies that are no JSON objects are counted and left out.

Examples:
  ibid records index city
  ibid records index email --unique --field email")]
pub(crate) struct IndexArgs {
    /// Make the index of this name
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    /// Make it so that each value is of one key at most
    #[arg(long)]
    pub(crate) unique: bool,
    /// Find all records by the values that this field has in them
    #[arg(long, value_name = "FIELD", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) field: Option<String>,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibid records versions Ibid
  ibid records versions Ibid --json")]
pub(crate) struct VersionsOfArgs {
    /// List the versions of this key
    #[arg(value_name = "KEY", value_parser = key())]
    pub(crate) key: Key,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Storing is fast because records are first stored by themselves. `compact` then does what makes them small: it stores \
older records as deltas against newer ones, compresses them together in blocks, and returns free space to the disk. \
It leaves existing blocks as they are, unless less than three quarters of a block is still in use, or it is less \
than half full. You can stop it at any time: no record is lost.

Examples:
  ibid records compact
  ibid records load more.jsonl --compact     after loading")]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Shows how much is under the keys, how it is stored (whole, as deltas, or only because other records need it), how \
many others must be read to read one record, and how many records resemble others. `stats` reads every record and \
decodes none. It counts the damage that it meets; `ibid records verify` names it.

Examples:
  ibid records stats
  ibid records stats --json")]
pub(crate) struct RecordsStatsArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Reads every record, and checks both directions: every key leads to its versions and these to their records, and \
every record is one that its key leads to. Each fault is named, entry by entry, and the exit code is 4.

Examples:
  ibid records verify
  ibid records verify --store /mnt/disk/wiki --json")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A store has a log of what was committed last. If a part of it is damaged or missing that was on disk, the store does \
not open, because records would be missing without a word. `repair` gives up the commits that are lost, and says how \
many they are; what was committed before them stays. It needs no password. It changes nothing else: `ibid records \
verify` finds other damage.

Examples:
  ibid records repair
  ibid records verify")]
pub(crate) struct RepairRecordsArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The damaged store stays as it is. In the new one, keys have the same versions with the same numbers and times. One \
that can't be read is as if it had been purged. A key whose latest version can't be read is deleted, so that no \
earlier version is taken for it. What is lost is named, and the exit code is 3. The new store has the password of the \
damaged one. It has no replicas: they begin anew.

Before that, let `ibid records repair` give up what the log of commits has lost, if the store does not open.

Examples:
  ibid records salvage --into ~/notes.new
  ibid records verify --store ~/notes.new")]
pub(crate) struct SalvageArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Make the new store in this folder, which is not there yet, or empty
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) into: PathBuf,
}

/// A key, or a prefix of keys: any bytes.
#[derive(Clone, Debug)]
pub(crate) struct Key(pub(crate) Vec<u8>);

/// The name of an index, and a value in it.
#[derive(Clone, Debug)]
pub(crate) struct IndexValue {
    pub(crate) index: String,
    pub(crate) value: Vec<u8>,
}

fn index_value() -> impl TypedValueParser<Value = IndexValue> {
    OsStringValueParser::new().try_map(|text: OsString| {
        let text = text.into_vec();
        let split = text.iter().position(|&byte| byte == b'=');
        let name = split.and_then(|at| std::str::from_utf8(&text[..at]).ok());
        match (split, name) {
            (Some(at), Some(name)) if at > 0 => Ok(IndexValue {
                index: name.to_owned(),
                value: text[at + 1..].to_vec(),
            }),
            _ => Err("expected the name of an index, = and a value"),
        }
    })
}

fn key() -> impl TypedValueParser<Value = Key> {
    OsStringValueParser::new().map(|text: OsString| Key(text.into_vec()))
}

#[derive(Debug, Args)]
#[command(after_help = "\
Serves replicas until you press Ctrl-C: to those that connect (--listen), through NATS (--publish), or both. From \
its first `serve` on, the store keeps a log of its changes, which takes about ten bytes and the key for each record. \
Nothing else can write to the store meanwhile, because one program at a time can have it open. A program that writes \
while others follow must link the library; see docs/replication.md.

--publish appends the log to a stream of NATS JetStream, and creates the stream if it does not exist. Any number of \
replicas can read it, also while this program does not run. What the servers have acknowledged survives as long as \
more than half of the servers that keep the stream do. If another store was promoted, the stream says so, and this \
one writes no more.

Without --certificate, messages are not encrypted. Without --clients, anyone who can connect gets all records: then \
listen only where you trust everyone, or use a tunnel. For NATS, --authority turns on TLS, and the servers decide \
who may read.

Examples:
  ibid records serve --listen 127.0.0.1:7117
  ibid records serve --listen [::]:7117 --certificate me.pem --private-key me.key --clients ca.pem
  ibid records serve --publish nats://127.0.0.1:4222/wiki
  ibid records serve --publish nats://10.0.0.1,10.0.0.2,10.0.0.3/wiki --stream-max 10GiB
  ibid records serve --publish nats://nats.example.org/wiki --authority ca.pem")]
pub(crate) struct ServeArgs {
    /// Wait for replicas here; port 0 takes a free port and prints it
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = value::listen, required_unless_present = "publish")]
    pub(crate) listen: Option<SocketAddr>,
    /// Publish to these servers of one NATS cluster (HOST:PORT,HOST:PORT), in stream NAME
    #[arg(long, value_name = "nats://HOST:PORT/NAME")]
    pub(crate) publish: Option<nats::Address>,
    /// Keep only the newest N entries of the log; a replica that lacks older ones copies the whole
    /// store [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) log_entries: Option<u64>,
    /// Publish over TLS, to servers with a certificate of one of these authorities (PEM)
    #[arg(long, value_name = "FILE", requires = "publish")]
    pub(crate) authority: Option<PathBuf>,
    /// Answer over TLS only, with this certificate and those between it and the authority (PEM); NATS
    /// servers that ask get it, too
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub(crate) certificate: Option<PathBuf>,
    /// Use this private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) private_key: Option<PathBuf>,
    /// Answer only replicas with a certificate of one of these authorities (PEM)
    #[arg(long, value_name = "FILE", requires = "certificate", requires = "listen")]
    pub(crate) clients: Option<PathBuf>,
    /// Use this file of credentials for NATS, as `nsc` makes it
    #[arg(long, value_name = "FILE", requires = "publish")]
    pub(crate) nats_credentials: Option<PathBuf>,
    /// Create the stream on this many servers [default: 3 of a cluster, else 1]
    #[arg(long, value_name = "N", requires = "publish", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) stream_replicas: Option<u8>,
    /// Create the stream with this size limit, beyond which it drops its oldest messages [default: no
    /// limit]
    #[arg(long, value_name = "SIZE", requires = "publish", value_parser = size)]
    pub(crate) stream_max: Option<u64>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// The log to follow.
#[derive(Clone, Debug)]
pub(crate) enum Followed {
    /// The log of a store that is served at HOST:PORT.
    Served(String),
    /// A log that is published through NATS.
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
            _ => Err("expected HOST:PORT or nats://HOST:PORT/NAME".to_owned()),
        }
    }
}

/// The options for TLS with a store that is served.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// Connect over TLS, and trust only certificates of these authorities (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) authority: Option<PathBuf>,
    /// Require a certificate for this name or address [default: HOST]
    #[arg(long, value_name = "NAME", requires = "authority")]
    pub(crate) server_name: Option<String>,
    /// Show this certificate (PEM) to a store that answers only known replicas
    #[arg(long, value_name = "FILE", requires = "authority", requires = "private_key")]
    pub(crate) certificate: Option<PathBuf>,
    /// Use this private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) private_key: Option<PathBuf>,
    /// Use this file of credentials for NATS, as `nsc` makes it
    #[arg(long, value_name = "FILE")]
    pub(crate) nats_credentials: Option<PathBuf>,
    /// Give up after N tries in a row without an answer, a second apart [default: 10 if the command
    /// ends by itself, else no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) tries: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Follows another store until you press Ctrl-C. If it is stopped or killed, the next run continues where it was. You \
can read a replica like any store, but not write to it until you run `ibid records promote`.

A replica that is new, or was away for longer than the log of its primary reaches, copies the whole store, and cannot \
be read before the copy is complete. If the copy is interrupted, the next run continues it, or begins it again if the \
primary has changed since.

If there is no answer, it says why, once, and tries again every second. With --once it gives up after 10 tries. If the \
other store is a wrong one, or there can be no TLS with it, the command ends at once with an error.

A store that was a primary, as the old one is after another was promoted, would lose the changes that the new \
primary does not have: add --discard to accept that. A store that has records and was never a primary or replica is \
refused.

Examples:
  ibid records replicate --from 127.0.0.1:7117 --store ~/replica
  ibid records replicate --from 127.0.0.1:7117 --store ~/replica --once
  ibid records replicate --from db.example.org:7117 --authority ca.pem
  ibid records replicate --from nats://127.0.0.1:4222/wiki --store ~/replica --once")]
pub(crate) struct ReplicateArgs {
    /// Follow the store served at HOST:PORT, or published at nats://HOST:PORT/NAME
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) from: Followed,
    /// Stop as soon as the replica is up to date
    #[arg(long)]
    pub(crate) once: bool,
    /// Give up changes that this store has and the other one does not
    #[arg(long)]
    pub(crate) discard: bool,
    /// Encrypt a new store with a password: --password-file, --password-command, IBID_PASSWORD, or
    /// typed
    #[arg(long)]
    pub(crate) encrypted: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
With --fence, no change is lost: the old primary, which must be served, writes no more from then on, also after it is \
opened again. The replica takes what the old one has acknowledged until then, and is promoted. If the old primary \
cannot be reached, nothing is promoted. On a store that was promoted before, --fence only ends the writing of the old \
primary.

Without --fence, stop the old primary first. Changes that no replica has are lost, and so are those that the old \
primary acknowledges after the promotion. It learns of the promotion only from a store that knows, or when it \
publishes after the new primary did.

To publish where the old primary did, a replica must have all that was published, or it is refused there. Run `ibid \
records replicate --once` first, and promote then.

A store that was fenced refuses to be promoted, and so does a replica whose primary was fenced before: another store \
may have taken the place. Add --force if none has, or if that one is lost.

Examples:
  ibid records promote --store ~/replica --fence 127.0.0.1:7117
  ibid records promote --store ~/replica
  ibid records serve --publish nats://127.0.0.1:4222/wiki --store ~/replica")]
pub(crate) struct PromoteArgs {
    /// End the writing of the primary served at HOST:PORT first, and take all that it has
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) fence: Option<Followed>,
    /// Turn it into the primary even if another store may have been promoted
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
