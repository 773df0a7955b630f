//! [`ObjectStorage`]: the storage trait over the operations of a server.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use ibid_storage::{Archives, Error, ErrorKind, Locks, Name, Operation, Storage};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutOptions, PutPayload,
};
use tokio::runtime::Runtime;

use crate::found::{Found, compare};
use crate::judge::status_in_batch;
use crate::s3::{Bucket, ListedArchives, Locking};
use crate::wire::{CALL, Call, Met, Shared};
use crate::{Address, Prices, Requests, Silence};

/// Bytes that are sent as one: between them others get their turn, and progress is noted.
const PIECE: usize = 256 << 10;
/// Objects that are deleted with one request.
const DELETED: usize = 1000;
/// Objects of a list that are taken at once.
const LISTED: usize = 1000;
/// The first pause before something is tried again. Each is up to twice as long as the one before.
pub(crate) const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// Once a server is back, the work goes on at the latest after this time.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Objects that a server keeps: in S3 and what speaks like it, in Google Cloud Storage, or in Azure.
///
/// It is made by [`open`](crate::open). Calls block; what they do runs on threads of this storage. What fails for
/// reasons that pass is tried again, for as long as [`Options::patience`](crate::Options::patience) says.
///
/// **No put overwrites.** Each is sent with the condition that there is no such object, which the server must know: see
/// [`probe`](ibid_storage::probe). If the answer to one is lost, it is sent again, and an object with the very bytes is
/// taken for the one that was sent.
///
/// **What is listed is there**: these services promise it.
pub struct ObjectStorage {
    pub(crate) runtime: Option<Runtime>,
    /// For what can be done twice: it does so by itself.
    pub(crate) repeating: Arc<dyn ObjectStore>,
    /// For deletes of many objects with one request.
    pub(crate) many: Arc<dyn ObjectStore>,
    /// Whether the server has refused such a request.
    pub(crate) takes_one: AtomicBool,
    /// For puts, of which each is sent once.
    pub(crate) single: Arc<dyn ObjectStore>,
    /// What only S3 has is asked of this.
    pub(crate) bucket: Option<Bucket>,
    pub(crate) locking: Locking,
    /// What the last list of several folders has said of archives, if nothing was stored in one since.
    pub(crate) listed_archives: Mutex<Option<ListedArchives>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) address: Address,
    /// The URL of the server, if it is not that of the service.
    pub(crate) endpoint: Option<String>,
    /// How messages name the server.
    pub(crate) server: String,
    pub(crate) patience: Duration,
}

