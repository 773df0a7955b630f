//! Requests that are signed and sent as the library does it, which does not know them.

use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures_util::StreamExt;
use http::{HeaderMap, Method, StatusCode};
use ibid_storage::{Error, ErrorKind, Name, Operation, Storage};
use object_store::aws::AwsAuthorizer;
use object_store::client::{HttpRequestBody, HttpService};
use object_store::path::Path;
use object_store::signer::Signer;

use super::Bucket;
use crate::ObjectStorage;
use crate::objects::{PAUSE_FIRST, next_pause};
use crate::wire::{CALL, Call, Met};

/// The longest answer, bytes: a page of a list has less than one MiB.
const ANSWER_MAX: usize = 16 << 20;

/// What Amazon answers where it can't thaw in minutes now.
pub(crate) const NO_CAPACITY: &str = "GlacierExpeditedRetrievalNotAvailable";

/// A request about an object, or about the bucket if the path is empty.
pub(super) struct Asked<'a> {
    pub(super) operation: Operation,
    pub(super) name: Option<&'a Name>,
    pub(super) method: Method,
    pub(super) path: Path,
    /// What comes behind the question mark. A part without a value is a name alone.
    pub(super) query: Vec<(&'a str, Option<&'a str>)>,
    pub(super) body: String,
}

/// An answer of which all has come.
pub(super) struct Answer {
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Bucket {
    /// Sends a request once.
    async fn send(&self, asked: &Asked<'_>) -> object_store::Result<(StatusCode, Answer)> {
        let generic =
            |source: Box<dyn std::error::Error + Send + Sync>| object_store::Error::Generic { store: "S3", source };
        // Of a URL that is signed in another way, what comes before that is the URL.
        let minute = std::time::Duration::from_secs(60);
        let mut url = self.signer.signed_url(Method::GET, &asked.path, minute).await?;
        url.set_query(None);
        if asked.path.as_ref().is_empty() && url.path() != "/" {
            let bucket = url.path().trim_end_matches('/').to_owned();
            url.set_path(&bucket);
        }
        if !asked.query.is_empty() {
            let mut pairs = url.query_pairs_mut();
            for (name, value) in &asked.query {
                match value {
                    Some(value) => pairs.append_pair(name, value),
                    None => pairs.append_key_only(name),
                };
            }
        }
        let mut request = http::Request::builder().method(asked.method.clone()).uri(url.as_str());
        if !asked.body.is_empty() {
            let digest = ring::digest::digest(&ring::digest::SHA256, asked.body.as_bytes());
            request = request
                .header("content-type", "application/xml")
                .header("content-length", asked.body.len())
                .header("x-amz-sdk-checksum-algorithm", "SHA256")
                .header("x-amz-checksum-sha256", BASE64_STANDARD.encode(digest));
        }
        let mut request = request
            .body(HttpRequestBody::from(asked.body.clone()))
            .map_err(|error| generic(error.into()))?;
        let credential = self.signer.credentials().get_credential().await?;
        AwsAuthorizer::new(&credential, "s3", self.region()).try_authorize(&mut request, None)?;
        let answer = self.connector.call(request).await;
        let (parts, body) = answer.map_err(|error| generic(error.into()))?.into_parts();
        let mut stream = body.bytes_stream();
        let mut body = Vec::new();
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(|error| generic(error.into()))?;
            if body.len() + piece.len() > ANSWER_MAX {
                return Err(generic("the answer is longer than 16 MiB".into()));
            }
            body.extend_from_slice(&piece);
        }
        let answer = Answer {
            headers: parts.headers,
            body,
        };
        Ok((parts.status, answer))
    }
}

impl ObjectStorage {
    /// Asks, and asks again what fails for reasons that pass. Everything that is asked in this way can be done twice.
    pub(super) async fn ask(&self, bucket: &Bucket, asked: Asked<'_>) -> Result<Answer, Error> {
        let call: Arc<Call> = Arc::default();
        let begun = Instant::now();
        let mut pause = PAUSE_FIRST;
        loop {
            let sent = CALL.scope(call.clone(), bucket.send(&asked)).await;
            let (text, error) = match sent {
                Ok((status, answer)) if status.is_success() => return Ok(answer),
                Ok((_, answer)) => (String::from_utf8_lossy(&answer.body).into_owned(), None),
                Err(error) => (String::new(), Some(error)),
            };
            let passes = match call.last() {
                // It takes hours until there is capacity again.
                Some(Met::Status(503)) if text.contains(NO_CAPACITY) => false,
                Some(Met::Status(408 | 425 | 429 | 500 | 502..)) => true,
                Some(Met::Nothing { hopeless, .. }) => !hopeless,
                _ => false,
            };
            if !passes || begun.elapsed() + pause > self.patience {
                let (kind, found) = match &error {
                    Some(error) => self.judge(&call, error),
                    None => self.judge_text(&call, call.last(), &text, || "the answer has no status".to_owned()),
                };
                return Err(Error::new(kind, asked.operation, asked.name, self.location()).with_found(found));
            }
            tokio::time::sleep(pause).await;
            pause = next_pause(pause);
        }
    }

    /// Returns the bucket, if its service is S3 or speaks like it.
    pub(super) fn s3_bucket(&self, what: &str) -> Result<&Bucket, Error> {
        self.bucket.as_ref().ok_or_else(|| {
            let found = format!("{what} is only known of S3 and what speaks like it (s3://…)");
            Error::new(ErrorKind::Unsupported, Operation::Open, None, self.location()).with_found(found)
        })
    }
}
