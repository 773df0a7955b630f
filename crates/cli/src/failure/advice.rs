//! Advice: what the user can do about a failure. No other module advises.
//!
//! Errors of the libraries name only causes. Each piece of advice is a whole sentence, printed
//! after the cause: "there is no repository in /mnt/disk. Check the path, …"

use std::borrow::Cow;
use std::io::{Error as IoError, ErrorKind as IoErrorKind};

use ibid_format::record::Refusal;
use ibid_record::Error as RecordError;
use ibid_record::engine::EngineError;
use ibid_record::replicate::net::tls;
use ibid_remote::connection::{HostAddress, NOT_STARTED, TlsAddress};
use ibid_remote::{Address, NOT_TRUSTED};
use ibid_repo::{ChangedBlocksError, Error as RepoError, Fault};
use ibid_storage::{Error as StorageError, ErrorKind, Operation};

use super::Failure;
use crate::allocator::{address_limit, memory};

/// How to give a password.
pub(crate) const GIVE_PASSWORD: &str = "Set IBID_PASSWORD, or use --password-file or --password-command.";
/// What to do about a store of records with faults.
pub(crate) const SALVAGE: &str = "`ibid records salvage` makes a new store of what can be read.";
const THAW: &str = "With --thaw, `ibid restore`, `ibid dump` and `ibid copy` have the service thaw what they need, \
                    which takes hours; with --estimate, they say what that costs.";
/// S3's answer to a signature for another region than that of the bucket.
const WRONG_REGION: &str = "AuthorizationHeaderMalformed";
const SEE_WHAT_DEPENDS: &str = "Run `ibid check --read-data` to see what depends on it.";

type Advice = Option<Cow<'static, str>>;

/// Returns what to do if a thread cannot be started.
pub(crate) fn allow_more() -> String {
    format!(
        "Allow more threads (see `ulimit -u`) and memory ({}).",
        limit_of_memory()
    )
}

/// Returns what to do if the system refuses memory.
fn take_less() -> String {
    format!(
        "Give a smaller --memory, or allow the program more ({}).",
        limit_of_memory()
    )
}

fn limit_of_memory() -> String {
    match address_limit() {
        Some(limit) => format!("`ulimit -v` is {} KiB", limit >> 10),
        None => "see `ulimit -v`".to_owned(),
    }
}

/// Returns the advice for a failure, in whole sentences; `None` if its text needs none.
pub(crate) fn advice(failure: &Failure) -> Advice {
    match failure {
        Failure::Repo(error) => on_repository(error),
        Failure::Records(error) => on_records(error),
        Failure::Local { source, .. } => on_system(source),
        // The advice on the error alone names the command that has just found it.
        Failure::Faults(cause) if matches!(**cause, Failure::Records(_)) => Some(SALVAGE.into()),
        Failure::Partly { cause, .. } | Failure::Faults(cause) => advice(cause),
        // These texts are the program's own, and end with advice.
        Failure::Interrupted(_)
        | Failure::Usage(_)
        | Failure::NotThere(_)
        | Failure::NoStore(_)
        | Failure::Password(_)
        | Failure::Fatal(_) => None,
    }
}

