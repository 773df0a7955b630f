//! Object lock: what is stored can't be destroyed before a day.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::{StreamExt, TryStreamExt, stream};
use http::{HeaderMap, HeaderValue, Method};
use ibid_storage::{DueLock, Error, ErrorKind, Lock, LockMode, Locks, Name, Operation, Storage};
use object_store::ObjectStore;
use object_store::path::Path;

use super::Bucket;
use super::request::{Answer, Asked};
use crate::ObjectStorage;

const DAY: i64 = 24 * 60 * 60;
/// Requests that are sent at once.
pub(super) const AT_ONCE: usize = 16;
const MODE_HEADER: &str = "x-amz-object-lock-mode";
const UNTIL_HEADER: &str = "x-amz-object-lock-retain-until-date";

/// How new objects are locked.
#[derive(Default)]
pub(crate) struct Locking(Mutex<State>);

/// Says of which names it is.
type OfNames = fn(&Name) -> bool;

#[derive(Default)]
struct State {
    kept: Option<(Lock, OfNames)>,
    /// The client that stores with a lock until this time. Its headers are signed, so each day has one of its own.
    store: Option<(i64, Arc<dyn ObjectStore>)>,
}

fn mode_text(mode: LockMode) -> &'static str {
    match mode {
        LockMode::Governance => "GOVERNANCE",
        LockMode::Compliance => "COMPLIANCE",
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs() as i64
}

/// Returns when a lock ends that begins now: at the end of a day.
fn end(lock: Lock) -> i64 {
    (now() / DAY + i64::from(lock.days()) + 1) * DAY
}

