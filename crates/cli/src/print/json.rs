//! Fields of the JSON output, as `docs/json.md` specifies them.

use ibid_format::snapshot::Snapshot;
use ibid_format::tree::{EntryKind, TreeEntry};
use ibid_remote::Requests;
use ibid_repo::SnapshotInfo;
use ibid_terminal::json::{JsonPath, VERSION, lossless};
use serde::Serialize;

use super::About;
use super::time::rfc3339;

#[derive(Serialize)]
pub(crate) struct Document<'a, T> {
    version: u32,
    command: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    repository: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encrypted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<JsonRequests>,
    #[serde(flatten)]
    body: &'a T,
}

impl<'a, T> Document<'a, T> {
    /// Creates a document; `about` is `None` for a command that needs no repository.
    pub(crate) fn new(command: &'static str, about: impl Into<Option<About>>, body: &'a T) -> Document<'a, T> {
        let about = about.into();
        Document {
            version: VERSION,
            command,
            repository: about.map(|about| about.repository.to_string()),
            encrypted: about.map(|about| about.encrypted),
            requests: None,
            body,
        }
    }

    /// Adds what servers were asked.
    pub(crate) fn with(mut self, requests: Option<Requests>) -> Self {
        self.requests = requests.map(JsonRequests::new);
        self
    }
}

/// What servers were asked.
#[derive(Serialize)]
pub(super) struct JsonRequests {
    put: u64,
    get: u64,
    head: u64,
    list: u64,
    delete: u64,
    thaw: u64,
    other: u64,
    again: u64,
    sent_bytes: u64,
    received_bytes: u64,
}

impl JsonRequests {
    pub(super) fn new(requests: Requests) -> JsonRequests {
        JsonRequests {
            put: requests.put,
            get: requests.get,
            head: requests.head,
            list: requests.list,
            delete: requests.delete,
            thaw: requests.thaw,
            other: requests.other,
            again: requests.again,
            sent_bytes: requests.sent_bytes,
            received_bytes: requests.received_bytes,
        }
    }
}

#[derive(Serialize)]
pub(crate) struct Nothing {}

/// A file that could not be read or fully restored.
#[derive(Serialize)]
pub(crate) struct JsonProblem<'a> {
    #[serde(flatten)]
    pub(crate) path: JsonPath,
    pub(crate) problem: &'a str,
}

#[derive(Serialize)]
pub(crate) struct JsonSnapshot {
    id: String,
    time: String,
    host: String,
    user: String,
    program: String,
    tags: Vec<String>,
    paths: Vec<JsonPath>,
    parent: Option<String>,
    original: Option<String>,
    files: u64,
    directories: u64,
    others: u64,
    bytes: u64,
    new_chunks: u64,
    new_bytes: u64,
    stored_bytes: u64,
    unreadable: u64,
    changed_while_read: u64,
    duration_ms: u64,
}

impl JsonSnapshot {
    pub(crate) fn new(info: &SnapshotInfo) -> JsonSnapshot {
        let Snapshot { counters, .. } = &info.snapshot;
        JsonSnapshot {
            id: info.id.to_string(),
            time: rfc3339(info.snapshot.time),
            host: info.snapshot.host.clone(),
            user: info.snapshot.user.clone(),
            program: info.snapshot.program.clone(),
            tags: info.snapshot.tags.clone(),
            paths: info.snapshot.paths.iter().map(|path| JsonPath::new(path)).collect(),
            parent: info.snapshot.parent.map(|id| id.to_string()),
            original: info.snapshot.original.map(|id| id.to_string()),
            files: counters.files,
            directories: counters.directories,
            others: counters.others,
            bytes: counters.bytes,
            new_chunks: counters.new_chunks,
            new_bytes: counters.new_bytes,
            stored_bytes: counters.stored_bytes,
            unreadable: counters.unreadable,
            changed_while_read: counters.changed_while_read,
            duration_ms: info.snapshot.duration_ms,
        }
    }
}

/// Returns the JSON name of a file type.
pub(crate) fn kind(kind: &EntryKind) -> &'static str {
    match kind {
        EntryKind::File(_) => "file",
        EntryKind::Directory(_) => "directory",
        EntryKind::Symlink(_) => "symlink",
        EntryKind::Fifo => "fifo",
        EntryKind::Socket => "socket",
        EntryKind::CharDevice { .. } => "char_device",
        EntryKind::BlockDevice { .. } => "block_device",
    }
}

/// Returns the size of a file, bytes; none for other types.
pub(crate) fn size(entry: &TreeEntry) -> Option<u64> {
    match &entry.kind {
        EntryKind::File(content) => Some(content.length),
        _ => None,
    }
}

/// An entry of a tree.
#[derive(Serialize)]
pub(crate) struct JsonEntry {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    mode: u32,
    uid: u32,
    gid: u32,
    mtime: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<[u32; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inode_flags: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    changed_while_read: bool,
}

impl JsonEntry {
    pub(crate) fn new(entry: &TreeEntry) -> JsonEntry {
        let (target, target_bytes) = match &entry.kind {
            EntryKind::Symlink(target) => {
                let (text, bytes) = lossless(target);
                (Some(text), bytes)
            }
            _ => (None, None),
        };
        let device = match entry.kind {
            EntryKind::CharDevice { major, minor } | EntryKind::BlockDevice { major, minor } => Some([major, minor]),
            _ => None,
        };
        JsonEntry {
            kind: kind(&entry.kind),
            size: size(entry),
            mode: entry.mode,
            uid: entry.uid,
            gid: entry.gid,
            mtime: rfc3339(entry.mtime),
            target,
            target_bytes,
            device,
            inode_flags: (!entry.inode_flags.is_empty()).then(|| entry.inode_flags.to_string()),
            changed_while_read: entry.changed_while_read,
        }
    }
}
