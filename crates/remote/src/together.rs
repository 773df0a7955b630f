//! Several folders that are listed together: their objects often fit into one page.

use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use ibid_storage::{Error, Name, Operation, Storage};

use crate::address::is_archive;
use crate::s3::{Bucket, ListedArchives, ListedObject};
use crate::{ObjectStorage, Service};

/// Objects of a page, as S3 and Google have them at most. Azure's have more.
const PAGE: usize = 1000;

impl ObjectStorage {
    /// Lists folders as far as one page takes several: see
    /// [`list_together`](ibid_storage::Storage::list_together).
    ///
    /// The page begins with the folder that has them all, and whatever else is there comes, too. Of a folder that does
    /// not fit, what is left is passed over: the next page begins behind it. So there is at most one page for each
    /// folder.
    pub(crate) fn list_pages(&self, folders: &[&str], each: &mut dyn FnMut(Name, u64)) -> Result<Vec<bool>, Error> {
        for folder in folders {
            Error::check_folder(folder, || self.location())?;
        }
        let mut whole = vec![false; folders.len()];
        if folders.len() < 2 {
            return Ok(whole);
        }
        let at = Instant::now();
        let mut objects = Vec::new();
        self.each_page_of(folders, &mut whole, &mut |name, size, class| {
            if is_archive(self.address().service(), class) {
                objects.push((name.clone(), size, class.to_owned()));
            }
            each(name, size);
        })?;
        let known = folders.iter().zip(&whole).filter(|(_, whole)| **whole);
        let folders = known.map(|(folder, _)| (*folder).to_owned()).collect();
        self.note_archives(Some(ListedArchives { at, folders, objects }));
        Ok(whole)
    }

    /// Notes which folders are whole.
    fn each_page_of(
        &self,
        folders: &[&str],
        whole: &mut [bool],
        each: &mut dyn FnMut(Name, u64, &str),
    ) -> Result<(), Error> {
        let within = common_folder(folders);
        let mut behind: Option<String> = None;
        loop {
            let Some(page) = self.page(within, behind.as_deref(), folders, each)? else {
                for (whole, folder) in whole.iter_mut().zip(folders) {
                    *whole |= is_behind(folder, behind.as_deref());
                }
                return Ok(());
            };
            // Some servers list in another order. Then nothing is known of what is not in the page.
            if !page.is_in_order {
                return Ok(());
            }
            for (whole, folder) in whole.iter_mut().zip(folders) {
                *whole |= is_behind(folder, behind.as_deref()) && end_of(folder) < page.last;
            }
            let next = passed_over(&page.last, within);
            let has_more = folders.iter().any(|folder| *folder > next.as_str());
            // Azure can't begin a list anywhere.
            if !has_more || self.address().service() == Service::Azure {
                return Ok(());
            }
            behind = Some(next);
        }
    }

    /// Lists one page of what is in a folder, behind a name. Returns none if there is no more.
    fn page(
        &self,
        within: &str,
        behind: Option<&str>,
        folders: &[&str],
        each: &mut dyn FnMut(Name, u64, &str),
    ) -> Result<Option<Page>, Error> {
        let (found, is_full) = match &self.bucket {
            // The library does not tell the class.
            Some(bucket) => self.s3_page(bucket, within, behind)?,
            None => self.any_page(within, behind)?,
        };
        let mut page = Page {
            // What comes again would come for ever.
            last: behind.unwrap_or_default().to_owned(),
            is_in_order: true,
        };
        for object in found {
            let ListedObject {
                key,
                size,
                storage_class,
            } = object;
            page.is_in_order &= page.last < key;
            if let Ok(name) = Name::new(&key)
                && folders
                    .iter()
                    .any(|folder| name.as_str() == *folder || name.is_in(folder))
            {
                each(name, size, &storage_class);
            }
            page.last = key;
        }
        Ok(is_full.then_some(page))
    }

    /// Lists a page in S3, with keys below the address. Returns whether there are more.
    fn s3_page(&self, bucket: &Bucket, within: &str, behind: Option<&str>) -> Result<(Vec<ListedObject>, bool), Error> {
        let above = self.key_prefix();
        let prefix = match within {
            "" => above.clone(),
            within => format!("{above}{within}/"),
        };
        let behind = behind.map(|behind| format!("{above}{behind}"));
        let (mut found, is_full) = self.objects_behind(bucket, prefix, behind)?;
        for object in &mut found {
            object.key = object.key.strip_prefix(&above).unwrap_or_default().to_owned();
        }
        found.retain(|object| !object.key.is_empty());
        Ok((found, is_full))
    }

    /// Lists a page of any service, without classes.
    fn any_page(&self, within: &str, behind: Option<&str>) -> Result<(Vec<ListedObject>, bool), Error> {
        let call = Arc::default();
        let prefix = self.path(within);
        let prefix = Some(&prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let stream = match behind {
            Some(behind) => self.repeating.list_with_offset(prefix, &self.path(behind)),
            None => self.repeating.list(prefix),
        };
        let found = self.run(&call, stream.take(PAGE).collect::<Vec<_>>());
        let is_full = found.len() == PAGE;
        let mut objects = Vec::new();
        for found in found {
            let found = found.map_err(|error| self.fail(Operation::List, None, &call, error))?;
            if let Some(key) = self.inside(&found.location) {
                objects.push(ListedObject {
                    key: key.to_owned(),
                    size: found.size,
                    storage_class: String::new(),
                });
            }
        }
        Ok((objects, is_full))
    }
}

/// A page that is full.
struct Page {
    /// The last name in it.
    last: String,
    is_in_order: bool,
}

/// Returns whether all names in a folder come after what was passed over.
fn is_behind(folder: &str, passed: Option<&str>) -> bool {
    passed.is_none_or(|passed| folder > passed)
}

/// Returns what comes after all names in a folder, in the order of bytes: `0` follows `/`.
fn end_of(folder: &str) -> String {
    format!("{folder}0")
}

/// Returns the end of the folder directly below `within` that has this name, or the name itself if there is none.
fn passed_over(last: &str, within: &str) -> String {
    let start = if within.is_empty() { 0 } else { within.len() + 1 };
    let below = last.get(start..).unwrap_or_default();
    match below.split_once('/') {
        Some((folder, _)) => end_of(&last[..start + folder.len()]),
        None => last.to_owned(),
    }
}

/// Returns the folder that has all of these; empty if that is only the whole storage.
fn common_folder<'f>(folders: &[&'f str]) -> &'f str {
    let mut parents = folders
        .iter()
        .map(|folder| folder.rsplit_once('/').map_or("", |(parent, _)| parent));
    let Some(mut common) = parents.next() else { return "" };
    for parent in parents {
        while !common.is_empty() && parent != common && !parent.starts_with(&format!("{common}/")) {
            common = common.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }
    common
}