/// Returns the advice for an error of a repository.
pub(crate) fn on_repository(error: &RepoError) -> Advice {
    let advice = match error {
        RepoError::Storage(error) => return Some(on_storage(error).into()),
        RepoError::Local { source, .. } | RepoError::Pipe { source, .. } => return on_system(source),
        RepoError::WrongType {
            found: "a directory" | "the root of the snapshot",
            ..
        } => "`ibid dump --archive tar` writes a folder with all that is in it.",
        RepoError::NoSuchPath { snapshot, .. } => {
            return Some(format!("`ibid ls -R {snapshot}` lists what it has.").into());
        }
        RepoError::Damaged { object, .. } => match folder_of(object) {
            "keys" => "Use the password of another key, or restore this file from a copy of the repository.",
            "snapshots" => {
                "Restore the file from a copy of the repository, or move it away with `ibid repair`. Other snapshots \
                 do not need it."
            }
            "sessions" => "A prune waits for it until its patience ends, or ends it at once with --give-up-on.",
            "forgotten" => {
                "It cannot be brought back, unless you restore this file from a copy of the repository. Other \
                 snapshots do not need it."
            }
            // Nothing depends on them.
            "index" | "sketches" => return None,
            _ => SEE_WHAT_DEPENDS,
        },
        RepoError::BaseUnreadable { .. } | RepoError::Misplaced { .. } => SEE_WHAT_DEPENDS,
        RepoError::Archived { .. } => THAW,
        RepoError::WriterArchives => "Choose a class of storage that is read at once, such as GLACIER_IR.",
        RepoError::FalsePack { .. } => {
            "Its key was stolen, or its machine is broken. `ibid check --writer NAME --read-data` names the files that \
             are affected, if there are any. The next backup of the writer stores them again, and a prune drops the \
             pack then."
        }
        RepoError::ChunkFreed { .. } => {
            "What needs it was forgotten. Run the command again with what `ibid snapshots` lists; if that fails, too, \
             run `ibid check`."
        }
        RepoError::ChunkDamaged { .. } => "Run `ibid check --read-data` to see which files need it.",
        RepoError::ChunkMissing { .. } | RepoError::SnapshotIncomplete { .. } => {
            "Run `ibid check` to see which files need it."
        }
        RepoError::Contradiction { .. } => "Run `ibid check` to see what depends on the pack.",
        RepoError::BadRecipe { .. } => "Run `ibid check` to see which files are damaged.",
        RepoError::ConfigDamaged {
            source: ibid_format::Error::Version { .. },
        } => return None,
        RepoError::ConfigMissing { has_copy: false, .. } => {
            "Its snapshots cannot be opened without it. Do not run `ibid init` there: a new config does not open them. \
             Restore the file `config` from a copy of the repository, or check that all of it is mounted."
        }
        RepoError::ConfigDamaged { .. } | RepoError::ConfigMissing { .. } => {
            "Run `ibid repair`, which makes it again from `config.copy`. Without that file, restore `config` from a \
             copy of the repository. Do not run `ibid init` there."
        }
        RepoError::NotARepository { .. } => "Check the path, or make a repository in another folder.",
        RepoError::NoRepository { .. } => {
            "Check the path, or make a repository there with `ibid init` or `ibid backup --init`."
        }
        RepoError::RepositoryExists { .. } => "Choose another folder.",
        RepoError::KeyUnusable { .. } => "Give the program more memory, or use the password of another key.",
        RepoError::KeyNotStored { .. } => "Check the disk.",
        RepoError::PasswordInUse { .. } => "`ibid key list` shows it.",
        RepoError::PasswordNeeded { .. } => GIVE_PASSWORD,
        RepoError::NotEncrypted { .. } => {
            "If you expect that, give no password and add --unencrypted. \
             If it should be encrypted, find out who replaced it."
        }
        RepoError::NoKeys { .. } => "Restore the folder `keys` from a copy of the repository.",
        RepoError::KeyInUse { .. } => {
            "Change its password with `ibid key passwd`, or open the repository with another password and remove \
             it then."
        }
        RepoError::WriteOnly { .. } => {
            "Unset IBID_KEY_FILE, leave out --key-file, and give a password, on a machine that may read the backups."
        }
        RepoError::WriterConfig { id, .. } => {
            let id = id.to_string();
            let advice = format!(
                "`ibid repair --writer {}` makes it again, for a keeper: someone with the password of the repository.",
                &id[..8]
            );
            return Some(advice.into());
        }
        RepoError::OfWriter { .. } => "Leave out --writer, or copy the snapshots with `ibid copy` first.",
        RepoError::UnknownWriter { .. } | RepoError::WriterExists { .. } => "`ibid key list` shows the writers.",
        RepoError::WeakerLock { .. } => "Leave out --lock and --lock-mode, or give more.",
        RepoError::WriterRevoked { .. } => "`ibid key add-writer` makes another one.",
        RepoError::WriterOfAnother { .. } => "Check the path of the repository and the key that --key-file names.",
        RepoError::UnknownKey { .. } => "`ibid key list` shows the ids.",
        RepoError::NeedsUnknown { source, .. } if source.is_archived() => {
            "A rule of the bucket has moved packs with trees, which all commands read. Bring all below packs/ back \
             into the usual class with the tools of the service, and change the rule."
        }
        RepoError::NeedsUnknown { snapshot, .. } => {
            let advice = format!(
                "Run `ibid repair`, then back up the same files again, which may bring it back. If it does not, \
                 `ibid rewrite --all --exclude-lost --forget` leaves it out, or `ibid forget {snapshot}` ends it."
            );
            return Some(advice.into());
        }
        RepoError::NothingLeft { snapshot } => {
            return Some(format!("To have it no longer, run `ibid forget {snapshot}`.").into());
        }
        RepoError::SnapshotGone { .. } => "`ibid snapshots` lists what there is now.",
        RepoError::UnknownSnapshot { .. } => "`ibid snapshots` lists them.",
        RepoError::AmbiguousSnapshot { .. } => "Give more digits of its id.",
        RepoError::WouldOverwrite { .. } => {
            "Say what to do with existing files: --overwrite always, if-changed or never."
        }
        RepoError::MemoryBudget { .. } => "Give --memory a larger size.",
        RepoError::BadStreamName { .. } => "Give the name of one file, without folders.",
        RepoError::ChangedBlocks(error) => return on_changed_blocks(error),
        RepoError::Threads { .. } => {
            return Some(format!("{} Or use fewer threads with --threads.", allow_more()).into());
        }
        _ => return None,
    };
    Some(advice.into())
}

