//! Prints `records salvage`.

use std::path::Path;

use ibid_record::{Loss, Salvaged};
use ibid_repo::Result;
use ibid_terminal::json::lossless;
use ibid_terminal::number::{count, counted, size};
use ibid_terminal::{escape_text, path_text};
use serde::Serialize;

use super::super::Out;

#[derive(Default, Serialize)]
struct JsonLoss {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest: Option<bool>,
    text: String,
}

impl JsonLoss {
    fn new(loss: &Loss) -> JsonLoss {
        let text = loss.to_string();
        let of = |kind, namespace: &str| JsonLoss {
            kind,
            namespace: Some(namespace.to_owned()),
            text: text.clone(),
            ..JsonLoss::default()
        };
        let of_key = |kind, namespace, key| {
            let (key, key_bytes) = lossless(key);
            JsonLoss {
                key: Some(key),
                key_bytes,
                ..of(kind, namespace)
            }
        };
        match loss {
            Loss::Version {
                namespace,
                key,
                version,
                is_latest,
                ..
            } => JsonLoss {
                version: Some(*version),
                latest: Some(*is_latest),
                ..of_key("version", namespace, key)
            },
            Loss::Key { namespace, key, .. } => of_key("key", namespace, key),
            Loss::IndexValues { namespace, key, .. } => of_key("index_values", namespace, key),
            Loss::NamespaceName { now } => of("namespace_name", now),
            Loss::NamespaceSettings { namespace, .. } => of("namespace_settings", namespace),
            Loss::Index { namespace, .. } => of("index", namespace),
            Loss::Record { .. } => JsonLoss {
                kind: "record",
                text,
                ..JsonLoss::default()
            },
            _ => JsonLoss {
                kind: "entries",
                text,
                ..JsonLoss::default()
            },
        }
    }
}

#[derive(Serialize)]
struct JsonSalvage {
    versions: u64,
    body_bytes: u64,
    undated: u64,
    of_segments: bool,
    losses_total: u64,
    losses: Vec<JsonLoss>,
}

pub(crate) fn records_salvage(out: &mut Out, into: &Path, found: &Salvaged) -> Result<()> {
    if out.json {
        let body = JsonSalvage {
            versions: found.versions,
            body_bytes: found.body_bytes,
            undated: found.undated,
            of_segments: found.of_segments,
            losses_total: found.losses_total,
            losses: found.losses.iter().map(JsonLoss::new).collect(),
        };
        return out.document("records salvage", None, &body);
    }
    for loss in &found.losses {
        out.line(format!("lost: {}", escape_text(&loss.to_string())))?;
    }
    let unnamed = found.losses_total - found.losses.len() as u64;
    if unnamed > 0 {
        out.line(format!("lost: {} more", count(unnamed)))?;
    }
    if out.quiet && found.is_all() {
        return Ok(());
    }
    out.line(format!(
        "brought {}, {}, into {}",
        counted(found.versions, "version", "versions"),
        size(found.body_bytes),
        path_text(into)
    ))?;
    if found.of_segments {
        out.line(
            "the file redb is lost, and with it perhaps short records, of less than 64 bytes with their keys; what was \
             deleted or purged may be there again",
        )?;
    }
    if found.undated > 0 {
        out.line(format!(
            "the times of {} are lost",
            counted(found.undated, "version", "versions")
        ))?;
    }
    match found.losses_total {
        0 if found.of_segments => out.line("nothing else is known to be lost"),
        0 if found.undated > 0 => out.line("nothing else is lost"),
        0 => out.line("nothing is lost"),
        losses => out.line(format!("LOST {}", counted(losses, "thing", "things"))),
    }
}
