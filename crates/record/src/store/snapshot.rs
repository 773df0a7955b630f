//! Reading what was committed at one moment.

use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use ibid_format::record::{self, KeyEntry, VersionEntry, key_of};

use super::{Inner, Namespace};
use crate::engine::{self, Direction, KeyRange, Table};
use crate::error::{Damage, Error};
use crate::read::bodies::{History, Stored};
use crate::read::lookup;

/// Keys, or records, that an iterator reads ahead.
const PAGE: usize = 64;
/// Bytes of bodies that an iterator reads ahead, beyond the first record.
const PAGE_BYTES: usize = 1 << 20;

/// What is stored under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Vec<u8>,
    /// Which version of the key it is, from 1. Where versions are not kept, always 1.
    pub version: u32,
    /// Number of the record: larger than those of all records written before it, in any namespace.
    pub number: u64,
    /// What was stored.
    pub body: Vec<u8>,
}

/// One of the versions of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Which it is, from 1.
    pub version: u32,
    /// Number of its record.
    pub number: u64,
    /// Whether the key was deleted with it.
    pub deleted: bool,
}

/// Everything that was committed at one moment; [`Store::snapshot`](crate::Store::snapshot) makes
/// it.
///
/// Later commits don't change what it shows. The engine keeps what it needs for this, so one that
/// is held for long costs space.
///
/// ```
/// use ibid_record::{Options, Store, Versions};
/// # let folder = tempfile::tempdir()?;
/// let store = Store::open(folder.path(), Options::default())?;
/// let pages = store.namespace("pages", Versions::Latest)?;
/// pages.insert(b"ibid", b"in the same place")?;
/// let before = store.snapshot()?;
/// pages.update(b"ibid", b"elsewhere")?;
/// assert_eq!(before.get(&pages, b"ibid")?.as_deref(), Some(&b"in the same place"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Snapshot {
    // Before the store, so that it is gone when the engine closes.
    engine: Box<dyn engine::Snapshot>,
    history: History,
    store: Arc<Inner>,
}

impl Snapshot {
    pub(crate) fn new(store: &Arc<Inner>) -> Result<Self, Error> {
        let (engine, history) = store.whole_snapshot()?;
        Ok(Snapshot {
            engine,
            history,
            store: store.clone(),
        })
    }

    /// The body under `key`; [`None`] if there is no such key.
    ///
    /// # Errors
    /// [`Error::Damaged`] if what is stored is not what was written; [`Error::ForeignNamespace`];
    /// [`Error::Engine`]. So for all methods.
    pub fn get(&self, namespace: &Namespace, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let Some(entry) = self.entry(namespace, key)?.filter(|entry| !entry.deleted) else {
            return Ok(None);
        };
        let owner = (namespace.number(), key, entry.versions);
        let (read, bodies, number) = (&*self.engine, &self.store.bodies, entry.latest);
        let stored = bodies.latest(read, self.history, number, owner)?;
        live(number, lookup::decoded(read, bodies, number, stored)?).map(Some)
    }

    /// The bodies under several keys, in the order of `keys`.
    pub fn get_many(&self, namespace: &Namespace, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        keys.iter().map(|key| self.get(namespace, key)).collect()
    }

    /// All versions of a key, the oldest first; none if there is no such key. Where versions are
    /// not kept there is one at most.
    pub fn versions(&self, namespace: &Namespace, key: &[u8]) -> Result<Vec<Version>, Error> {
        let Some(entry) = self.entry(namespace, key)? else {
            return Ok(Vec::new());
        };
        let versions = lookup::versions(&*self.engine, &entry)?;
        let version = |(version, entry): (u32, VersionEntry)| Version {
            version,
            number: entry.number,
            deleted: entry.deleted,
        };
        Ok(versions.into_iter().map(version).collect())
    }

