//! What an answer means that is none, or that tells of a failure.

use ibid_storage::{Error, ErrorKind, Name, Operation, Storage};

use crate::ObjectStorage;
use crate::s3::NO_CAPACITY;
use crate::wire::{Call, Met, innermost};

/// What an error begins with, if the certificate of the server was not accepted.
pub const NOT_TRUSTED: &str = "the server's certificate is not accepted";

impl ObjectStorage {
    pub(crate) fn fail(
        &self,
        operation: Operation,
        name: Option<&Name>,
        call: &Call,
        error: object_store::Error,
    ) -> Error {
        // What is found is all that there is to say: the error repeats it in the words of a library.
        let (kind, found) = self.judge(call, &error);
        Error::new(kind, operation, name, self.location()).with_found(found)
    }

    /// Returns what kind of failure an error is, and how to say it.
    pub(crate) fn judge(&self, call: &Call, error: &object_store::Error) -> (ErrorKind, String) {
        let last = match status_in_batch(error) {
            Some(status) => Some(Met::Status(status)),
            None => call.last(),
        };
        self.judge_text(call, last, &error_text(error), || innermost(error))
    }

    /// Returns what kind of failure it is that an answer of this text has, or none, and how to say it. `else_found` is
    /// for what no answer tells.
    pub(crate) fn judge_text(
        &self,
        call: &Call,
        last: Option<Met>,
        text: &str,
        else_found: impl FnOnce() -> String,
    ) -> (ErrorKind, String) {
        match last {
            Some(Met::Status(status)) if !(200..300).contains(&status) => {
                let (code, message) = said(text);
                let kind = match (status, code.as_str()) {
                    (404, "NoSuchBucket" | "ContainerNotFound") => ErrorKind::Io,
                    (404, _) => return (ErrorKind::NotFound, "there is no such object".into()),
                    (_, "QuotaExceeded" | "XMinioStorageFull" | "InsufficientCapacity") | (507, _) => {
                        ErrorKind::NoSpace
                    }
                    // S3's, then Azure's.
                    (_, "InvalidObjectState" | "BlobArchived") => {
                        let found = "the object is in an archive of the service, and is not thawed";
                        return (ErrorKind::Archived, found.to_owned());
                    }
                    (_, "RestoreAlreadyInProgress") => ErrorKind::AlreadyExists,
                    (_, NO_CAPACITY) => {
                        let found = "the service has no capacity to thaw in minutes now: standard takes hours";
                        return (ErrorKind::Unsupported, found.to_owned());
                    }
                    (400, "InvalidRequest") if message.contains("Object Lock") => {
                        let found = format!(
                            "objects are to be locked, and this bucket has no object lock, which is switched on when a \
                             bucket is made (the server answers: {message})"
                        );
                        return (ErrorKind::Unsupported, found);
                    }
                    (401 | 403, _) | (_, "ExpiredToken" | "InvalidToken" | "InvalidAccessKeyId") => {
                        ErrorKind::PermissionDenied
                    }
                    (501, _) => ErrorKind::Unsupported,
                    _ => ErrorKind::Io,
                };
                let mut found = format!("the server answers {status}");
                for text in [code, message].iter().filter(|text| !text.is_empty()) {
                    found += ", ";
                    found += text;
                }
                if call.requests() > 1 {
                    found += &format!("; tried {} times", call.requests());
                }
                (kind, found)
            }
            Some(Met::NoCredentials) => {
                let found =
                    "no credentials were found: not in the environment, in no file, and this machine has no role";
                (ErrorKind::PermissionDenied, found.to_owned())
            }
            Some(Met::NotTrusted(fault)) => (ErrorKind::Io, format!("{NOT_TRUSTED}: {fault}")),
            Some(Met::Nothing { why, .. }) => {
                let server = &self.server;
                let tries = call.requests();
                let tried = if tries > 1 {
                    format!("; tried {tries} times")
                } else {
                    String::new()
                };
                (ErrorKind::Io, format!("no answer from {server}: {why}{tried}"))
            }
            _ => (ErrorKind::Io, else_found()),
        }
    }
}

/// Returns all that an error and its causes say.
fn error_text(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += "\n";
        text += &error.to_string();
        cause = error.source();
    }
    text
}

/// Returns the status of a delete in Azure, which is sent in a batch of one: the batch itself succeeds.
pub(crate) fn status_in_batch(error: &object_store::Error) -> Option<u16> {
    let text = error_text(error);
    let (_, failed) = text.split_once("Bulk delete request failed")?;
    let (_, code) = failed.split_once("(code: ")?;
    code.split_once(')')?.0.parse().ok()
}

/// Returns code and message of an error that a server describes in XML.
fn said(text: &str) -> (String, String) {
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        let (content, _) = rest.split_once(&format!("</{name}>"))?;
        // From outside: a line of plain text, and no more than one.
        Some(
            content
                .chars()
                .filter(|found| !found.is_control())
                .take(200)
                .collect::<String>(),
        )
    };
    let message = element("Message").unwrap_or_default();
    (
        element("Code").unwrap_or_default(),
        message.trim_end_matches('.').to_owned(),
    )
}
