//! What a namespace keeps, and the removal of the rest.
//!
//! Each key is looked at by itself. Its versions are let go from the oldest on, so that what is left has no gaps but
//! those that a caller made.
//!
//! # Time
//!
//! Retention has a clock of its own, which is stored. It follows the clock of the system, but not faster than
//! [`SPEED_MAX`] times, and never runs ahead of it. So a clock that is wrong for ten minutes, whatever it shows, costs
//! at most ten hours of history; and after a pause of a month the store catches up within half a day. A clock that is
//! set back holds retention up. A version that is dated in the future is kept until its time has come, and as long as
//! any other after that.

use std::ops::{Bound, ControlFlow, RangeInclusive};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use ibid_format::record::{KeyEntry, RETENTION_CLOCK_KEY, RetentionClock, RetentionEntry, TIME_MAX, key_of, split_key};

use crate::engine::{Direction, Engine, Read, Snapshot, Table};
use crate::error::Error;
use crate::log::state;
use crate::read::lookup::{self, At};
use crate::read::namespaces::{self, StoredNamespace};
use crate::store::Drafts;
use crate::time::Time;
use crate::versions::Versions;
use crate::write::handle::WriterHandle;
use crate::write::request::{Change, Command, Durability, Expirations, Operation, Target};

/// How many times faster than time its clock may run.
const SPEED_MAX: u32 = 60;
/// After a look that took long, no other begins for so many times as long.
const REST: u32 = 10;
/// Keys that are read at once.
const PAGE: usize = 256;
/// Keys that are removed, or of which versions are, in one commit.
const KEYS_PER_COMMIT: usize = 64;
/// Versions that are removed in one commit, of several keys.
const VERSIONS_PER_COMMIT: u64 = 1024;
/// How far its clock goes before it is stored although nothing was removed.
const CLOCK_STORED_AFTER: Duration = Duration::from_secs(3600);
/// How soon a removal is on disk if nothing else is synced. A crash before that undoes it, and nothing else.
const SYNC_WITHIN: Duration = Duration::from_secs(1);

/// What a namespace keeps of its keys and versions: everything by default.
///
/// With [`versions`](Self::versions) or [`within`](Self::within), it lets go of the versions that neither of the two
/// keeps, from the oldest on. The latest version always stays. With [`lifetime`](Self::lifetime), it lets go of whole
/// keys.
///
/// ```
/// use std::time::Duration;
/// use ibid_record::Retention;
///
/// let month = Duration::from_secs(30 * 86_400);
/// let retention = Retention::default().with_versions(10).with_within(month);
/// assert_eq!((retention.versions, retention.within, retention.lifetime), (Some(10), Some(month), None));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Retention {
    /// So many of the last versions are kept, at least 1. Versions that were purged count. [`None`] if their number
    /// does not matter.
    pub versions: Option<u32>,
    /// A version is kept for so long after the next one was stored, from 1 ms on. So you can read any state of that
    /// time. [`None`] if the age does not matter.
    pub within: Option<Duration>,
    /// A key is removed, with all its versions, when its latest version is so old, from 1 ms on. [`None`] if no key is.
    /// A record may have a time of its own: [`Batch::expire_at`](crate::Batch::expire_at).
    pub lifetime: Option<Duration>,
}

impl Retention {
    /// Sets [`versions`](Self::versions), to a number or [`None`].
    #[must_use]
    pub fn with_versions(self, versions: impl Into<Option<u32>>) -> Self {
        let versions = versions.into();
        Retention { versions, ..self }
    }

    /// Sets [`within`](Self::within), to a duration or [`None`].
    #[must_use]
    pub fn with_within(self, within: impl Into<Option<Duration>>) -> Self {
        let within = within.into();
        Retention { within, ..self }
    }

    /// Sets [`lifetime`](Self::lifetime), to a duration or [`None`].
    #[must_use]
    pub fn with_lifetime(self, lifetime: impl Into<Option<Duration>>) -> Self {
        let lifetime = lifetime.into();
        Retention { lifetime, ..self }
    }

    /// Returns it as it is stored.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for zeros; [`Error::VersionsNotKept`].
    pub(crate) fn entry(&self, namespace: &str, versions: Versions) -> Result<RetentionEntry, Error> {
        if versions == Versions::Latest && (self.versions.is_some() || self.within.is_some()) {
            let namespace = namespace.to_owned();
            return Err(Error::VersionsNotKept { namespace });
        }
        let in_range = |field, value: Option<u64>, max| match value {
            None => Ok(0),
            Some(found) if (1..=max).contains(&found) => Ok(found),
            Some(found) => {
                let min = 1;
                Err(Error::OutOfRange { field, min, max, found })
            }
        };
        let millis =
            |duration: Option<Duration>| duration.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let kept = self.versions.map(u64::from);
        Ok(RetentionEntry {
            versions: in_range("versions to keep", kept, u32::MAX.into())? as u32,
            within: in_range("milliseconds to keep versions", millis(self.within), TIME_MAX)?,
            lifetime: in_range("milliseconds to keep keys", millis(self.lifetime), TIME_MAX)?,
        })
    }