fn text(seconds: i64) -> String {
    let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn seconds(text: &str) -> Option<i64> {
    text.parse().ok().map(jiff::Timestamp::as_second)
}

/// The lock of an object, as the server has it.
#[derive(Clone, Copy)]
struct Held {
    until: i64,
    mode: LockMode,
}

impl ObjectStorage {
    /// Returns the client to store an object with, if it is to be locked.
    pub(crate) fn locking_store(&self, name: &Name) -> Result<Option<Arc<dyn ObjectStore>>, Error> {
        let mut state = self.locking.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((lock, _)) = state.kept.filter(|(_, is_kept)| is_kept(name)) else {
            return Ok(None);
        };
        let bucket = self.s3_bucket("object lock")?;
        let until = end(lock);
        if let Some((of, store)) = &state.store
            && *of == until
        {
            return Ok(Some(store.clone()));
        }
        let mut headers = HeaderMap::new();
        headers.insert(MODE_HEADER, HeaderValue::from_static(mode_text(lock.mode())));
        let value = HeaderValue::from_str(&text(until)).expect("digits and letters");
        headers.insert(UNTIL_HEADER, value);
        // Some servers look for this instead of the checksum itself.
        headers.insert("x-amz-sdk-checksum-algorithm", HeaderValue::from_static("SHA256"));
        let store = bucket.store_with(headers).map_err(|error| {
            Error::new(ErrorKind::Unsupported, Operation::Put, Some(name), self.location())
                .with_found(error.to_string())
        })?;
        let store: Arc<dyn ObjectStore> = Arc::new(store);
        state.store = Some((until, store.clone()));
        Ok(Some(store))
    }

    /// Asks for what is known of an object; `None` if it is not there.
    pub(super) async fn look(&self, bucket: &Bucket, name: &Name) -> Result<Option<Answer>, Error> {
        self.look_at(bucket, name, None).await
    }

    /// Asks for what is known of an object, or of one of its versions; `None` if it is not there.
    pub(super) async fn look_at(
        &self,
        bucket: &Bucket,
        name: &Name,
        version: Option<&str>,
    ) -> Result<Option<Answer>, Error> {
        let asked = Asked {
            operation: Operation::Size,
            name: Some(name),
            method: Method::HEAD,
            path: self.path(name.as_str()),
            query: version.map(|id| ("versionId", Some(id))).into_iter().collect(),
            body: String::new(),
        };
        match self.ask(bucket, asked).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Locks an object anew, unless it is gone.
    async fn renew_one(&self, bucket: &Bucket, due: &DueLock) -> Result<(), Error> {
        let asked = Asked {
            operation: Operation::Put,
            name: Some(&due.name),
            method: Method::PUT,
            path: self.path(due.name.as_str()),
            query: vec![("retention", None)],
            body: format!(
                "<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Mode>{}</Mode>\
                 <RetainUntilDate>{}</RetainUntilDate></Retention>",
                mode_text(due.mode),
                text(due.until)
            ),
        };
        match self.ask(bucket, asked).await {
            // Servers answer in several ways that it was deleted meanwhile.
            Err(error) if self.look(bucket, &due.name).await?.is_some() => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the lock of an object, `None` if it is not there or has none.
    async fn held(&self, bucket: &Bucket, name: &Name) -> Result<Option<Held>, Error> {
        let Some(answer) = self.look(bucket, name).await? else {
            return Ok(None);
        };
        let header = |name| answer.headers.get(name).and_then(|value| value.to_str().ok());
        let mode = match header(MODE_HEADER) {
            Some("GOVERNANCE") => LockMode::Governance,
            Some("COMPLIANCE") => LockMode::Compliance,
            _ => return Ok(None),
        };
        let until = header(UNTIL_HEADER).and_then(seconds);
        Ok(until.map(|until| Held { until, mode }))
    }

    /// Returns the locks of objects.
    fn all_held<'n>(&self, bucket: &Bucket, names: &'n [Name]) -> Result<Vec<(&'n Name, Option<Held>)>, Error> {
        let asked = stream::iter(names).map(|name| async move { Ok((name, self.held(bucket, name).await?)) });
        self.run(&Arc::default(), asked.buffer_unordered(AT_ONCE).try_collect())
    }
}

impl Locks for ObjectStorage {
    fn keep(&self, lock: Lock, is_kept: OfNames) {
        let mut state = self.locking.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lock = state.kept.map_or(lock, |(before, _)| before.and(lock));
        *state = State {
            kept: Some((lock, is_kept)),
            store: None,
        };
    }

    fn kept(&self) -> Option<Lock> {
        let state = self.locking.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.kept.map(|(lock, _)| lock)
    }

    fn check(&self) -> Result<(), Error> {
        let bucket = self.s3_bucket("object lock")?;
        let asked = Asked {
            operation: Operation::Open,
            name: None,
            method: Method::GET,
            path: Path::default(),
            query: vec![("object-lock", None)],
            body: String::new(),
        };
        let refused = |found: &str| {
            let found = format!(
                "objects can't be locked in this bucket{found}. Make one with object lock, which is switched on when a \
                 bucket is made"
            );
            Error::new(ErrorKind::Unsupported, Operation::Open, None, self.location()).with_found(found)
        };
        match self.run(&Arc::default(), self.ask(bucket, asked)) {
            Ok(answer) if String::from_utf8_lossy(&answer.body).contains(">Enabled<") => Ok(()),
            Ok(_) => Err(refused("")),
            // A right of its own, which keys for backups may do without.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(refused("")),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Err(refused(": the server does not know object lock"))
            }
            Err(error) => Err(error),
        }
    }

    fn due(&self, young_too: bool, is_wanted: &dyn Fn(&Name) -> bool) -> Result<Vec<DueLock>, Error> {
        let Some(lock) = self.kept() else { return Ok(Vec::new()) };
        let bucket = self.s3_bucket("object lock")?;
        let half = i64::from(lock.days()) * DAY / 2;
        let until_least = now() + half;
        let mut old = Vec::new();
        self.list_modified("", &mut |name, _, modified| {
            if (young_too || modified + half <= now()) && is_wanted(&name) {
                old.push(name);
            }
        })?;
        let mut due = Vec::new();
        for (name, held) in self.all_held(bucket, &old)? {
            if held.is_none_or(|held| held.until < until_least || held.mode < lock.mode()) {
                due.push(DueLock {
                    name: name.clone(),
                    mode: held.map_or(lock.mode(), |held| held.mode.max(lock.mode())),
                    until: held.map_or(0, |held| held.until).max(end(lock)),
                });
            }
        }
        Ok(due)
    }

    fn renew(&self, due: &[DueLock], each: &(dyn Fn() -> bool + Sync)) -> Result<(), Error> {
        let bucket = self.s3_bucket("object lock")?;
        for due in due.chunks(AT_ONCE * 4) {
            let asked = stream::iter(due).map(|due| self.renew_one(bucket, due));
            let done: Result<Vec<()>, Error> = self.run(&Arc::default(), asked.buffer_unordered(AT_ONCE).try_collect());
            done?;
            if !due.iter().all(|_| each()) {
                break;
            }
        }
        Ok(())
    }

    fn until(&self, names: &[Name]) -> Result<Option<i64>, Error> {
        let bucket = self.s3_bucket("object lock")?;
        let held = self.all_held(bucket, names)?;
        let now = now();
        let ends = held.iter().filter_map(|(_, held)| Some(held.as_ref()?.until));
        Ok(ends.filter(|until| *until > now).max())
    }
}
