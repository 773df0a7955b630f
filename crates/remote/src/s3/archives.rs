//! Archives: which objects are in one, and having them thawed.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use http::Method;
use ibid_storage::{ArchiveState, Archives, Error, ErrorKind, Name, Operation, Storage, Thaw, ThawTier};
use jiff::fmt::rfc2822::DateTimeParser;
use serde::Deserialize;

use super::Bucket;
use super::locks::AT_ONCE;
use super::pages::{Next, name_of};
use super::request::{Answer, Asked};
use crate::address::is_archive;
use crate::{ObjectStorage, Service};

#[derive(Deserialize)]
enum Part {
    Contents(Entry),
    IsTruncated(bool),
    NextContinuationToken(String),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    key: String,
    size: u64,
    #[serde(default)]
    storage_class: String,
}

fn tier_text(tier: ThawTier) -> &'static str {
    match tier {
        ThawTier::Bulk => "Bulk",
        ThawTier::Standard => "Standard",
        ThawTier::Expedited => "Expedited",
    }
}

/// Returns what the headers of an object say of it.
fn state(answer: &Answer) -> ArchiveState {
    let header = |name| answer.headers.get(name).and_then(|value| value.to_str().ok());
    // Amazon's own tiers of INTELLIGENT_TIERING are archives, too, and called so in another header.
    let is_archived = header("x-amz-storage-class").is_some_and(|class| is_archive(Service::S3, class))
        || header("x-amz-archive-status").is_some();
    match header("x-amz-restore") {
        Some(restore) if restore.contains("ongoing-request=\"true\"") => ArchiveState::Thawing,
        Some(restore) if is_archived => {
            let until = restore.split_once("expiry-date=\"").and_then(|(_, rest)| {
                let (date, _) = rest.split_once('"')?;
                DateTimeParser::new().parse_timestamp(date).ok()
            });
            ArchiveState::Readable(until.map(jiff::Timestamp::as_second))
        }
        None if is_archived => ArchiveState::Frozen,
        _ => ArchiveState::Readable(None),
    }
}

impl ObjectStorage {
    async fn state(&self, bucket: &Bucket, name: &Name) -> Result<ArchiveState, Error> {
        let answer = self.look(bucket, name).await?;
        Ok(answer.as_ref().map_or(ArchiveState::Gone, state))
    }

    async fn thaw_one(&self, bucket: &Bucket, name: &Name, thaw: Thaw) -> Result<(), Error> {
        let asked = Asked {
            operation: Operation::Thaw,
            name: Some(name),
            method: Method::POST,
            path: self.path(name.as_str()),
            query: vec![("restore", None)],
            body: format!(
                "<RestoreRequest xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Days>{}</Days>\
                 <GlacierJobParameters><Tier>{}</Tier></GlacierJobParameters></RestoreRequest>",
                thaw.days(),
                tier_text(thaw.tier())
            ),
        };
        match self.ask(bucket, asked).await {
            // It is being thawed, in no archive, or gone.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::AlreadyExists | ErrorKind::Archived | ErrorKind::NotFound
                ) =>
            {
                Ok(())
            }
            answer => answer.map(drop),
        }
    }
}

impl Archives for ObjectStorage {
    fn class_of_data(&self) -> Option<&str> {
        self.address().archive_class()
    }

    fn list_archived(&self, folder: &str, each: &mut dyn FnMut(Name, u64, &str)) -> Result<(), Error> {
        Error::check_folder(folder, || self.location())?;
        let bucket = self.s3_bucket("what is archived")?;
        let above = self.key_prefix();
        let prefix = match folder {
            "" => above.clone(),
            folder => format!("{above}{folder}/"),
        };
        let query = |token: Option<&String>| {
            let mut query = vec![("list-type", Some("2".to_owned())), ("prefix", Some(prefix.clone()))];
            query.extend(token.map(|token| ("continuation-token", Some(token.clone()))));
            query
        };
        self.each_page(bucket, query, |parts: Vec<Part>| {
            let (mut is_truncated, mut marker) = (false, None);
            for part in parts {
                match part {
                    Part::Contents(entry) if is_archive(Service::S3, &entry.storage_class) => {
                        if let Some(name) = name_of(&entry.key, &above) {
                            each(name, entry.size, &entry.storage_class);
                        }
                    }
                    Part::IsTruncated(more) => is_truncated = more,
                    Part::NextContinuationToken(token) => marker = Some(token),
                    Part::Contents(_) | Part::Other => {}
                }
            }
            Ok(Next { is_truncated, marker })
        })
    }

    fn states(&self, names: &[Name]) -> Result<Vec<ArchiveState>, Error> {
        let bucket = self.s3_bucket("what is archived")?;
        let asked = stream::iter(names).map(|name| self.state(bucket, name));
        self.run(&Arc::default(), asked.buffered(AT_ONCE).try_collect())
    }

    fn thaw(&self, names: &[Name], thaw: Thaw, each: &(dyn Fn(u64) -> bool + Sync)) -> Result<(), Error> {
        let bucket = self.s3_bucket("thawing")?;
        for names in names.chunks(AT_ONCE * 4) {
            let asked = stream::iter(names).map(|name| self.thaw_one(bucket, name, thaw));
            let done: Result<Vec<()>, Error> = self.run(&Arc::default(), asked.buffer_unordered(AT_ONCE).try_collect());
            done?;
            if !each(names.len() as u64) {
                break;
            }
        }
        Ok(())
    }
}