    /// The body of one version, from 1; [`None`] if there is no such version, or the key was
    /// deleted with it.
    pub fn get_version(&self, namespace: &Namespace, key: &[u8], version: u32) -> Result<Option<Vec<u8>>, Error> {
        let Some(entry) = self.entry(namespace, key)? else {
            return Ok(None);
        };
        if !(1..=entry.versions).contains(&version) {
            return Ok(None);
        }
        let found = lookup::version_entry(&*self.engine, &entry, version)?;
        let owner = (namespace.number(), key, version);
        let body = lookup::body(&*self.engine, &self.store.bodies, found.number, owner)?;
        if body.is_none() != found.deleted {
            return Err(Error::damaged(
                Table::Records,
                &found.number.to_be_bytes(),
                Damage::Misplaced,
            ));
        }
        Ok(body)
    }

    /// The records whose keys are in a range, in the order of the keys' bytes or its reverse. Reads
    /// some ahead.
    pub fn scan<'s>(
        &'s self,
        namespace: &'s Namespace,
        range: KeyRange<'_>,
        direction: Direction,
    ) -> impl Iterator<Item = Result<Record, Error>> + 's {
        let owned = |bound: Bound<&[u8]>| bound.map(|key| key_of(namespace.number(), key));
        let above = match namespace.number().checked_add(1) {
            Some(next) => Bound::Excluded(next.to_be_bytes().to_vec()),
            None => Bound::Unbounded,
        };
        let from = match owned(range.0) {
            Bound::Unbounded => Bound::Included(key_of(namespace.number(), b"")),
            bound => bound,
        };
        let to = match owned(range.1) {
            Bound::Unbounded => above,
            bound => bound,
        };
        let mut scan = Scan {
            snapshot: self,
            namespace,
            from,
            to,
            direction,
            page: VecDeque::new(),
            ended: false,
        };
        std::iter::from_fn(move || scan.next().transpose())
    }

    /// The records of a namespace in the order in which they were written, from the one after
    /// number `after` on. Reads some ahead. Only what is under a key now, so of each key its
    /// latest version. What the engine has lost altogether is noticed by [`scan`](Self::scan),
    /// not here.
    pub fn in_order<'s>(
        &'s self,
        namespace: &'s Namespace,
        after: u64,
    ) -> impl Iterator<Item = Result<Record, Error>> + 's {
        let mut order = InOrder {
            snapshot: self,
            namespace,
            after,
            page: VecDeque::new(),
            ended: false,
        };
        std::iter::from_fn(move || order.next().transpose())
    }

    fn entry(&self, namespace: &Namespace, key: &[u8]) -> Result<Option<KeyEntry>, Error> {
        self.check_owner(namespace)?;
        if key.len() > record::KEY_BYTES_MAX {
            return Ok(None);
        }
        lookup::key_entry(&*self.engine, &key_of(namespace.number(), key))
    }

    fn check_owner(&self, namespace: &Namespace) -> Result<(), Error> {
        if namespace.is_of(&self.store) {
            return Ok(());
        }
        let name = namespace.name().to_owned();
        Err(Error::ForeignNamespace { name })
    }
}

/// The body of a record that a key leads to as its latest version, which has one.
fn live(number: u64, body: Option<Vec<u8>>) -> Result<Vec<u8>, Error> {
    body.ok_or_else(|| Error::damaged(Table::Records, &number.to_be_bytes(), Damage::Misplaced))
}

struct Scan<'s> {
    snapshot: &'s Snapshot,
    namespace: &'s Namespace,
    /// What is left of the range, in the table `keys`.
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    direction: Direction,
    page: VecDeque<(Vec<u8>, KeyEntry)>,
    ended: bool,
}

