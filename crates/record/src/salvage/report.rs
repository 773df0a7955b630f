//! What a salvage has found.

use std::fmt;

use crate::audit::FAULTS_MAX;
use crate::engine::Table;

/// What was brought from a damaged store into a new one, and what was lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Salvaged {
    /// Versions of keys that are in the new store, deletions included.
    pub versions: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// Those among them whose times are lost.
    pub undated: u64,
    /// What was lost, at most [`FAULTS_MAX`].
    pub losses: Vec<Loss>,
    /// How much was lost: as many as would be in the list if it had no end.
    pub losses_total: u64,
    /// Whether redb's file was lost, so that all is from its segments alone. Then records of less than 64 bytes, with
    /// their keys, that are in no block may be lost without a word, what was deleted or purged may be there again, and
    /// most versions have no times.
    pub of_segments: bool,
    /// Whether it was stopped. Then there is no new store.
    pub stopped: bool,
}

impl Salvaged {
    /// Returns whether everything was brought, and nothing is lost.
    pub fn is_all(&self) -> bool {
        self.losses_total == 0 && self.undated == 0 && !self.of_segments && !self.stopped
    }

    pub(super) fn lose(&mut self, loss: Loss) {
        self.losses_total += 1;
        if self.losses.len() < FAULTS_MAX {
            self.losses.push(loss);
        }
    }
}

/// Something of a damaged store that is not in the new one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// A version of a key. If it was the latest, the key is deleted in the new store, so that no earlier version is
    /// taken for it.
    Version {
        /// The namespace.
        namespace: String,
        /// The key.
        key: Vec<u8>,
        /// The version, from 1.
        version: u32,
        /// Whether it was the latest.
        is_latest: bool,
        /// Why it can't be read.
        why: String,
    },
    /// What is known of a key beside its bodies: which versions there were, when they were stored, when it expires, and
    /// its index values. Of its versions those were brought that can be read.
    Key {
        /// The namespace.
        namespace: String,
        /// The key.
        key: Vec<u8>,
        /// Why it can't be read.
        why: String,
    },
    /// A record. Nothing says which key it is of, and whether it was needed.
    Record {
        /// Its number in the damaged store.
        number: u64,
        /// Why it can't be read.
        why: String,
    },
    /// The name and the settings of a namespace. Its records are in one of another name.
    NamespaceName {
        /// That name.
        now: String,
    },
    /// The settings of a namespace: what it keeps, and how it stores latest versions. In the new store it keeps all
    /// versions.
    NamespaceSettings {
        /// Its name.
        namespace: String,
        /// Why they can't be read.
        why: String,
    },
    /// An index of a namespace.
    Index {
        /// The namespace.
        namespace: String,
        /// The name of the index.
        index: String,
        /// Why it can't be read.
        why: String,
    },
    /// Index values of a key, of indexes that are lost.
    IndexValues {
        /// The namespace.
        namespace: String,
        /// The key.
        key: Vec<u8>,
        /// How many.
        values: u64,
    },
    /// Some entries of a table of the engine, which may have been needed.
    Entries {
        /// The table.
        table: Table,
        /// Why they can't be read.
        why: String,
    },
}

impl fmt::Display for Loss {
    /// `version 3 of "page" in namespace "pages", the latest: …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Version {
                namespace,
                key,
                version,
                is_latest,
                why,
            } => {
                let latest = if *is_latest { ", the latest" } else { "" };
                let (key, namespace) = (key.escape_ascii(), namespace.escape_debug());
                write!(
                    f,
                    "version {version} of \"{key}\" in namespace \"{namespace}\"{latest}: {why}"
                )
            }
            Loss::Key { namespace, key, why } => {
                let (key, namespace) = (key.escape_ascii(), namespace.escape_debug());
                write!(f, "the entry of \"{key}\" in namespace \"{namespace}\": {why}")
            }
            Loss::Record { number, why } => write!(f, "record {number}, of an unknown key: {why}"),
            Loss::NamespaceName { now } => {
                write!(f, "the name of a namespace, which is \"{}\" now", now.escape_debug())
            }
            Loss::NamespaceSettings { namespace, why } => {
                write!(f, "the settings of namespace \"{}\": {why}", namespace.escape_debug())
            }
            Loss::Index { namespace, index, why } => {
                let (index, namespace) = (index.escape_debug(), namespace.escape_debug());
                write!(f, "index \"{index}\" of namespace \"{namespace}\": {why}")
            }
            Loss::IndexValues { namespace, key, values } => {
                let (key, namespace) = (key.escape_ascii(), namespace.escape_debug());
                write!(f, "{values} index values of \"{key}\" in namespace \"{namespace}\"")
            }
            Loss::Entries { table, why } => write!(f, "entries of the table {}: {why}", table.name()),
        }
    }
}