/// Returns the advice for a map of changed blocks that can't be used.
fn on_changed_blocks(error: &ChangedBlocksError) -> Advice {
    let advice = match error {
        ChangedBlocksError::Unreadable { source } => return on_system(source),
        ChangedBlocksError::NoDirtyBitmap { .. } => {
            "Use `nbdinfo --map=qemu:dirty-bitmap:NAME --json`, or give `qemu-img map` the option x-dirty-bitmap."
        }
        ChangedBlocksError::AllClean => {
            "Use `nbdinfo --map=qemu:dirty-bitmap:NAME --json`. Or, if nothing has changed, give a map of the one line \
             `end`."
        }
        ChangedBlocksError::Empty => "If nothing has changed, write a line `end`.",
        ChangedBlocksError::Paths { .. } => "Back up the others by a command of their own.",
        ChangedBlocksError::NoParent { .. } => "`ibid snapshots` lists the ids. Give at least 8 digits.",
        ChangedBlocksError::ParentMixed { .. } => {
            "Back up once without a map, from a source that does not change meanwhile."
        }
        ChangedBlocksError::NoImage { .. } => "If it is a link, name what it leads to.",
        ChangedBlocksError::OtherSize { .. } | ChangedBlocksError::BeyondTheEnd { .. } => {
            "Check that the map is of this file or device itself, not of a disk in it."
        }
        _ => "Make the map again, or back up without one to read everything.",
    };
    Some(advice.into())
}

