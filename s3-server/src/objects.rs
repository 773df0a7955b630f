//! The objects, and what is done with them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use s3s::dto::{
    DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, ETag, ETagCondition,
    GetObjectInput, GetObjectOutput, HeadBucketInput, HeadBucketOutput, HeadObjectInput, HeadObjectOutput,
    ListObjectsV2Input, ListObjectsV2Output, Object, PutObjectInput, PutObjectOutput, StreamingBlob, Timestamp,
};
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};

use crate::BUCKETS;

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

#[derive(Clone)]
struct Stored {
    bytes: Bytes,
    modified: Timestamp,
    tag: String,
    class: Option<String>,
}

type Buckets = BTreeMap<(String, String), Stored>;

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
        let of_bucket = buckets.keys().filter(|(other, _)| other == bucket);
        of_bucket.map(|(_, key)| key.clone()).collect()
    }

    pub(crate) fn get(&self, bucket: &str, key: &str) -> Option<Bytes> {
        self.find(bucket, key).map(|stored| stored.bytes)
    }

    pub(crate) fn set(&self, bucket: &str, key: &str, bytes: Option<Vec<u8>>) {
        let name = (bucket.to_owned(), key.to_owned());
        match bytes {
            Some(bytes) => drop(self.lock().insert(name, stored(bytes.into(), None))),
            None => drop(self.lock().remove(&name)),
        }
    }

    pub(crate) fn class(&self, bucket: &str, key: &str) -> Option<String> {
        self.find(bucket, key)?.class
    }

    pub(crate) fn set_class(&self, bucket: &str, key: &str, class: &str) {
        if let Some(stored) = self.lock().get_mut(&(bucket.to_owned(), key.to_owned())) {
            stored.class = Some(class.to_owned());
        }
    }

    fn find(&self, bucket: &str, key: &str) -> Option<Stored> {
        self.lock().get(&(bucket.to_owned(), key.to_owned())).cloned()
    }

    fn wanted(&self, bucket: &str, key: &str) -> S3Result<Stored> {
        there(bucket)?;
        self.find(bucket, key)
            .ok_or_else(|| s3_error!(NoSuchKey, "The specified key does not exist."))
    }
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
        modified: Timestamp::from(SystemTime::now()),
        // Another one for each put.
        tag: format!("{:016x}", RandomState::new().hash_one(0)),
        class,
    }
}

fn length(bytes: usize) -> i64 {
    bytes.try_into().expect("objects fit into memory")
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
        let stored = stored(bytes.into(), class);
        let tag = stored.tag.clone();
        let mut buckets = self.lock();
        let name = (input.bucket, input.key);
        let is_new = matches!(input.if_none_match, Some(ETagCondition::Any)) && !self.traits.overwrites;
        if is_new && buckets.contains_key(&name) {
            return Err(s3_error!(
                PreconditionFailed,
                "At least one of the pre-conditions you specified did not hold"
            ));
        }
        buckets.insert(name, stored);
        Ok(S3Response::new(PutObjectOutput {
            e_tag: Some(ETag::Strong(tag)),
            ..PutObjectOutput::default()
        }))
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let stored = self.wanted(&input.bucket, &input.key)?;
        if matches!(stored.class.as_deref(), Some("GLACIER" | "DEEP_ARCHIVE")) {
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
            last_modified: Some(stored.modified),
            ..GetObjectOutput::default()
        }))
    }

    async fn head_object(&self, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let stored = self.wanted(&request.input.bucket, &request.input.key)?;
        Ok(S3Response::new(HeadObjectOutput {
            content_length: Some(length(stored.bytes.len())),
            e_tag: Some(ETag::Strong(stored.tag)),
            last_modified: Some(stored.modified),
            ..HeadObjectOutput::default()
        }))
    }

    async fn delete_object(&self, request: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        there(&request.input.bucket)?;
        self.set(&request.input.bucket, &request.input.key, None);
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
        let deleted = input.delete.objects.into_iter().map(|object| {
            self.set(&input.bucket, &object.key, None);
            DeletedObject {
                key: Some(object.key),
                ..DeletedObject::default()
            }
        });
        Ok(S3Response::new(DeleteObjectsOutput {
            deleted: Some(deleted.collect()),
            ..DeleteObjectsOutput::default()
        }))
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
            .map(|((_, key), stored)| (key.clone(), stored));
        let page: Vec<_> = found.by_ref().take(self.traits.page).collect();
        let more = found.next().is_some();
        let next = page.last().map(|(key, _)| key.clone()).filter(|_| more);
        let contents = page.into_iter().map(|(key, stored)| Object {
            key: Some(key),
            size: Some(length(stored.bytes.len())),
            e_tag: Some(ETag::Strong(stored.tag.clone())),
            last_modified: Some(stored.modified.clone()),
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
