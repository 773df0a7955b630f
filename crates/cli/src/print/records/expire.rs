//! Prints `records expire`.

use ibid_record::{Expiring, Time};
use ibid_repo::Result;
use ibid_terminal::escape;
use ibid_terminal::number::counted;
use serde::Serialize;

use super::super::Out;
use super::JsonKey;

#[derive(Serialize)]
struct JsonBegin {
    at: String,
    dry_run: bool,
}

#[derive(Serialize)]
struct JsonExpiring<'e> {
    namespace: &'e str,
    #[serde(flatten)]
    key: JsonKey,
    /// The first and the last version that is removed; without it the key is.
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<[u32; 2]>,
}

#[derive(Serialize)]
struct JsonEnd {
    keys: u64,
    versions: u64,
}

/// Prints what is removed, as it is found.
pub(crate) struct ExpirePrinter<'a> {
    out: &'a mut Out,
    dry_run: bool,
    keys: u64,
    versions: u64,
}

impl<'a> ExpirePrinter<'a> {
    pub(crate) fn begin(out: &'a mut Out, dry_run: bool, at: Time) -> Result<ExpirePrinter<'a>> {
        if out.json {
            let at = at.to_string();
            out.begin_with("records expire", None, &JsonBegin { at, dry_run })?;
        }
        Ok(ExpirePrinter {
            out,
            dry_run,
            keys: 0,
            versions: 0,
        })
    }

    pub(crate) fn key(&mut self, expiring: &Expiring) -> Result<()> {
        let ends = expiring.versions.as_ref().map(|range| [*range.start(), *range.end()]);
        match ends {
            Some([from, to]) => self.versions += u64::from(to - from) + 1,
            None => self.keys += 1,
        }
        if self.out.json {
            let namespace = expiring.namespace.as_str();
            let key = JsonKey::new(&expiring.key);
            let versions = ends;
            return self.out.item(
                "expiring",
                JsonExpiring {
                    namespace,
                    key,
                    versions,
                },
            );
        }
        // Each key is named only where nothing is removed: there may be millions.
        if !self.dry_run {
            return Ok(());
        }
        let (namespace, key) = (escape(expiring.namespace.as_bytes()), escape(&expiring.key));
        self.out.line(match ends {
            Some([from, to]) if from == to => format!("{namespace}  {key}  version {from}"),
            Some([from, to]) => format!("{namespace}  {key}  versions {from} to {to}"),
            None => format!("{namespace}  {key}  the key with all versions"),
        })
    }

    pub(crate) fn end(self) -> Result<()> {
        let ExpirePrinter { keys, versions, .. } = self;
        if self.out.json {
            return self.out.item("end", JsonEnd { keys, versions });
        }
        if self.out.quiet && !self.dry_run {
            return Ok(());
        }
        let verb = if self.dry_run { "would remove" } else { "removed" };
        let versions = counted(versions, "version", "versions");
        self.out.line(format!(
            "{verb} {} and {versions} of others",
            counted(keys, "key", "keys")
        ))
    }
}