/// Returns the advice for an error of a repository's storage.
fn on_storage(error: &StorageError) -> &'static str {
    if Address::is_meant_by(error.location()) {
        return on_server(error);
    }
    if HostAddress::is_meant_by(error.location()) {
        return on_host(error);
    }
    if TlsAddress::is_meant_by(error.location()) {
        return on_listening_host(error);
    }
    match (error.kind(), error.operation()) {
        (ErrorKind::NotFound, Operation::Put | Operation::Sweep | Operation::List) => {
            "Check that the disk is still mounted, then run the command again."
        }
        (ErrorKind::NotFound, Operation::Create | Operation::Open) => "Check the path, and that the disk is mounted.",
        (ErrorKind::NotFound, _) => "Check the path of the repository, and run `ibid check`.",
        (ErrorKind::PermissionDenied, _) => "Run as the user who owns the repository, or give this user access to it.",
        (ErrorKind::NoSpace, _) => "Free space there and run the command again: nothing stored before is lost.",
        (ErrorKind::ReadOnly, _) => {
            "Mount it writable and run the command again. If it turned read-only by itself, check the disk first."
        }
        (ErrorKind::Truncated, _) => "The file is damaged: restore it from a copy of the repository.",
        (ErrorKind::TooLarge, _) => "The file is damaged, or a newer ibid wrote it.",
        (ErrorKind::NotAnObject, _) if error.name().is_some_and(|name| name.as_str() == "config") => {
            "If it leads to the file, put the file itself there. If not, move it away and run `ibid repair`, which \
             makes the config again from `config.copy`."
        }
        (ErrorKind::NotAnObject, Operation::Put | Operation::Open | Operation::Create) => {
            "Move it away and run the command again."
        }
        (ErrorKind::NotAnObject, _) => {
            "If it leads to the file, put the file itself there. If not, restore the file from a copy of the \
             repository, or move away what is there."
        }
        (ErrorKind::Unsupported, _) => {
            "Choose a place that can do that: another file system or, if files are to be locked, a server with S3."
        }
        (ErrorKind::Io, _) => "Check the disk, then run the command again.",
        _ => "Run the command again.",
    }
}

/// Returns the advice for an error of a repository with a server.
fn on_server(error: &StorageError) -> &'static str {
    match error.kind() {
        ErrorKind::Io if error.operation() == Operation::Open => "Check the options, then run the command again.",
        // By the names that services have for it. Nothing says that what was there before is not lost.
        ErrorKind::Io
            if ["NoSuchBucket", "ContainerNotFound"]
                .iter()
                .any(|code| error.found().contains(code)) =>
        {
            "Check the address and --endpoint. If there is no such bucket yet, make it with the tools of the service."
        }
        ErrorKind::Io if error.found().starts_with(NOT_TRUSTED) => {
            "Check the name in the address and the clocks, and give the certificate of its authority with --ca-file, \
             or the server another certificate (docs/remote.md)."
        }
        ErrorKind::Io if error.found().starts_with("the server answers 3") || error.found().contains(WRONG_REGION) => {
            "Check --region, AWS_REGION and --endpoint: the bucket is elsewhere."
        }
        ErrorKind::Archived => THAW,
        ErrorKind::NotFound => "Check the address, and run `ibid check`.",
        ErrorKind::Unsupported if error.operation() == Operation::Thaw => "Choose another --thaw-tier.",
        ErrorKind::PermissionDenied => {
            "Check the credentials, what they allow, and the clock of this machine (docs/remote.md)."
        }
        ErrorKind::NoSpace => "Free space there and run the command again: nothing stored before is lost.",
        ErrorKind::Truncated | ErrorKind::TooLarge => "The object is damaged: run `ibid check`.",
        ErrorKind::Unsupported if error.operation() == Operation::Open => {
            "docs/remote.md says which servers and buckets can do that."
        }
        ErrorKind::Unsupported => {
            "Choose a server that knows conditional writes, and a bucket with object lock if files are to be locked \
             (docs/remote.md)."
        }
        _ => "Check the address and the network, then run the command again: nothing stored before is lost.",
    }
}