    pub(crate) fn of(entry: RetentionEntry) -> Self {
        let duration = |millis: u64| (millis > 0).then(|| Duration::from_millis(millis));
        Retention {
            versions: (entry.versions > 0).then_some(entry.versions),
            within: duration(entry.within),
            lifetime: duration(entry.lifetime),
        }
    }
}

/// A key that is no longer kept, or not all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expiring {
    /// The name of its namespace.
    pub namespace: String,
    /// The key.
    pub key: Vec<u8>,
    /// The versions that are removed; [`None`] if the key is, with all its versions.
    pub versions: Option<RangeInclusive<u32>>,
}

/// A key to remove, or versions of it.
struct Found {
    /// The record of its latest version.
    latest: u64,
    key: Vec<u8>,
    versions: Option<RangeInclusive<u32>>,
}

impl Found {
    /// Returns the same as several, none of which has too many versions for one commit.
    fn in_parts(self) -> impl Iterator<Item = Found> {
        const PART: u32 = VERSIONS_PER_COMMIT as u32;
        let Found { latest, key, versions } = self;
        let part = move |(number, versions): (usize, Option<RangeInclusive<u32>>)| {
            let from = versions
                .as_ref()
                .map(|versions| versions.start() + number as u32 * PART);
            let to = |from: u32| {
                versions
                    .as_ref()
                    .map(|versions| from..=from.saturating_add(PART - 1).min(*versions.end()))
            };
            Found {
                latest,
                key: key.clone(),
                versions: from.and_then(to),
            }
        };
        let parts = versions
            .as_ref()
            .map_or(1, |versions| (versions.end() - versions.start()) / PART + 1);
        std::iter::repeat_n(versions, parts as usize).enumerate().map(part)
    }

    /// Returns how many versions go, about.
    fn versions(&self) -> u64 {
        self.versions
            .as_ref()
            .map_or(1, |versions| u64::from(versions.end() - versions.start()) + 1)
    }
}

/// Returns what a key has that is not kept at a time, milliseconds since 1970.
fn expiring(
    read: &dyn Snapshot,
    namespace: &StoredNamespace,
    key: &[u8],
    entry: &KeyEntry,
    clock: u64,
) -> Result<Option<Found>, Error> {
    let RetentionEntry {
        versions,
        within,
        lifetime,
    } = namespace.retention;
    let is_over = |end: u64| end <= clock;
    let is_too_old = lifetime > 0 && entry.time > 0 && is_over(entry.time.saturating_add(lifetime));
    let latest = entry.latest;
    let found = |versions| {
        let key = key.to_vec();
        Some(Found { latest, key, versions })
    };
    if is_too_old || entry.expires > 0 && is_over(entry.expires) {
        return Ok(found(None));
    }
    if versions == 0 && within == 0 {
        return Ok(None);
    }
    // The last version that the number of versions lets go.
    let mut last = entry.versions - versions.clamp(1, entry.versions);
    if last < entry.oldest {
        return Ok(None);
    }
    if within > 0 {
        // The versions before the one that was the latest then were replaced before.
        let then = clock.checked_sub(within);
        last = match then.map(|then| lookup::version_at(read, entry, then)).transpose()? {
            Some(At::Version(version, _)) => last.min(version - 1),
            Some(At::Purged(_) | At::Unknown(_) | At::None) | None => 0,
        };
    }
    if last < entry.oldest {
        return Ok(None);
    }
    // A caller may have purged some of them.
    let there = lookup::versions(read, entry)?;
    let mut going = there
        .iter()
        .map(|(version, _)| *version)
        .take_while(|&version| version <= last);
    let from = going.next();
    Ok(from.and_then(|from| found(Some(from..=going.last().unwrap_or(from)))))
}

