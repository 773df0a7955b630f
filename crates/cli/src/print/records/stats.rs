//! How much there is.

use super::super::Out;
use super::super::names::escape;
use super::super::numbers::{count, counted, size};
use super::super::table::{Align, Table};
use super::versions_word;
use ibid_record::NamespaceCounts;
use ibid_repo::Result;
use serde::Serialize;

/// What a store holds, and what it takes.
#[derive(Debug)]
pub(crate) struct StoreStats<'s> {
    pub(crate) namespaces: &'s [NamespaceCounts],
    /// Of all files of the store.
    pub(crate) file_bytes: u64,
    /// Entries that are damaged, and not counted.
    pub(crate) faults: u64,
}

/// What is counted of a namespace, or of all.
#[derive(Clone, Copy, Default, Serialize)]
struct Counts {
    keys: u64,
    deleted_keys: u64,
    records: u64,
    bytes: u64,
    latest_bytes: u64,
    stored_bytes: u64,
}

impl Counts {
    fn of(counts: &NamespaceCounts) -> Counts {
        Counts {
            keys: counts.keys,
            deleted_keys: counts.keys_deleted,
            records: counts.records,
            bytes: counts.body_bytes,
            latest_bytes: counts.latest_body_bytes,
            stored_bytes: counts.stored_bytes,
        }
    }

    fn plus(self, other: Counts) -> Counts {
        Counts {
            keys: self.keys + other.keys,
            deleted_keys: self.deleted_keys + other.deleted_keys,
            records: self.records + other.records,
            bytes: self.bytes + other.bytes,
            latest_bytes: self.latest_bytes + other.latest_bytes,
            stored_bytes: self.stored_bytes + other.stored_bytes,
        }
    }

    fn row(self, name: String, versions: &str) -> Vec<String> {
        vec![
            name,
            versions.to_owned(),
            count(self.keys),
            count(self.deleted_keys),
            count(self.records),
            size(self.bytes),
            size(self.latest_bytes),
            size(self.stored_bytes),
        ]
    }
}

/// A namespace.
#[derive(Serialize)]
pub(super) struct JsonNamespace<'n> {
    namespace: &'n str,
    versions: &'static str,
    #[serde(flatten)]
    counts: Counts,
}

pub(super) fn json_namespaces(namespaces: &[NamespaceCounts]) -> Vec<JsonNamespace<'_>> {
    let json = |namespace| JsonNamespace::new(namespace);
    namespaces.iter().map(json).collect()
}

impl JsonNamespace<'_> {
    fn new(counts: &NamespaceCounts) -> JsonNamespace<'_> {
        JsonNamespace {
            namespace: &counts.name,
            versions: versions_word(counts.versions),
            counts: Counts::of(counts),
        }
    }
}

#[derive(Serialize)]
struct JsonStats<'s> {
    namespaces: Vec<JsonNamespace<'s>>,
    total: Counts,
    file_bytes: u64,
    faults: u64,
}

pub(crate) fn records_stats(out: &mut Out, stats: &StoreStats<'_>) -> Result<()> {
    let all = stats.namespaces.iter().map(Counts::of);
    let total = all.fold(Counts::default(), Counts::plus);
    if out.json {
        let body = JsonStats {
            namespaces: json_namespaces(stats.namespaces),
            total,
            file_bytes: stats.file_bytes,
            faults: stats.faults,
        };
        return out.document("records stats", None, &body);
    }
    let mut table = Table::new(&[
        ("namespace", Align::Left),
        ("versions", Align::Left),
        ("keys", Align::Right),
        ("deleted", Align::Right),
        ("records", Align::Right),
        ("bodies", Align::Right),
        ("latest", Align::Right),
        ("stored", Align::Right),
    ]);
    for namespace in stats.namespaces {
        let name = escape(namespace.name.as_bytes());
        table.row(Counts::of(namespace).row(name, versions_word(namespace.versions)));
    }
    table.row(total.row("in all".to_owned(), ""));
    table.lines().try_for_each(|line| out.line(line))?;
    out.line(format!("on disk: {}", size(stats.file_bytes)))?;
    if stats.faults > 0 {
        out.line(format!(
            "FOUND {}, which are not counted: `ibid records verify` names them",
            counted(stats.faults, "damaged entry", "damaged entries")
        ))?;
    }
    Ok(())
}