impl fmt::Debug for ObjectStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStorage")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Drop for ObjectStorage {
    fn drop(&mut self) {
        // Without waiting for connections that are kept for later.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl ObjectStorage {
    /// Returns what was sent so far.
    #[must_use]
    pub fn requests(&self) -> Requests {
        self.shared.counters.get()
    }

    /// Returns for how long nothing has come from the server, while something is asked of it. Ask now and then, and say
    /// it once it is worth saying.
    #[must_use]
    pub fn silence(&self) -> Option<Silence> {
        self.shared.silences.get()
    }

    /// Returns what the service charges, if that is known.
    #[must_use]
    pub fn prices(&self) -> Option<Prices> {
        Prices::of(&self.address, self.endpoint.as_deref())
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the first of the names below the address, in the order of their bytes: at most so many. They may be of
    /// other programs, and none that a [`Name`] can be.
    ///
    /// # Errors
    /// Those of [`list`](Storage::list).
    pub fn peek(&self, most: usize) -> Result<Vec<String>, Error> {
        let call = Arc::default();
        let prefix = self.path("");
        let prefix = (!prefix.as_ref().is_empty()).then_some(prefix);
        let some = self.repeating.list(prefix.as_ref()).take(most).collect::<Vec<_>>();
        let some = self.run(&call, some).into_iter().map(|found| match found {
            Ok(found) => Ok(self.inside(&found.location).unwrap_or_default().to_owned()),
            Err(error) => Err(self.fail(Operation::List, None, &call, error)),
        });
        some.collect()
    }

    pub(crate) fn note_archives(&self, listed: Option<ListedArchives>) {
        *self.listed_archives.lock().unwrap_or_else(PoisonError::into_inner) = listed;
    }

    /// Stores an object, in this class of storage. Returns whether it may have been stored twice.
    fn put_in(&self, class: Option<&str>, name: &Name, parts: &[&[u8]]) -> Result<bool, Error> {
        let path = self.path(name.as_str());
        let payload = payload(parts);
        let locking = self.locking_store(name)?;
        let store = locking.as_ref().unwrap_or(&self.single);
        let class = class.map(|class| (Attribute::StorageClass, class.to_owned()));
        let attributes: Attributes = class.into_iter().collect();
        let call: Arc<Call> = Arc::default();
        let _asking = self.shared.silences.asking();
        let begun = Instant::now();
        let mut pause = PAUSE_FIRST;
        // Requests that may have stored the object though no answer said so.
        let mut in_doubt = 0_u32;
        let exists = || Error::new(ErrorKind::AlreadyExists, Operation::Put, Some(name), self.location());
        loop {
            let options = PutOptions {
                mode: PutMode::Create,
                attributes: attributes.clone(),
                ..PutOptions::default()
            };
            let put = self.run(&call, store.put_opts(&path, payload.clone(), options));
            let Err(error) = put else { return Ok(in_doubt > 0) };
            let last = call.last();
            match last {
                Some(Met::Status(409 | 412 | 304)) => {
                    // 409 may also mean that another put of this name is not yet decided.
                    if matches!(last, Some(Met::Status(409))) || in_doubt > 0 {
                        match compare(self, name, parts)? {
                            Found::These if in_doubt > 0 => return Ok(in_doubt > 1),
                            Found::These | Found::Others => return Err(exists()),
                            Found::Nothing => {}
                        }
                    } else {
                        return Err(exists());
                    }
                }
                Some(Met::Status(408 | 425 | 429 | 500 | 502..)) => in_doubt += 1,
                Some(Met::Nothing { unsent, hopeless, .. }) if !hopeless => in_doubt += u32::from(!unsent),
                _ => return Err(self.fail(Operation::Put, Some(name), &call, error)),
            }
            if begun.elapsed() + pause > self.patience {
                return Err(self.fail(Operation::Put, Some(name), &call, error));
            }
            std::thread::sleep(pause);
            pause = next_pause(pause);
        }
    }

    /// Returns an object, or one of its versions.
    pub(crate) fn get_version(&self, name: &Name, version: Option<&str>, limit: u64) -> Result<Vec<u8>, Error> {
        let call = Arc::default();
        let path = self.path(name.as_str());
        let options = GetOptions {
            version: version.map(str::to_owned),
            ..GetOptions::default()
        };
        let answer = self
            .run(&call, self.repeating.get_opts(&path, options))
            .map_err(|error| self.fail(Operation::Get, Some(name), &call, error))?;
        let size = answer.meta.size;
        let length = usize::try_from(size).ok().filter(|_| size <= limit);
        let Some(length) = length else {
            return Err(Error::too_large(size, limit, name, self.location()));
        };
        let mut bytes = Vec::with_capacity(length);
        self.receive(&call, answer, length, |piece| bytes.extend_from_slice(piece))
            .map_err(|wrong| self.received_wrong(Operation::Get, name, &call, wrong, length))?;
        Ok(bytes)
    }

    /// Fills `buffer` with bytes of an object, or of one of its versions.
    pub(crate) fn read_version_at(
        &self,
        name: &Name,
        version: Option<&str>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), Error> {
        let length = buffer.len();
        let end = offset
            .checked_add(length as u64)
            .filter(|end| i64::try_from(*end).is_ok());
        let truncated = |size| Error::truncated(size, offset, length, name, self.location());
        if length == 0 {
            return self.head(Operation::ReadAt, name).map(drop);
        }
        let Some(end) = end else {
            return Err(truncated(self.head(Operation::ReadAt, name)?));
        };
        let call = Arc::default();
        let path = self.path(name.as_str());
        let options = GetOptions {
            range: Some(GetRange::Bounded(offset..end)),
            version: version.map(str::to_owned),
            ..GetOptions::default()
        };
        let answer = match self.run(&call, self.repeating.get_opts(&path, options)) {
            Ok(answer) if answer.range == (offset..end) => answer,
            Ok(answer) => return Err(truncated(answer.meta.size)),
            Err(error) => {
                // A range that ends behind the object is an error of many kinds.
                let found = self.fail(Operation::ReadAt, Some(name), &call, error);
                if matches!(call.last(), Some(Met::Status(200..300 | 416)))
                    && let size = self.head(Operation::ReadAt, name)?
                    && size < end
                {
                    return Err(truncated(size));
                }
                return Err(found);
            }
        };
        let mut rest = &mut *buffer;
        self.receive(&call, answer, length, |piece| {
            let (these, others) = std::mem::take(&mut rest).split_at_mut(piece.len());
            these.copy_from_slice(piece);
            rest = others;
        })
        .map_err(|wrong| self.received_wrong(Operation::ReadAt, name, &call, wrong, length))
    }

    /// Lists objects, with the times at which they were stored, seconds since 1970.
    pub(crate) fn list_modified(&self, folder: &str, each: &mut dyn FnMut(Name, u64, i64)) -> Result<(), Error> {
        Error::check_folder(folder, || self.location())?;
        let call = Arc::default();
        let prefix = self.path(folder);
        let prefix = (!prefix.as_ref().is_empty()).then_some(prefix);
        let stream: BoxStream<'_, object_store::Result<ObjectMeta>> = self.repeating.list(prefix.as_ref());
        let mut pages = stream.ready_chunks(LISTED);
        // `each` may call this storage, so it is called when nothing runs on this thread.
        while let Some(page) = self.run(&call, pages.next()) {
            for found in page {
                let found = found.map_err(|error| self.fail(Operation::List, None, &call, error))?;
                if let Some(name) = self.inside(&found.location).and_then(|name| Name::new(name).ok())
                    && name.is_in(folder)
                {
                    each(name, found.size, found.last_modified.timestamp());
                }
            }
        }
        Ok(())
    }

    /// Returns a key without the prefix.
    pub(crate) fn inside<'k>(&self, key: &'k Path) -> Option<&'k str> {
        match self.address.prefix() {
            "" => Some(key.as_ref()),
            prefix => key.as_ref().strip_prefix(prefix)?.strip_prefix('/'),
        }
    }

    pub(crate) fn path(&self, name: &str) -> Path {
        let prefix = self.address.prefix();
        // Names and the prefix were checked, so this changes nothing in them.
        match (prefix, name) {
            ("", name) => Path::from(name),
            (prefix, "") => Path::from(prefix),
            (prefix, name) => Path::from(format!("{prefix}/{name}")),
        }
    }

    /// Runs a part of a call on this thread, and its requests on the others.
    pub(crate) fn run<T>(&self, call: &Arc<Call>, future: impl Future<Output = T>) -> T {
        let runtime = self.runtime.as_ref().expect("it is there until this is dropped");
        let _asking = self.shared.silences.asking();
        runtime.block_on(CALL.scope(call.clone(), future))
    }

    /// Removes objects as this store does it, and leaves those that it can't. Returns whether the server has refused
    /// such a request.
    fn delete_with(&self, store: &Arc<dyn ObjectStore>, left: &mut Vec<&Name>) -> Result<bool, Error> {
        let call = Arc::default();
        let paths: Vec<Path> = left.iter().map(|name| self.path(name.as_str())).collect();
        let deletes = store.delete_stream(stream::iter(paths.clone()).map(Ok).boxed());
        let (mut deleted, mut failed) = (HashSet::new(), None);
        for answer in self.run(&call, deletes.collect::<Vec<_>>()) {
            match answer {
                Ok(path) => drop(deleted.insert(path)),
                Err(error) => failed = Some(error),
            }
        }
        let refused = match (failed, call.last()) {
            (Some(error), Some(Met::Nothing { .. } | Met::NotTrusted(_))) => {
                return Err(self.fail(Operation::Delete, None, &call, error));
            }
            (Some(_), Some(Met::Status(400 | 404 | 405 | 501))) => deleted.is_empty(),
            _ => false,
        };
        let mut is_left = paths.iter().map(|path| !deleted.contains(path));
        left.retain(|_| is_left.next().unwrap_or(true));
        Ok(refused)
    }

    fn head(&self, operation: Operation, name: &Name) -> Result<u64, Error> {
        let call = Arc::default();
        let path = self.path(name.as_str());
        let head = self.run(&call, self.repeating.head(&path));
        head.map(|meta| meta.size)
            .map_err(|error| self.fail(operation, Some(name), &call, error))
    }

    /// Appends the bytes of an answer, which must be `length`.
    fn receive(
        &self,
        call: &Arc<Call>,
        answer: GetResult,
        length: usize,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), Received> {
        let mut stream = answer.into_stream();
        let mut rest = length;
        self.run(call, async {
            while let Some(bytes) = stream.next().await {
                let bytes = bytes.map_err(Received::Failed)?;
                rest = rest.checked_sub(bytes.len()).ok_or(Received::Length)?;
                each(&bytes);
            }
            if rest > 0 { Err(Received::Length) } else { Ok(()) }
        })
    }

    fn received_wrong(&self, operation: Operation, name: &Name, call: &Call, wrong: Received, length: usize) -> Error {
        match wrong {
            Received::Failed(error) => self.fail(operation, Some(name), call, error),
            Received::Length => Error::new(ErrorKind::Io, operation, Some(name), self.location()).with_found(format!(
                "the server announced {length} bytes, and sent another number of them"
            )),
        }
    }
}