/// Shows what namespaces no longer keep at a time to `each`, namespace by namespace and key by key, until it breaks.
pub(crate) fn each_expiring(
    read: &dyn Snapshot,
    clock: Time,
    each: &mut dyn FnMut(Expiring) -> ControlFlow<()>,
) -> Result<(), Error> {
    for namespace in retaining(read)? {
        let mut walk = Walk::new(&namespace, clock.as_millis());
        while let Some(page) = walk.next_page(read)? {
            for Found { key, versions, .. } in page {
                let namespace = namespace.name.clone();
                let expiring = Expiring {
                    namespace,
                    key,
                    versions,
                };
                if each(expiring).is_break() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Returns the namespaces that do not keep everything.
fn retaining(read: &(impl Read + ?Sized)) -> Result<Vec<StoredNamespace>, Error> {
    let all = namespaces::all(read)?.into_values();
    let is_retaining =
        |namespace: &StoredNamespace| namespace.has_expiring || namespace.retention != RetentionEntry::default();
    Ok(all.filter(is_retaining).collect())
}

/// The keys of a namespace that are no longer kept, or not with all versions.
struct Walk<'n> {
    namespace: &'n StoredNamespace,
    clock: u64,
    after: Option<Vec<u8>>,
    /// The last time of a version that was seen.
    newest: u64,
}

impl<'n> Walk<'n> {
    fn new(namespace: &'n StoredNamespace, clock: u64) -> Self {
        Walk {
            namespace,
            clock,
            after: Some(key_of(namespace.number, b"")),
            newest: 0,
        }
    }

    /// Looks at the next keys, and returns what is no longer kept of them; [`None`] if there are no more keys.
    fn next_page(&mut self, read: &dyn Snapshot) -> Result<Option<Vec<Found>>, Error> {
        let Some(after) = self.after.take() else {
            return Ok(None);
        };
        let mut page = Vec::with_capacity(PAGE);
        let mut damage = None;
        let mut each = |stored_key: &[u8], value: &[u8]| {
            match (split_key(stored_key), KeyEntry::decode(stored_key, value)) {
                (Ok((namespace, _)), _) if namespace != self.namespace.number => return ControlFlow::Break(()),
                (Ok((_, key)), Ok(entry)) => page.push((key.to_vec(), entry)),
                (Err(error), _) | (_, Err(error)) => damage = Some(Error::damaged(Table::Keys, stored_key, error)),
            }
            match page.len() < PAGE && damage.is_none() {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        // The first key of a namespace may be empty.
        let is_first = after.len() == 4;
        let from = if is_first {
            Bound::Included(&after[..])
        } else {
            Bound::Excluded(&after[..])
        };
        read.range(Table::Keys, (from, Bound::Unbounded), Direction::Forward, &mut each)?;
        if let Some(error) = damage {
            return Err(error);
        }
        if page.len() == PAGE {
            self.after = page.last().map(|(key, _)| key_of(self.namespace.number, key));
        }
        let mut found = Vec::new();
        for (key, entry) in page {
            self.newest = self.newest.max(entry.time);
            if let Some(expiring) = expiring(read, self.namespace, &key, &entry, self.clock)? {
                found.extend(expiring.in_parts());
            }
        }
        Ok(Some(found))
    }
}

/// Returns the time up to which retention has come; [`None`] if it has never removed anything.
pub(crate) fn clock(read: &(impl Read + ?Sized)) -> Result<Option<Time>, Error> {
    let mut clock = None;
    read.get(Table::Meta, RETENTION_CLOCK_KEY, &mut |value| {
        clock = Some(RetentionClock::decode(value))
    })?;
    let damaged = |error| Error::damaged(Table::Meta, RETENTION_CLOCK_KEY, error);
    Ok(clock
        .transpose()
        .map_err(damaged)?
        .and_then(|clock| Time::stored(clock.time)))
}

/// Returns the last time that retention or a version of these namespaces has; [`None`] if there is none.
pub(crate) fn last_known(read: &dyn Snapshot) -> Result<Option<Time>, Error> {
    if let Some(clock) = clock(read)? {
        return Ok(Some(clock));
    }
    let mut newest = 0;
    for namespace in retaining(read)? {
        // Nothing expires at the beginning of time.
        let mut walk = Walk::new(&namespace, 0);
        while walk.next_page(read)?.is_some() {}
        newest = newest.max(walk.newest);
    }
    Ok(Time::stored(newest))
}

/// Returns how far retention comes now: as far as the system's clock, but not much faster than time.
fn advanced(known: Time, elapsed: Duration, now: Time) -> Time {
    known.after(elapsed.saturating_mul(SPEED_MAX)).min(now)
}

/// Removes what namespaces no longer keep.
pub(crate) struct Sweeper {
    engine: Arc<dyn Engine>,
    writer: WriterHandle,
    drafts: Arc<Drafts>,
}

impl Sweeper {
    pub(crate) fn new(engine: Arc<dyn Engine>, writer: WriterHandle, drafts: Arc<Drafts>) -> Self {
        Sweeper { engine, writer, drafts }
    }

    /// Removes what is not kept each `interval`, until the other end of the channel is dropped.
    pub(crate) fn run(self, interval: Duration, ended: &Receiver<()>) {
        let mut last = Instant::now();
        let mut wait = interval;
        let mut clock = None;
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(wait) {
            let begun = Instant::now();
            let mut go_on = |_: Expiring| match ended.try_recv() {
                Err(std::sync::mpsc::TryRecvError::Empty) => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            };
            match self.sweep_in_background(&mut clock, begun - last, &mut go_on) {
                // Damage, which `Store::verify` reports, or a replica: the next look may find another store.
                Ok(()) | Err(Error::Damaged { .. } | Error::IsReplica | Error::Fenced { .. } | Error::Incomplete) => {}
                // The writer has ended, and tells its callers why.
                Err(_) => return,
            }
            last = begun;
            wait = interval.max(begun.elapsed().saturating_mul(REST));
        }
    }

    fn sweep_in_background(
        &self,
        last: &mut Option<Time>,
        elapsed: Duration,
        each: &mut dyn FnMut(Expiring) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let snapshot = self.engine.snapshot()?;
        state::check_primary(state::read(&*snapshot)?.as_ref())?;
        self.drafts.remove_abandoned(&*self.engine, &self.writer)?;
        if retaining(&*snapshot)?.is_empty() {
            return Ok(());
        }
        let stored = clock(&*snapshot)?;
        let known = match stored.max(*last) {
            Some(known) => known,
            None => match last_known(&*snapshot)? {
                Some(known) => known,
                None => return Ok(()), // nothing has a time
            },
        };
        drop(snapshot);
        let now = *last.insert(advanced(known, elapsed, Time::now()));
        self.sweep(now, each)?;
        // A store that is opened again catches up with what is not stored.
        if stored.is_none_or(|stored| stored.after(CLOCK_STORED_AFTER) <= now) {
            self.commit(Vec::new(), now)?;
        }
        Ok(())
    }

    /// Removes what namespaces do not keep at a time, in small commits. Shows each of it before.
    pub(crate) fn sweep(&self, clock: Time, each: &mut dyn FnMut(Expiring) -> ControlFlow<()>) -> Result<(), Error> {
        let namespaces = retaining(&*self.engine.snapshot()?)?;
        for namespace in namespaces {
            let mut walk = Walk::new(&namespace, clock.as_millis());
            let (mut found, mut versions) = (Vec::new(), 0);
            // A snapshot for each page: as long as there is one, an engine may need more and more space.
            while let Some(page) = self.next_page(&mut walk)? {
                for next in page {
                    let expiring = Expiring {
                        namespace: namespace.name.clone(),
                        key: next.key.clone(),
                        versions: next.versions.clone(),
                    };
                    if each(expiring).is_break() {
                        return self.remove(&namespace, found, clock);
                    }
                    versions += next.versions();
                    found.push(next);
                    if found.len() == KEYS_PER_COMMIT || versions >= VERSIONS_PER_COMMIT {
                        self.remove(&namespace, std::mem::take(&mut found), clock)?;
                        versions = 0;
                    }
                }
            }
            self.remove(&namespace, found, clock)?;
        }
        Ok(())
    }

    /// Returns what is no longer kept of the next keys of a namespace.
    fn next_page(&self, walk: &mut Walk<'_>) -> Result<Option<Vec<Found>>, Error> {
        let snapshot = self.engine.snapshot()?;
        walk.next_page(&*snapshot)
    }

    /// Removes what was found in a namespace.
    fn remove(&self, namespace: &StoredNamespace, found: Vec<Found>, clock: Time) -> Result<(), Error> {
        if found.is_empty() {
            return Ok(());
        }
        let target = Target {
            name: namespace.name.as_str().into(),
            number: namespace.number,
            versions_kept: namespace.versions == Versions::Kept,
        };
        let operation = |found: Found| {
            let change = match found.versions {
                Some(versions) => Change::PurgeVersions {
                    from: *versions.start(),
                    to: *versions.end(),
                },
                None => Change::Purge,
            };
            (found.latest, Operation::new(target.clone(), found.key, change))
        };
        self.commit(found.into_iter().map(operation).collect(), clock)
    }

    fn commit(&self, operations: Vec<(u64, Operation)>, clock: Time) -> Result<(), Error> {
        let clock = clock.as_millis();
        let expirations = Expirations { operations, clock };
        let command = Command::Expire(expirations);
        self.writer.ask(command, Durability::Batched(SYNC_WITHIN)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_is_not_followed() {
        let at = |millis| Time::from_millis(millis).unwrap();
        let minute = Duration::from_secs(60);
        let known = at(1_000_000_000_000);
        assert_eq!(advanced(known, minute, at(1_000_000_060_000)), at(1_000_000_060_000));
        assert_eq!(advanced(known, minute, Time::MAX), known.after(60 * minute));
        assert_eq!(
            advanced(known, minute, at(999_000_000_000)),
            at(999_000_000_000),
            "it was set back"
        );
        assert_eq!(advanced(known, Duration::MAX, Time::MAX), Time::MAX);
    }
}
