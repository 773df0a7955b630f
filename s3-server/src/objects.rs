//! The objects, and what is done with them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use hyper::StatusCode;
use s3s::dto::{
    DeleteMarkerEntry, DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject,
    ETag, ETagCondition, GetObjectInput, GetObjectLockConfigurationInput, GetObjectLockConfigurationOutput,
    GetObjectOutput, HeadBucketInput, HeadBucketOutput, HeadObjectInput, HeadObjectOutput, ListObjectVersionsInput,
    ListObjectVersionsOutput, ListObjectsV2Input, ListObjectsV2Output, Object, ObjectLockConfiguration,
    ObjectLockEnabled, ObjectLockMode, ObjectStorageClass, ObjectVersion, ObjectVersionStorageClass, PutObjectInput,
    PutObjectOutput, PutObjectRetentionInput, PutObjectRetentionOutput, RestoreObjectInput, RestoreObjectOutput,
    StorageClass, StreamingBlob, Timestamp,
};
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use crate::{BUCKETS, LOCKABLE, VERSIONED};

/// What kind of server it is.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// Objects in a page of a list, at most.
    pub page: usize,
    /// Whether it ignores the condition of a put, as servers do that don't know it.
    pub overwrites: bool,
    /// Whether it can't delete several objects with one request.
    pub deletes_one: bool,
}

impl Default for Traits {
    fn default() -> Self {
        Traits {
            page: 1000,
            overwrites: false,
            deletes_one: false,
        }
    }
}

/// One version of an object: its bytes, or that it was deleted.
#[derive(Clone)]
struct Stored {
    bytes: Bytes,
    is_marker: bool,
    modified: SystemTime,
    tag: String,
    class: Option<String>,
    thaw: Option<Thaw>,
    lock: Option<Lock>,
}

/// What has become of the request to thaw a version.
#[derive(Clone)]
struct Thaw {
    /// How fast.
    tier: String,
    days: u64,
    /// Until when it can be read; `None` as long as it is being thawed.
    until: Option<SystemTime>,
    /// After how many more requests for its state it can't be read any more, if a test has asked for that.
    looks: Option<u32>,
}

/// Until when a version can't be deleted.
#[derive(Clone)]
struct Lock {
    mode: String,
    until: SystemTime,
}

/// The versions of each object, the oldest first. A bucket without versions has one of each.
type Buckets = BTreeMap<(String, String), Vec<Stored>>;

#[derive(Clone)]
pub(crate) struct Objects {
    buckets: Arc<Mutex<Buckets>>,
    traits: Traits,
}