/// Why an answer is of no use.
enum Received {
    Failed(object_store::Error),
    /// It is shorter or longer than announced.
    Length,
}

/// Returns bytes in pieces as they are sent.
fn payload(parts: &[&[u8]]) -> PutPayload {
    let pieces = parts.iter().flat_map(|part| part.chunks(PIECE));
    pieces.map(Bytes::copy_from_slice).collect()
}

impl Storage for ObjectStorage {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        self.put_in(None, name, parts).map(drop)
    }

    fn put_noting_repeats(&self, name: &Name, parts: &[&[u8]]) -> Result<bool, Error> {
        self.put_in(None, name, parts)
    }

    fn put_data(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        self.note_archives(None);
        self.put_in(self.address.storage_class(), name, parts).map(drop)
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        self.get_version(name, None, limit)
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.read_version_at(name, None, offset, buffer)
    }

    fn size(&self, name: &Name) -> Result<u64, Error> {
        self.head(Operation::Size, name)
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        self.list_modified(folder, &mut |name, size, _| each(name, size))
    }

    fn list_together(&self, folders: &[&str], each: &mut dyn FnMut(Name, u64)) -> Result<Vec<bool>, Error> {
        self.list_pages(folders, each)
    }

    fn settle(&self, _name: &Name) -> Result<(), Error> {
        // What these services show is durable.
        Ok(())
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        let call = Arc::default();
        let path = self.path(name.as_str());
        let _asking = self.shared.silences.asking();
        let begun = Instant::now();
        let mut pause = PAUSE_FIRST;
        loop {
            let Err(error) = self.run(&call, self.repeating.delete(&path)) else {
                return Ok(());
            };
            let passes = matches!(status_in_batch(&error), Some(408 | 429 | 500..));
            let error = self.fail(Operation::Delete, Some(name), &call, error);
            match error.kind() {
                // Azure and Google tell it, S3 does not. It may be the answer to a second try, whose first has deleted.
                ErrorKind::NotFound => return Ok(()),
                _ if !passes || begun.elapsed() + pause > self.patience => return Err(error),
                _ => std::thread::sleep(pause),
            }
            pause = next_pause(pause);
        }
    }

    fn delete_all(&self, names: &[Name]) -> Result<(), Error> {
        for names in names.chunks(DELETED) {
            let mut left: Vec<&Name> = names.iter().collect();
            if left.len() > 1 && !self.takes_one.load(Ordering::Relaxed) {
                let refused = self.delete_with(&self.many, &mut left)?;
                self.takes_one.fetch_or(refused, Ordering::Relaxed);
            }
            // Some servers do not know the request for many. Then each object is one, and several are sent at once.
            if left.len() > 1 {
                self.delete_with(&self.repeating, &mut left)?;
            }
            // What is left says why.
            left.into_iter().try_for_each(|name| self.delete(name))?;
        }
        Ok(())
    }

    fn tells_absence(&self) -> bool {
        false
    }

    fn locks(&self) -> Option<&dyn Locks> {
        self.bucket.is_some().then_some(self)
    }

    fn archives(&self) -> Option<&dyn Archives> {
        self.bucket.is_some().then_some(self)
    }

    fn location(&self) -> String {
        self.address.to_string()
    }
}

/// Returns a pause up to twice as long, but not always: many clients must not come back all at once.
pub(crate) fn next_pause(pause: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let share = RandomState::new().hash_one(pause) as f64 / u64::MAX as f64;
    pause.mul_f64(1.0 + share).min(PAUSE_MAX)
}
