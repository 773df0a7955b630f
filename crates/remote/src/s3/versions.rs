//! Lists of versions: what a bucket has kept of objects that were deleted or replaced.

use std::sync::Arc;

use http::Method;
use ibid_storage::{Error, ErrorKind, Name, Operation, Storage};
use object_store::path::Path;
use serde::Deserialize;

use super::request::Asked;
use crate::ObjectStorage;

/// One version of an object.
pub(super) struct Version {
    pub(super) name: Name,
    pub(super) id: String,
    /// When it was stored, seconds since 1970.
    pub(super) modified: i64,
    pub(super) size: u64,
    /// It says that the object was deleted.
    pub(super) is_marker: bool,
}

#[derive(Deserialize)]
struct Page {
    #[serde(rename = "$value", default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
enum Part {
    Version(Entry),
    DeleteMarker(Entry),
    IsTruncated(bool),
    NextKeyMarker(String),
    NextVersionIdMarker(String),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    key: String,
    version_id: String,
    last_modified: String,
    #[serde(default)]
    size: u64,
}

impl ObjectStorage {
    /// Calls `each` with all versions below the address, those of each object from the newest to the oldest as far as
    /// the server has this order.
    pub(super) fn each_version(&self, mut each: impl FnMut(Version)) -> Result<(), Error> {
        let bucket = self.s3_bucket("reading a storage as it was")?;
        let wrong = |found: String| {
            Error::new(ErrorKind::Io, Operation::List, None, self.location())
                .with_found(format!("the list of versions can't be read: {found}"))
        };
        let prefix = match self.address.prefix() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let mut after: Option<(String, Option<String>)> = None;
        loop {
            let mut query = vec![("versions", None), ("prefix", Some(prefix.as_str()))];
            if let Some((key, id)) = &after {
                query.push(("key-marker", Some(key)));
                query.extend(id.as_deref().map(|id| ("version-id-marker", Some(id))));
            }
            let asked = Asked {
                operation: Operation::List,
                name: None,
                method: Method::GET,
                path: Path::default(),
                query,
                body: String::new(),
            };
            let answer = self.run(&Arc::default(), self.ask(bucket, asked))?;
            let page: Page =
                quick_xml::de::from_reader(answer.body.as_slice()).map_err(|error| wrong(error.to_string()))?;
            let (mut is_last, mut next, mut next_id) = (true, None, None);
            for part in page.parts {
                let (entry, is_marker) = match part {
                    Part::Version(entry) => (entry, false),
                    Part::DeleteMarker(entry) => (entry, true),
                    Part::IsTruncated(more) => {
                        is_last = !more;
                        continue;
                    }
                    Part::NextKeyMarker(key) => {
                        next = Some(key);
                        continue;
                    }
                    Part::NextVersionIdMarker(id) => {
                        next_id = Some(id).filter(|id| !id.is_empty());
                        continue;
                    }
                    Part::Other => continue,
                };
                let name = entry.key.strip_prefix(&prefix).and_then(|name| Name::new(name).ok());
                // What no name can denote is of other programs.
                let Some(name) = name else { continue };
                let modified: Result<jiff::Timestamp, _> = entry.last_modified.parse();
                let modified = modified.map_err(|error| wrong(format!("{name}: {error}")))?;
                each(Version {
                    name,
                    id: entry.version_id,
                    modified: modified.as_second(),
                    size: entry.size,
                    is_marker,
                });
            }
            let next = next.map(|key| (key, next_id));
            match (is_last, next) {
                (true, _) => return Ok(()),
                (false, Some(next)) if after.as_ref() != Some(&next) => after = Some(next),
                (false, _) => {
                    return Err(wrong(
                        "it says that there is more, and not where that begins".to_owned(),
                    ));
                }
            }
        }
    }
}
