//! Lists that the library does not know, a page at a time.

use std::sync::Arc;

use http::Method;
use ibid_storage::{Error, ErrorKind, Name, Operation, Storage};
use object_store::path::Path;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Bucket;
use super::request::Asked;
use crate::ObjectStorage;

/// An answer: what is listed, and where the next page begins, in the order in which the server says it.
#[derive(Deserialize)]
#[serde(bound(deserialize = "P: Deserialize<'de>"))]
struct Page<P> {
    #[serde(rename = "$value", default = "Vec::new")]
    parts: Vec<P>,
}

/// A part of a list of objects.
#[derive(Deserialize)]
pub(super) enum ListPart {
    Contents(ListedObject),
    IsTruncated(bool),
    NextContinuationToken(String),
    #[serde(other)]
    Other,
}

/// An object of a list.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ListedObject {
    pub(crate) key: String,
    pub(crate) size: u64,
    #[serde(default)]
    pub(crate) storage_class: String,
}

/// Where the next page begins.
pub(super) struct Next<M> {
    pub(super) is_truncated: bool,
    pub(super) marker: Option<M>,
}

impl ObjectStorage {
    /// Asks for the pages of a list, one after the other. `query` asks for the one that begins at a marker, `each` is
    /// called with what is in a page, and says where the next one begins.
    pub(super) fn each_page<P: DeserializeOwned, M: PartialEq>(
        &self,
        bucket: &Bucket,
        query: impl Fn(Option<&M>) -> Vec<(&'static str, Option<String>)>,
        mut each: impl FnMut(Vec<P>) -> Result<Next<M>, Error>,
    ) -> Result<(), Error> {
        let mut marker: Option<M> = None;
        loop {
            let next = each(self.one_page(bucket, &query(marker.as_ref()))?)?;
            match next.marker {
                _ if !next.is_truncated => return Ok(()),
                Some(next) if marker.as_ref() != Some(&next) => marker = Some(next),
                _ => return Err(self.wrong_list("it says that there is more, and not where that begins")),
            }
        }
    }

    fn one_page<P: DeserializeOwned>(
        &self,
        bucket: &Bucket,
        query: &[(&'static str, Option<String>)],
    ) -> Result<Vec<P>, Error> {
        let asked = Asked {
            operation: Operation::List,
            name: None,
            method: Method::GET,
            path: Path::default(),
            query: query.iter().map(|(name, value)| (*name, value.as_deref())).collect(),
            body: String::new(),
        };
        let answer = self.run(&Arc::default(), self.ask(bucket, asked))?;
        let page: Page<P> =
            quick_xml::de::from_reader(answer.body.as_slice()).map_err(|error| self.wrong_list(&error.to_string()))?;
        Ok(page.parts)
    }

    /// Returns a page of the objects whose keys begin with this, behind a key, and whether there are more.
    pub(crate) fn objects_behind(
        &self,
        bucket: &Bucket,
        prefix: String,
        behind: Option<String>,
    ) -> Result<(Vec<ListedObject>, bool), Error> {
        let mut query = vec![("list-type", Some("2".to_owned())), ("prefix", Some(prefix))];
        query.extend(behind.map(|behind| ("start-after", Some(behind))));
        let (mut objects, mut is_truncated) = (Vec::new(), false);
        for part in self.one_page(bucket, &query)? {
            match part {
                ListPart::Contents(object) => objects.push(object),
                ListPart::IsTruncated(more) => is_truncated = more,
                ListPart::NextContinuationToken(_) | ListPart::Other => {}
            }
        }
        if is_truncated && objects.is_empty() {
            return Err(self.wrong_list("it says that there is more, and has nothing"));
        }
        Ok((objects, is_truncated))
    }

    /// Returns the error of a list that is none.
    pub(super) fn wrong_list(&self, found: &str) -> Error {
        Error::new(ErrorKind::Io, Operation::List, None, self.location())
            .with_found(format!("the list can't be read: {found}"))
    }

    /// Returns what keys of objects below the address begin with.
    pub(crate) fn key_prefix(&self) -> String {
        match self.address().prefix() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        }
    }
}

/// Returns the name of an object by its key. What no name can denote is of other programs.
pub(super) fn name_of(key: &str, prefix: &str) -> Option<Name> {
    Name::new(key.strip_prefix(prefix)?).ok()
}