/// Returns the advice for an error of a repository on another machine.
fn on_host(error: &StorageError) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied if error.is_append_only() => {
            "Run the command on that machine, or with a key of SSH that may delete."
        }
        ErrorKind::PermissionDenied => {
            "Check that `ssh` reaches that machine as this user does, and that the user there may use the folder."
        }
        ErrorKind::Unsupported if error.found().starts_with(NOT_STARTED) => {
            "Install ssh on this machine, or name another program with --ssh or IBID_SSH."
        }
        ErrorKind::Unsupported => {
            "Install this version of ibid on that machine. Where it is not found, add ?ibid=/PATH/TO/ibid to the \
             address (docs/remote.md)."
        }
        ErrorKind::NotFound if matches!(error.operation(), Operation::Create | Operation::Open) => {
            "Check the path on that machine."
        }
        ErrorKind::NotFound => "Check the address, and run `ibid check`.",
        ErrorKind::NoSpace => "Free space there and run the command again: nothing stored before is lost.",
        ErrorKind::Truncated | ErrorKind::TooLarge => "The file is damaged: run `ibid check`.",
        ErrorKind::ReadOnly => "Mount the folder writable on that machine, and run the command again.",
        _ => "Check the address and that machine, then run the command again: nothing stored before is lost.",
    }
}

/// Returns the advice for an error of a repository on another machine that is reached over TLS.
fn on_listening_host(error: &StorageError) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied if error.is_append_only() => {
            "Run the command on that machine, or through a server without --append-only."
        }
        ErrorKind::PermissionDenied => {
            "Check the certificates and clocks of both machines, and that the server there may use its folder \
             (docs/remote.md)."
        }
        ErrorKind::Unsupported => "Install the same version of ibid on both machines.",
        _ => on_host(error),
    }
}