impl Scan<'_> {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        let next = self.next_or_error();
        self.ended |= next.is_err(); // an iterator that failed does not fail for ever
        next
    }

    fn next_or_error(&mut self) -> Result<Option<Record>, Error> {
        while self.page.is_empty() && !self.ended {
            self.read_page()?;
        }
        let Some((stored_key, entry)) = self.page.pop_front() else {
            return Ok(None);
        };
        let damaged = |error| Error::damaged(Table::Keys, &stored_key, Damage::Bytes(error));
        let (_, key) = record::split_key(&stored_key).map_err(damaged)?;
        let owner = (self.namespace.number(), key, entry.versions);
        let (read, bodies) = (&*self.snapshot.engine, &self.snapshot.store.bodies);
        Ok(Some(Record {
            // Not kept: whoever reads everything reads it once.
            body: live(entry.latest, lookup::body(read, bodies, entry.latest, owner)?)?,
            key: key.to_vec(),
            version: entry.versions,
            number: entry.latest,
        }))
    }

    fn read_page(&mut self) -> Result<(), Error> {
        self.snapshot.check_owner(self.namespace)?;
        let (mut last, mut damage, mut seen) = (None, None, 0);
        let page = &mut self.page;
        let mut each = |key: &[u8], value: &[u8]| {
            last = Some(key.to_vec());
            seen += 1;
            match KeyEntry::decode(key, value) {
                Ok(entry) if entry.deleted => {}
                Ok(entry) => page.push_back((key.to_vec(), entry)),
                Err(error) => damage = Some(Error::damaged(Table::Keys, key, error)),
            }
            if damage.is_some() || seen == PAGE {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let range = (as_slice(&self.from), as_slice(&self.to));
        self.snapshot
            .engine
            .range(Table::Keys, range, self.direction, &mut each)?;
        if let Some(error) = damage {
            self.page.clear();
            return Err(error);
        }
        self.ended = seen < PAGE;
        if let Some(last) = last {
            match self.direction {
                Direction::Forward => self.from = Bound::Excluded(last),
                Direction::Backward => self.to = Bound::Excluded(last),
            }
        }
        Ok(())
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

struct InOrder<'s> {
    snapshot: &'s Snapshot,
    namespace: &'s Namespace,
    /// The last record that was looked at.
    after: u64,
    page: VecDeque<(Record, Stored)>,
    ended: bool,
}

impl InOrder<'_> {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        let next = self.next_or_error();
        if next.is_err() {
            self.page.clear();
            self.ended = true; // an iterator that failed does not fail for ever
        }
        next
    }

    fn next_or_error(&mut self) -> Result<Option<Record>, Error> {
        loop {
            while let Some((mut record, stored)) = self.page.pop_front() {
                let engine = &*self.snapshot.engine;
                let stored_key = key_of(self.namespace.number(), &record.key);
                let entry = lookup::key_entry(engine, &stored_key)?;
                if entry.is_some_and(|entry| (entry.latest, entry.versions) == (record.number, record.version)) {
                    let bodies = &self.snapshot.store.bodies;
                    let fetch = |base| bodies.stored(engine, base, None);
                    if let (Some(body), _) = bodies.decode(record.number, stored, fetch)? {
                        record.body = body;
                        return Ok(Some(record));
                    }
                }
            }
            if self.ended {
                return Ok(None);
            }
            self.read_page()?;
        }
    }

    fn read_page(&mut self) -> Result<(), Error> {
        self.snapshot.check_owner(self.namespace)?;
        let (engine, bodies) = (&*self.snapshot.engine, &self.snapshot.store.bodies);
        let numbers = bodies.numbers(engine, self.after, PAGE)?;
        self.ended = numbers.len() < PAGE;
        let mut bytes = 0;
        for number in numbers {
            let mut found = |record: record::Record<'_>| {
                if record.namespace != self.namespace.number() {
                    return;
                }
                let (key, version) = (record.key.to_vec(), record.version);
                let stored = Stored::of(record.body);
                bytes += stored.bytes();
                if stored != Stored::Deleted {
                    let body = Vec::new();
                    self.page.push_back((
                        Record {
                            key,
                            version,
                            number,
                            body,
                        },
                        stored,
                    ));
                }
            };
            bodies.record(engine, number, &mut found)?;
            self.after = number;
            if bytes > PAGE_BYTES {
                self.ended = false;
                break;
            }
        }
        Ok(())
    }
}
