//! Lists of versions: what a bucket has kept of objects that were deleted or replaced.

use ibid_storage::{Error, Name};
use serde::Deserialize;

use super::pages::{Next, name_of};
use crate::ObjectStorage;

/// One version of an object.
pub(super) struct Version {
    pub(super) name: Name,
    pub(super) id: String,
    /// When it was stored, seconds since 1970.
    pub(super) modified: i64,
    pub(super) size: u64,
    /// As the service calls it.
    pub(super) class: String,
    /// It says that the object was deleted.
    pub(super) is_marker: bool,
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
    #[serde(default)]
    storage_class: String,
}

impl ObjectStorage {
    /// Calls `each` with all versions below the address, those of each object from the newest to the oldest as far as
    /// the server has this order.
    pub(super) fn each_version(&self, mut each: impl FnMut(Version)) -> Result<(), Error> {
        let bucket = self.s3_bucket("reading a storage as it was")?;
        let prefix = self.key_prefix();
        let query = |after: Option<&(String, Option<String>)>| {
            let mut query = vec![("versions", None), ("prefix", Some(prefix.clone()))];
            if let Some((key, id)) = after {
                query.push(("key-marker", Some(key.clone())));
                query.extend(id.clone().map(|id| ("version-id-marker", Some(id))));
            }
            query
        };
        self.each_page(bucket, query, |parts: Vec<Part>| {
            let (mut is_truncated, mut next, mut next_id) = (false, None, None);
            for part in parts {
                let (entry, is_marker) = match part {
                    Part::Version(entry) => (entry, false),
                    Part::DeleteMarker(entry) => (entry, true),
                    Part::IsTruncated(more) => {
                        is_truncated = more;
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
                let Some(name) = name_of(&entry.key, &prefix) else {
                    continue;
                };
                let modified: Result<jiff::Timestamp, _> = entry.last_modified.parse();
                let modified = modified.map_err(|error| self.wrong_list(&format!("{name}: {error}")))?;
                each(Version {
                    name,
                    id: entry.version_id,
                    modified: modified.as_second(),
                    size: entry.size,
                    class: entry.storage_class,
                    is_marker,
                });
            }
            Ok(Next {
                is_truncated,
                marker: next.map(|key| (key, next_id)),
            })
        })
    }
}