/// Returns the advice for an error of a record store.
pub(crate) fn on_records(error: &RecordError) -> Advice {
    let advice = match error {
        RecordError::Engine(error) => return on_engine(error),
        RecordError::OfKey { source, .. } | RecordError::OfRecord { source, .. } => return on_records(source),
        RecordError::NoSuchKey { .. } => "`ibid records scan --keys-only` lists the keys.",
        RecordError::ConditionFailed { .. } => {
            "Nothing was changed. Get the latest version, and decide with it: `ibid records versions` lists them."
        }
        RecordError::ValueTaken { .. } => "Nothing was changed. Give this key another value, or change that one first.",
        RecordError::IndexDiffers { .. } => "Open it as it was made: `ibid records stats` lists the indexes.",
        RecordError::VersionsNotKept { .. } => "For a condition, state the number of the record, as with --if-number.",
        RecordError::Purged { .. } | RecordError::TimeUnknown { .. } => {
            "`ibid records versions` lists the versions that are left."
        }
        RecordError::LatestStays { .. } => {
            "Delete the key or store another version first, or remove the key with `delete --purge`."
        }
        RecordError::TimeRunsBackward { .. } => "Sort the input by time.",
        RecordError::NamespaceDiffers { .. } => "Leave out --versions, or choose another --namespace.",
        RecordError::Damaged { .. } => {
            "Restore the store from a copy, or let `ibid records salvage` make a new one of what can be read; start a \
             replica again in an empty folder. `ibid records verify` lists all that is damaged."
        }
        RecordError::OutOfMemory { .. } => return Some(take_less().into()),
        RecordError::BodyTooLong { found, max } => {
            // A body may take the same part of any memory.
            let needed = u128::from(*found) * u128::from(memory());
            let needed = needed.div_ceil(u128::from(*max).max(1)).div_ceil(1 << 20);
            let alone = "`ibid records get KEY` prints a single body of any length.";
            return Some(format!("Give --memory {needed}MiB or more. {alone}").into());
        }
        RecordError::NotAStore { .. } => "Check the path that --store or IBID_STORE gives.",
        RecordError::NotEmpty { .. } => {
            "Give --into another folder, or remove this one if a salvage was killed that has made it."
        }
        RecordError::Encrypted { .. } => GIVE_PASSWORD,
        RecordError::Key {
            source: ibid_format::Error::OutOfMemory { .. },
            ..
        } => return Some(format!("Allow the program more ({}).", limit_of_memory()).into()),
        RecordError::NotEncrypted { .. } => {
            "Leave out the password and --encrypted. If the store should be encrypted, restore its file `key`."
        }
        RecordError::IsReplica => "Write to its primary, or make this store the primary with `ibid records promote`.",
        RecordError::Fenced { .. } => {
            "Write to that one. `ibid records replicate --discard` makes this store its replica. If that one is lost, \
             or was never promoted, make this store the primary again with `ibid records promote --force`."
        }
        RecordError::FencedBefore { .. } => "If one was, follow that one. If none was, or it is lost, add --force.",
        RecordError::Incomplete => {
            "Run `ibid records replicate --once` with the address of its primary, which continues the copy."
        }
        RecordError::NoLog => "Start the replica in an empty folder.",
        RecordError::Diverged { .. } => "Start the replica again in an empty folder.",
        RecordError::Message(_) => "Check that the other end runs the same version of ibid.",
        RecordError::NothingPublished { .. } => "Publish the primary's log with `ibid records serve --publish`.",
        RecordError::Network { .. } => "Check that the other store is served and that you can reach it.",
        RecordError::Certificate { .. } => {
            "Check the files that --authority, --certificate, --private-key and --clients give, and --server-name."
        }
        RecordError::Tls { fault, .. } => on_tls(fault),
        RecordError::StalePrimary { .. } => "Follow the store that was promoted.",
        RecordError::StreamDiffers { .. } => {
            "Replicate what was published into an empty folder, promote that store and let it publish; \
             or publish this store under another name."
        }
        RecordError::OtherStream => "Choose another name.",
        RecordError::Refused(refusal) => match refusal {
            Refusal::Ahead => {
                "If the other store was restored from a copy, promote this one. \
                 Otherwise start again in an empty folder."
            }
            Refusal::OtherStore => "Start the replica in an empty folder.",
            Refusal::OtherEpoch => "Follow that one, or start again in an empty folder.",
            Refusal::Fenced => "Follow the store that was promoted.",
            Refusal::Incomplete => "Wait until it has all.",
            Refusal::NotPrimary => "Give the address of the primary, or leave out --fence.",
            Refusal::LaterEpoch => "Follow that one.",
        },
        RecordError::WriterEnded => "Run the command again.",
        _ => return None,
    };
    Some(advice.into())
}

/// Returns the advice for two ends that can't use TLS together.
fn on_tls(fault: &tls::Fault) -> &'static str {
    match fault {
        tls::Fault::UnknownAuthority => "Give the authority of its certificate with --authority.",
        tls::Fault::OtherName { .. } => {
            "Connect to a name that its certificate has, or give that with --server-name if the store is served."
        }
        tls::Fault::UnusableCertificate { .. } => "Give the other end another certificate, and check the clocks.",
        tls::Fault::CertificateRequired => "Give a certificate that it trusts with --certificate and --private-key.",
        tls::Fault::CertificateRefused { .. } => {
            "Give a certificate of an authority that it trusts, or add the authority at the other end."
        }
        tls::Fault::NoTls => "Leave out --authority, or start the other end with a certificate.",
        tls::Fault::OnlyTls => "Give the authority of its certificate with --authority.",
        _ => "Check that both ends use TLS 1.3.",
    }
}

/// Returns the advice for an error between a record store and the disk.
fn on_engine(error: &EngineError) -> Advice {
    let advice = match error {
        EngineError::InUse { .. } => "Wait until the other command has ended, or stop it.",
        EngineError::Damaged { .. } => {
            "Restore it from a copy, or let `ibid records salvage` make a new store of what can be read."
        }
        EngineError::Version { .. } => "Use the version of ibid that wrote it.",
        EngineError::Io { source, .. } => return on_system(source),
        EngineError::Stopped { .. } | EngineError::Engine { .. } | EngineError::Outdated { .. } => {
            "Run the command again."
        }
        _ => return None,
    };
    Some(advice.into())
}