impl Objects {
    pub(crate) fn new(traits: Traits) -> Objects {
        Objects {
            buckets: Arc::default(),
            traits,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn keys(&self, bucket: &str) -> Vec<String> {
        let buckets = self.lock();
        let of_bucket = buckets.iter().filter(|((other, _), _)| other == bucket);
        let there = of_bucket.filter(|(_, versions)| latest(versions).is_some());
        there.map(|((_, key), _)| key.clone()).collect()
    }

    pub(crate) fn get(&self, bucket: &str, key: &str) -> Option<Bytes> {
        self.find(bucket, key).map(|stored| stored.bytes)
    }

    pub(crate) fn set(&self, bucket: &str, key: &str, bytes: Option<Vec<u8>>) {
        let version = bytes.map(|bytes| stored(bytes.into(), None));
        add(&mut self.lock(), bucket, key, version);
    }

    pub(crate) fn class(&self, bucket: &str, key: &str) -> Option<String> {
        self.find(bucket, key)?.class
    }

    pub(crate) fn set_class(&self, bucket: &str, key: &str, class: &str) {
        let mut buckets = self.lock();
        let versions = buckets.get_mut(&(bucket.to_owned(), key.to_owned()));
        if let Some(stored) = versions.and_then(|versions| versions.last_mut()) {
            stored.class = Some(class.to_owned());
        }
    }

    /// Ends the thawing of all that is being thawed.
    pub(crate) fn finish_thaws(&self) {
        for thaw in self
            .lock()
            .values_mut()
            .flatten()
            .filter_map(|stored| stored.thaw.as_mut())
        {
            let days = Duration::from_secs(thaw.days * 24 * 60 * 60);
            thaw.until.get_or_insert(SystemTime::now() + days);
        }
    }

    /// Ends the time of a thawed object once its state was asked for so often.
    pub(crate) fn expire_after_looks(&self, bucket: &str, key: &str, looks: u32) {
        let mut buckets = self.lock();
        let versions = buckets.get_mut(&(bucket.to_owned(), key.to_owned()));
        if let Some(thaw) = versions.and_then(|versions| versions.last_mut()?.thaw.as_mut()) {
            thaw.looks = Some(looks);
        }
    }

    /// Counts that the state of an object was asked for.
    fn looked(&self, bucket: &str, key: &str) {
        let mut buckets = self.lock();
        let versions = buckets.get_mut(&(bucket.to_owned(), key.to_owned()));
        let thaw = versions.and_then(|versions| versions.last_mut()?.thaw.as_mut());
        if let Some(Thaw {
            looks: Some(looks),
            until,
            ..
        }) = thaw
        {
            *looks = looks.saturating_sub(1);
            if *looks == 0 {
                *until = Some(SystemTime::UNIX_EPOCH);
            }
        }
    }

    /// Returns how fast an object was asked to be thawed, and for how many days, if it was.
    pub(crate) fn thaw(&self, bucket: &str, key: &str) -> Option<(String, u64)> {
        let stored = self.find(bucket, key)?;
        stored.thaw().map(|thaw| (thaw.tier.clone(), thaw.days))
    }

    pub(crate) fn locked_until(&self, bucket: &str, key: &str) -> Option<(String, SystemTime)> {
        let lock = self.find(bucket, key)?.lock?;
        Some((lock.mode, lock.until))
    }

    /// Makes all that is stored older, as if this time had passed.
    pub(crate) fn pass(&self, time: Duration) {
        for stored in self.lock().values_mut().flatten() {
            stored.modified -= time;
            if let Some(lock) = &mut stored.lock {
                lock.until -= time;
            }
            if let Some(until) = stored.thaw.as_mut().and_then(|thaw| thaw.until.as_mut()) {
                *until -= time;
            }
        }
    }

    /// Deletes versions, as far as their locks let this happen, and leaves markers, without which objects would be
    /// back. Returns how many versions are left.
    pub(crate) fn destroy(&self, bucket: &str) -> usize {
        let now = SystemTime::now();
        let mut buckets = self.lock();
        for ((other, _), versions) in buckets.iter_mut() {
            let holds = |stored: &Stored| stored.lock.as_ref().is_some_and(|lock| lock.until > now);
            if other == bucket {
                versions.retain(|stored| stored.is_marker || holds(stored));
            }
        }
        buckets.retain(|_, versions| !versions.is_empty());
        let left = buckets.iter().filter(|((other, _), _)| other == bucket);
        left.flat_map(|(_, versions)| versions)
            .filter(|stored| !stored.is_marker)
            .count()
    }

    fn find(&self, bucket: &str, key: &str) -> Option<Stored> {
        let buckets = self.lock();
        latest(buckets.get(&(bucket.to_owned(), key.to_owned()))?).cloned()
    }

    fn wanted(&self, bucket: &str, key: &str, version: Option<&str>) -> S3Result<Stored> {
        there(bucket)?;
        let found = match version {
            None => self.find(bucket, key),
            Some(id) => {
                let buckets = self.lock();
                let versions = buckets.get(&(bucket.to_owned(), key.to_owned()));
                let found = versions.and_then(|versions| versions.iter().find(|stored| stored.id(bucket) == id));
                found.filter(|stored| !stored.is_marker).cloned()
            }
        };
        found.ok_or_else(|| s3_error!(NoSuchKey, "The specified key does not exist."))
    }

    /// Deletes an object, or one of its versions.
    fn delete(&self, bucket: &str, key: &str, version: Option<&str>, bypass: bool) -> S3Result<()> {
        let Some(id) = version else {
            self.set(bucket, key, None);
            return Ok(());
        };
        let mut buckets = self.lock();
        let name = (bucket.to_owned(), key.to_owned());
        let Some(versions) = buckets.get_mut(&name) else {
            return Ok(());
        };
        let is_meant = |stored: &Stored| stored.id(bucket) == id;
        let holds = |lock: &Lock| lock.until > SystemTime::now() && !(bypass && lock.mode == "GOVERNANCE");
        let meant = versions.iter().find(|stored| is_meant(stored));
        if meant.and_then(|stored| stored.lock.as_ref()).is_some_and(holds) {
            return Err(s3_error!(
                AccessDenied,
                "Access Denied because object protected by object lock."
            ));
        }
        versions.retain(|stored| !is_meant(stored));
        if versions.is_empty() {
            buckets.remove(&name);
        }
        Ok(())
    }
}

impl Stored {
    fn is_archived(&self) -> bool {
        matches!(self.class.as_deref(), Some("GLACIER" | "DEEP_ARCHIVE"))
    }

    /// Returns what was asked for, unless its time is over.
    fn thaw(&self) -> Option<&Thaw> {
        let holds = |thaw: &&Thaw| thaw.until.is_none_or(|until| until > SystemTime::now());
        self.thaw.as_ref().filter(holds)
    }

    fn is_readable(&self) -> bool {
        !self.is_archived() || self.thaw().is_some_and(|thaw| thaw.until.is_some())
    }

    /// Returns the header that says what was asked for.
    fn restore(&self) -> Option<String> {
        let thaw = self.thaw()?;
        Some(match thaw.until {
            None => "ongoing-request=\"true\"".to_owned(),
            Some(until) => {
                let until = time::OffsetDateTime::from(until);
                let (day, month) = (until.weekday().to_string(), until.month().to_string());
                format!(
                    "ongoing-request=\"false\", expiry-date=\"{}, {:02} {} {} {:02}:{:02}:{:02} GMT\"",
                    &day[..3],
                    until.day(),
                    &month[..3],
                    until.year(),
                    until.hour(),
                    until.minute(),
                    until.second()
                )
            }
        })
    }

    /// Returns the id of this version.
    fn id(&self, bucket: &str) -> &str {
        if keeps_versions(bucket) { &self.tag } else { "null" }
    }
}

/// Returns the latest version, unless the object is deleted.
fn latest(versions: &[Stored]) -> Option<&Stored> {
    versions.last().filter(|stored| !stored.is_marker)
}

/// Adds a version, or a marker.
fn add(buckets: &mut Buckets, bucket: &str, key: &str, version: Option<Stored>) {
    let name = (bucket.to_owned(), key.to_owned());
    if !keeps_versions(bucket) {
        buckets.remove(&name);
        if version.is_none() {
            return;
        }
    }
    let marker = || Stored {
        is_marker: true,
        ..stored(Bytes::new(), None)
    };
    buckets.entry(name).or_default().push(version.unwrap_or_else(marker));
}

fn keeps_versions(bucket: &str) -> bool {
    [VERSIONED, LOCKABLE].contains(&bucket)
}

fn there(bucket: &str) -> S3Result<()> {
    match BUCKETS.contains(&bucket) {
        true => Ok(()),
        false => Err(s3_error!(NoSuchBucket, "The specified bucket does not exist")),
    }
}

fn stored(bytes: Bytes, class: Option<String>) -> Stored {
    use std::hash::{BuildHasher, RandomState};
    Stored {
        bytes,
        is_marker: false,
        modified: SystemTime::now(),
        // Another one for each put.
        tag: format!("{:016x}", RandomState::new().hash_one(0)),
        class,
        thaw: None,
        lock: None,
    }
}

fn length(bytes: usize) -> i64 {
    bytes.try_into().expect("objects fit into memory")
}

fn system_time(timestamp: Timestamp) -> SystemTime {
    time::OffsetDateTime::from(timestamp).into()
}

/// Returns the lock that a request asks for.
fn asked_lock(bucket: &str, mode: Option<String>, until: Option<Timestamp>) -> S3Result<Option<Lock>> {
    let lock = match (mode, until) {
        (None, None) => return Ok(None),
        (Some(mode), Some(until)) => Lock {
            mode,
            until: system_time(until),
        },
        _ => return Err(s3_error!(InvalidRequest, "Both the mode and the date are needed")),
    };
    if bucket != LOCKABLE {
        return Err(s3_error!(InvalidRequest, "Bucket is missing Object Lock Configuration"));
    }
    if lock.until <= SystemTime::now() {
        return Err(s3_error!(
            InvalidArgument,
            "The retain until date must be in the future!"
        ));
    }
    Ok(Some(lock))
}

#[async_trait::async_trait]
impl S3 for Objects {
    async fn head_bucket(&self, request: S3Request<HeadBucketInput>) -> S3Result<S3Response<HeadBucketOutput>> {
        there(&request.input.bucket)?;
        Ok(S3Response::new(HeadBucketOutput::default()))
    }

    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let input = request.input;
        there(&input.bucket)?;
        let mut bytes = Vec::new();
        if let Some(mut body) = input.body {
            while let Some(piece) = body.next().await {
                bytes.extend_from_slice(&piece.map_err(|_| s3_error!(IncompleteBody))?);
            }
        }
        let class = input.storage_class.map(|class| class.as_str().to_owned());
        let mode = input.object_lock_mode.map(|mode| mode.as_str().to_owned());
        let lock = asked_lock(&input.bucket, mode, input.object_lock_retain_until_date)?;
        if lock.is_some() && input.content_md5.is_none() && input.checksum_sha256.is_none() {
            return Err(s3_error!(
                InvalidRequest,
                "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock \
                 parameters"
            ));
        }
        let stored = Stored {
            lock,
            ..stored(bytes.into(), class)
        };
        let tag = stored.tag.clone();
        // As a bucket of Amazon whose policy denies puts that could overwrite: ibid sends no others.
        if !matches!(input.if_none_match, Some(ETagCondition::Any)) {
            return Err(s3_error!(
                AccessDenied,
                "a put with If-None-Match: * was expected, and this one may overwrite"
            ));
        }
        let mut buckets = self.lock();
        let is_new = !self.traits.overwrites;
        let versions = buckets.get(&(input.bucket.clone(), input.key.clone()));
        if is_new && versions.is_some_and(|versions| latest(versions).is_some()) {
            return Err(s3_error!(
                PreconditionFailed,
                "At least one of the pre-conditions you specified did not hold"
            ));
        }
        add(&mut buckets, &input.bucket, &input.key, Some(stored));
        Ok(S3Response::new(PutObjectOutput {
            e_tag: Some(ETag::Strong(tag)),
            ..PutObjectOutput::default()
        }))
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let stored = self.wanted(&input.bucket, &input.key, input.version_id.as_deref())?;
        if !stored.is_readable() {
            return Err(s3_error!(
                InvalidObjectState,
                "The operation is not valid for the object's storage class"
            ));
        }
        let whole = stored.bytes.len();
        let range = input.range.map(|range| range.check(whole as u64)).transpose();
        let range = range.map_err(|_| s3_error!(InvalidRange))?;
        let (bytes, content_range) = match range {
            Some(range) => (
                stored.bytes.slice(range.start as usize..range.end as usize),
                Some(format!("bytes {}-{}/{whole}", range.start, range.end - 1)),
            ),
            None => (stored.bytes, None),
        };
        let pieces: Vec<_> = bytes.chunks(64 << 10).map(|piece| bytes.slice_ref(piece)).collect();
        Ok(S3Response::new(GetObjectOutput {
            content_length: Some(length(bytes.len())),
            body: Some(StreamingBlob::wrap(stream::iter(
                pieces.into_iter().map(Ok::<_, std::io::Error>),
            ))),
            content_range,
            e_tag: Some(ETag::Strong(stored.tag)),
            last_modified: Some(stored.modified.into()),
            ..GetObjectOutput::default()
        }))
    }

    async fn head_object(&self, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let input = request.input;
        let stored = self.wanted(&input.bucket, &input.key, input.version_id.as_deref())?;
        self.looked(&input.bucket, &input.key);
        let restore = stored.restore();
        let storage_class = stored.class.map(StorageClass::from);
        let lock = stored.lock;
        Ok(S3Response::new(HeadObjectOutput {
            restore,
            storage_class,
            content_length: Some(length(stored.bytes.len())),
            e_tag: Some(ETag::Strong(stored.tag)),
            last_modified: Some(stored.modified.into()),
            object_lock_mode: lock.as_ref().map(|lock| ObjectLockMode::from(lock.mode.clone())),
            object_lock_retain_until_date: lock.map(|lock| lock.until.into()),
            ..HeadObjectOutput::default()
        }))
    }

    async fn restore_object(
        &self,
        request: S3Request<RestoreObjectInput>,
    ) -> S3Result<S3Response<RestoreObjectOutput>> {
        let input = request.input;
        let stored = self.wanted(&input.bucket, &input.key, input.version_id.as_deref())?;
        if !stored.is_archived() {
            return Err(s3_error!(
                InvalidObjectState,
                "Restore is not allowed for the object's current storage class"
            ));
        }
        let asked = input.restore_request.unwrap_or_default();
        let tier = asked.glacier_job_parameters.map(|job| job.tier).or(asked.tier);
        let tier = tier.map_or("Standard".to_owned(), |tier| tier.as_str().to_owned());
        let days = asked
            .days
            .and_then(|days| u64::try_from(days).ok())
            .filter(|days| *days > 0);
        let days = days.ok_or_else(|| s3_error!(MalformedXML))?;
        if tier == "Expedited" {
            if stored.class.as_deref() == Some("DEEP_ARCHIVE") {
                return Err(s3_error!(
                    InvalidArgument,
                    "Expedited is not valid for this storage class"
                ));
            }
            let code = S3ErrorCode::Custom("GlacierExpeditedRetrievalNotAvailable".into());
            let text = "Glacier expedited retrievals are currently not available, please try again later";
            let mut error = S3Error::with_message(code, text);
            error.set_status_code(StatusCode::SERVICE_UNAVAILABLE);
            return Err(error);
        }
        let status = match stored.thaw() {
            Some(Thaw { until: None, .. }) => {
                return Err(s3_error!(
                    RestoreAlreadyInProgress,
                    "Object restore is already in progress"
                ));
            }
            Some(_) => StatusCode::OK,
            None => StatusCode::ACCEPTED,
        };
        let mut buckets = self.lock();
        let versions = buckets.get_mut(&(input.bucket.clone(), input.key));
        let meant = |kept: &&mut Stored| kept.id(&input.bucket) == stored.id(&input.bucket);
        if let Some(stored) = versions.and_then(|versions| versions.iter_mut().find(meant)) {
            let until =
                (status == StatusCode::OK).then(|| SystemTime::now() + Duration::from_secs(days * 24 * 60 * 60));
            stored.thaw = Some(Thaw {
                tier,
                days,
                until,
                looks: None,
            });
        }
        let mut answer = S3Response::new(RestoreObjectOutput::default());
        answer.status = Some(status);
        Ok(answer)
    }

    async fn delete_object(&self, request: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        let input = request.input;
        there(&input.bucket)?;
        let bypass = input.bypass_governance_retention.unwrap_or(false);
        self.delete(&input.bucket, &input.key, input.version_id.as_deref(), bypass)?;
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let input = request.input;
        there(&input.bucket)?;
        if self.traits.deletes_one {
            return Err(s3_error!(NotImplemented));
        }
        let bypass = input.bypass_governance_retention.unwrap_or(false);
        let (mut deleted, mut errors) = (Vec::new(), Vec::new());
        for object in input.delete.objects {
            match self.delete(&input.bucket, &object.key, object.version_id.as_deref(), bypass) {
                Ok(()) => deleted.push(DeletedObject {
                    key: Some(object.key),
                    ..DeletedObject::default()
                }),
                Err(error) => errors.push(s3s::dto::Error {
                    code: Some("AccessDenied".to_owned()),
                    key: Some(object.key),
                    message: error.message().map(str::to_owned),
                    version_id: object.version_id,
                }),
            }
        }
        Ok(S3Response::new(DeleteObjectsOutput {
            deleted: Some(deleted),
            errors: Some(errors),
            ..DeleteObjectsOutput::default()
        }))
    }

    async fn list_object_versions(
        &self,
        request: S3Request<ListObjectVersionsInput>,
    ) -> S3Result<S3Response<ListObjectVersionsOutput>> {
        let input = request.input;
        there(&input.bucket)?;
        let prefix = input.prefix.clone().unwrap_or_default();
        let buckets = self.lock();
        let mut all = Vec::new();
        for ((bucket, key), versions) in buckets.iter() {
            if *bucket == input.bucket && key.starts_with(&prefix) {
                // The newest first.
                let newest = versions.len() - 1;
                all.extend(
                    versions
                        .iter()
                        .enumerate()
                        .rev()
                        .map(|(at, stored)| (key, stored, at == newest)),
                );
            }
        }
        let marker = (input.key_marker.as_deref(), input.version_id_marker.as_deref());
        let begin = match marker {
            (Some(key), Some(id)) => all
                .iter()
                .position(|(other, stored, _)| *other == key && stored.id(&input.bucket) == id)
                .map_or(all.len(), |at| at + 1),
            (Some(key), None) => all.partition_point(|(other, ..)| other.as_str() <= key),
            _ => 0,
        };
        let end = all.len().min(begin + self.traits.page);
        let last = all.get(end.saturating_sub(1)).filter(|_| end < all.len() && end > 0);
        let (mut found, mut markers) = (Vec::new(), Vec::new());
        for (key, stored, is_latest) in &all[begin..end] {
            let id = stored.id(&input.bucket).to_owned();
            match stored.is_marker {
                true => markers.push(DeleteMarkerEntry {
                    is_latest: Some(*is_latest),
                    key: Some((*key).clone()),
                    last_modified: Some(stored.modified.into()),
                    version_id: Some(id),
                    ..DeleteMarkerEntry::default()
                }),
                false => found.push(ObjectVersion {
                    is_latest: Some(*is_latest),
                    key: Some((*key).clone()),
                    last_modified: Some(stored.modified.into()),
                    size: Some(length(stored.bytes.len())),
                    storage_class: stored.class.clone().map(ObjectVersionStorageClass::from),
                    version_id: Some(id),
                    ..ObjectVersion::default()
                }),
            }
        }
        Ok(S3Response::new(ListObjectVersionsOutput {
            name: Some(input.bucket.clone()),
            prefix: input.prefix,
            is_truncated: Some(end < all.len()),
            next_key_marker: last.map(|(key, ..)| (*key).clone()),
            next_version_id_marker: last.map(|(_, stored, _)| stored.id(&input.bucket).to_owned()),
            versions: Some(found),
            delete_markers: Some(markers),
            ..ListObjectVersionsOutput::default()
        }))
    }

    async fn get_object_lock_configuration(
        &self,
        request: S3Request<GetObjectLockConfigurationInput>,
    ) -> S3Result<S3Response<GetObjectLockConfigurationOutput>> {
        there(&request.input.bucket)?;
        if request.input.bucket != LOCKABLE {
            return Err(s3_error!(
                ObjectLockConfigurationNotFoundError,
                "Object Lock configuration does not exist for this bucket"
            ));
        }
        Ok(S3Response::new(GetObjectLockConfigurationOutput {
            object_lock_configuration: Some(ObjectLockConfiguration {
                object_lock_enabled: Some(ObjectLockEnabled::from_static(ObjectLockEnabled::ENABLED)),
                rule: None,
            }),
        }))
    }

    async fn put_object_retention(
        &self,
        request: S3Request<PutObjectRetentionInput>,
    ) -> S3Result<S3Response<PutObjectRetentionOutput>> {
        let input = request.input;
        there(&input.bucket)?;
        let retention = input.retention.unwrap_or_default();
        let mode = retention.mode.map(|mode| mode.as_str().to_owned());
        let Some(lock) = asked_lock(&input.bucket, mode, retention.retain_until_date)? else {
            return Err(s3_error!(MalformedXML));
        };
        let mut buckets = self.lock();
        let versions = buckets.get_mut(&(input.bucket.clone(), input.key));
        let mut versions = versions.into_iter().flatten().rev();
        let meant = match &input.version_id {
            Some(id) => versions.find(|stored| stored.id(&input.bucket) == id),
            None => versions.next(),
        };
        let meant = meant.filter(|stored| !stored.is_marker);
        let stored = meant.ok_or_else(|| s3_error!(NoSuchKey, "The specified key does not exist."))?;
        let weaker = |old: &Lock| lock.until < old.until || old.mode == "COMPLIANCE" && lock.mode != old.mode;
        let bypass = input.bypass_governance_retention.unwrap_or(false);
        if let Some(old) = stored.lock.as_ref().filter(|old| old.until > SystemTime::now())
            && weaker(old)
            && !(bypass && old.mode == "GOVERNANCE")
        {
            return Err(s3_error!(
                AccessDenied,
                "Access Denied because object protected by object lock."
            ));
        }
        stored.lock = Some(lock);
        Ok(S3Response::new(PutObjectRetentionOutput::default()))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        there(&input.bucket)?;
        let prefix = input.prefix.clone().unwrap_or_default();
        let after = input
            .continuation_token
            .clone()
            .or(input.start_after)
            .unwrap_or_default();
        let buckets = self.lock();
        let mut found = buckets
            .iter()
            .filter(|((bucket, key), _)| *bucket == input.bucket && key.starts_with(&prefix) && *key > after)
            .filter_map(|((_, key), versions)| Some((key.clone(), latest(versions)?)));
        let page: Vec<_> = found.by_ref().take(self.traits.page).collect();
        let more = found.next().is_some();
        let next = page.last().map(|(key, _)| key.clone()).filter(|_| more);
        let contents = page.into_iter().map(|(key, stored)| Object {
            key: Some(key),
            size: Some(length(stored.bytes.len())),
            e_tag: Some(ETag::Strong(stored.tag.clone())),
            last_modified: Some(stored.modified.into()),
            storage_class: stored.class.clone().map(ObjectStorageClass::from),
            ..Object::default()
        });
        let contents: Vec<Object> = contents.collect();
        Ok(S3Response::new(ListObjectsV2Output {
            name: Some(input.bucket),
            prefix: input.prefix,
            key_count: Some(contents.len().try_into().expect("a page has a thousand")),
            is_truncated: Some(more),
            next_continuation_token: next,
            continuation_token: input.continuation_token,
            contents: Some(contents),
            ..ListObjectsV2Output::default()
        }))
    }
}
