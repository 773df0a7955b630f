//! Archives: which objects are in one, and having them thawed.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use http::Method;
use ibid_storage::{ArchiveState, Archives, Error, ErrorKind, Name, Operation, Storage, Thaw, ThawTier};
use jiff::fmt::rfc2822::DateTimeParser;

use super::Bucket;
use super::locks::AT_ONCE;
use super::pages::{ListPart, Next, name_of};
use super::request::{Answer, Asked};
use crate::address::is_archive;
use crate::{ObjectStorage, Service};

/// For how long a list of what is archived may be used again.
const LATELY: Duration = Duration::from_secs(60);

/// What was archived in some folders.
#[derive(Debug)]
pub(crate) struct ListedArchives {
    pub(crate) at: Instant,
    /// The folders of which all is known.
    pub(crate) folders: Vec<String>,
    pub(crate) objects: Vec<(Name, u64, String)>,
}

/// An object, and which of its versions is meant; the newest if none is named.
type Those<'a> = (&'a Name, Option<&'a str>);

fn present(names: &[Name]) -> Vec<Those<'_>> {
    names.iter().map(|name| (name, None)).collect()
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
    async fn state(&self, bucket: &Bucket, (name, version): Those<'_>) -> Result<ArchiveState, Error> {
        let answer = self.look_at(bucket, name, version).await?;
        Ok(answer.as_ref().map_or(ArchiveState::Gone, state))
    }

    /// Returns whether these objects can be read, or of each the version that is named.
    pub(super) fn states_of(&self, those: &[Those<'_>]) -> Result<Vec<ArchiveState>, Error> {
        let bucket = self.s3_bucket("what is archived")?;
        let asked = stream::iter(those).map(|one| self.state(bucket, *one));
        self.run(&Arc::default(), asked.buffered(AT_ONCE).try_collect())
    }

    /// Asks the service to thaw these objects, or of each the version that is named.
    pub(super) fn thaw_those(
        &self,
        those: &[Those<'_>],
        thaw: Thaw,
        each: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<(), Error> {
        let bucket = self.s3_bucket("thawing")?;
        for those in those.chunks(AT_ONCE * 4) {
            let asked = stream::iter(those).map(|one| self.thaw_one(bucket, *one, thaw));
            let done: Result<Vec<()>, Error> = self.run(&Arc::default(), asked.buffer_unordered(AT_ONCE).try_collect());
            done?;
            if !each(those.len() as u64) {
                break;
            }
        }
        Ok(())
    }

    async fn thaw_one(&self, bucket: &Bucket, (name, version): Those<'_>, thaw: Thaw) -> Result<(), Error> {
        let mut query = vec![("restore", None)];
        query.extend(version.map(|id| ("versionId", Some(id))));
        let asked = Asked {
            operation: Operation::Thaw,
            name: Some(name),
            method: Method::POST,
            path: self.path(name.as_str()),
            query,
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
        self.each_page(bucket, query, |parts: Vec<ListPart>| {
            let (mut is_truncated, mut marker) = (false, None);
            for part in parts {
                match part {
                    ListPart::Contents(entry) if is_archive(Service::S3, &entry.storage_class) => {
                        if let Some(name) = name_of(&entry.key, &above) {
                            each(name, entry.size, &entry.storage_class);
                        }
                    }
                    ListPart::IsTruncated(more) => is_truncated = more,
                    ListPart::NextContinuationToken(token) => marker = Some(token),
                    ListPart::Contents(_) | ListPart::Other => {}
                }
            }
            Ok(Next { is_truncated, marker })
        })
    }

    fn list_archived_lately(&self, folder: &str, each: &mut dyn FnMut(Name, u64, &str)) -> Result<(), Error> {
        let known = {
            let listed = self.listed_archives.lock().unwrap_or_else(PoisonError::into_inner);
            let listed = listed
                .as_ref()
                .filter(|listed| listed.at.elapsed() < LATELY && listed.folders.iter().any(|known| known == folder));
            listed.map(|listed| listed.objects.clone())
        };
        let Some(known) = known else {
            return self.list_archived(folder, each);
        };
        let inside = known.into_iter().filter(|(name, ..)| name.is_in(folder));
        inside.for_each(|(name, size, class)| each(name, size, &class));
        Ok(())
    }

    fn states(&self, names: &[Name]) -> Result<Vec<ArchiveState>, Error> {
        self.states_of(&present(names))
    }

    fn thaw(&self, names: &[Name], thaw: Thaw, each: &(dyn Fn(u64) -> bool + Sync)) -> Result<(), Error> {
        self.thaw_those(&present(names), thaw, each)
    }
}