/// Returns the folder of a repository's file by its name in messages, or the name of one that is in no folder.
fn folder_of(object: &str) -> &str {
    object.split_once('/').map_or(object, |(folder, _)| folder)
}

/// Returns the advice for the faults of a check, a sentence for each kind of file that has some.
pub(crate) fn on_faults(faults: &[Fault]) -> Vec<&'static str> {
    let kinds = [
        (
            "packs",
            "Check the disk, and that you may read all files. `ibid repair` salvages what can be read of damaged \
             packs. Then back up the same files again: what they still have is stored again, for older snapshots too. \
             Files that stay lost are reported until no snapshot has them: \
             `ibid rewrite --all --exclude-lost --forget` leaves them out.",
        ),
        (
            "snapshots",
            "`ibid repair` moves damaged snapshots out of the way: the others do not need them.",
        ),
        (
            "index",
            "`ibid repair`, or the next backup, writes damaged index files again.",
        ),
        (
            "sketches",
            "`ibid repair`, or the next backup that stores something new, replaces damaged sketches.",
        ),
        (
            "keys",
            "`ibid repair` moves damaged keys out of the way. Make others with `ibid key add`.",
        ),
        ("config.copy", "`ibid repair` makes it again."),
        (
            "prune",
            "`ibid prune` goes on with the log of prunes. If its last entry is damaged, a backup or `ibid repair` does \
             so, too.",
        ),
    ];
    let has = |folder: &str| faults.iter().any(|fault| folder_of(&fault.object) == folder);
    let advice = kinds.into_iter().filter(|(folder, _)| has(folder));
    advice.map(|(_, advice)| advice).collect()
}

/// Returns whether the operating system denied permission to a local file.
pub(crate) fn is_denied(error: &RepoError) -> bool {
    matches!(error, RepoError::Local { source, .. } if source.kind() == IoErrorKind::PermissionDenied)
}

/// Advice for files without read permission, which are listed one by one.
pub(crate) const READ_DENIED: &str = "Run as root to back them up, or leave them out with --exclude.";
/// Advice for files that could not be written in a restore.
pub(crate) const RESTORE_DENIED: &str = "Run as root, or restore into a folder of your own.";

/// Returns the advice for an error of the operating system.
pub(crate) fn on_system(error: &IoError) -> Advice {
    let advice = match error.kind() {
        IoErrorKind::StorageFull | IoErrorKind::QuotaExceeded => "Free space there, or choose another place.",
        IoErrorKind::PermissionDenied => "Run as root, or give this user access to it.",
        IoErrorKind::ReadOnlyFilesystem => "Mount it writable, or choose another place.",
        // As for threads.
        IoErrorKind::WouldBlock => return Some(allow_more().into()),
        IoErrorKind::OutOfMemory => return Some(take_less().into()),
        _ => return None,
    };
    Some(advice.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_of_storage_says_what_to_do() {
        let said = |kind, operation| {
            let error = StorageError::new(kind, operation, None, "folder /place");
            Failure::Repo(error.into()).to_string()
        };
        for (kind, operation, advice) in [
            (
                ErrorKind::NoSpace,
                Operation::Put,
                "Free space there and run the command again",
            ),
            (
                ErrorKind::PermissionDenied,
                Operation::Put,
                "Run as the user who owns the repository",
            ),
            (
                ErrorKind::Truncated,
                Operation::ReadAt,
                "restore it from a copy of the repository",
            ),
            (
                ErrorKind::NotFound,
                Operation::Open,
                "Check the path, and that the disk is mounted",
            ),
            (
                ErrorKind::NotFound,
                Operation::List,
                "Check that the disk is still mounted",
            ),
        ] {
            let text = said(kind, operation);
            assert!(text.contains(advice) && text.ends_with('.'), "{text}");
        }
    }
}
