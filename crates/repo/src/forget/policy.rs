//! Which snapshots a policy keeps, and why.

use std::collections::{BTreeMap, HashMap, HashSet};

use ibid_format::FileId;
use ibid_format::tree::Time;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

use crate::options::setters;
use crate::snapshots::first_id;
use crate::{Error, Result, SnapshotInfo};

/// Which snapshots are kept. A snapshot is kept if any rule keeps it.
///
/// ```
/// use ibid_repo::KeepPolicy;
/// let policy = KeepPolicy::default().daily(7).weekly(4).within("1y2m".parse::<ibid_repo::KeepWithin>()?);
/// assert!(!policy.is_empty());
/// # Ok::<(), ibid_repo::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KeepPolicy {
    /// The last so many.
    pub last: u32,
    /// The last one of each of so many hours that have one; the same for the others.
    pub hourly: u32,
    /// Days.
    pub daily: u32,
    /// Weeks, from Monday to Sunday.
    pub weekly: u32,
    /// Months.
    pub monthly: u32,
    /// Years.
    pub yearly: u32,
    /// All that are not older than this.
    pub within: Option<KeepWithin>,
    /// All that carry all tags of one of these lists.
    pub tags: Vec<Vec<String>>,
}

setters!(KeepPolicy {
    last: u32,
    hourly: u32,
    daily: u32,
    weekly: u32,
    monthly: u32,
    yearly: u32,
    tags: Vec<Vec<String>>,
} into {
    within: Option<KeepWithin>,
});

/// A span of time as `1y2m3d4h`: years, months, days, hours; also `w` for weeks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeepWithin(SpanParts);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SpanParts {
    years: u16,
    months: u16,
    weeks: u16,
    days: u16,
    hours: u16,
}

impl std::str::FromStr for KeepWithin {
    type Err = Error;

    fn from_str(text: &str) -> Result<KeepWithin> {
        let bad = || Error::BadSpan { text: text.to_owned() };
        let mut parts = SpanParts::default();
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
            let number: u16 = rest[..digits].parse().map_err(|_| bad())?;
            let mut after = rest[digits..].chars();
            let part = match after.next() {
                Some('y') => &mut parts.years,
                Some('m') => &mut parts.months,
                Some('w') => &mut parts.weeks,
                Some('d') => &mut parts.days,
                Some('h') => &mut parts.hours,
                _ => return Err(bad()),
            };
            if *part != 0 || number > 9999 {
                return Err(bad());
            }
            *part = number;
            rest = after.as_str();
        }
        match parts == SpanParts::default() {
            true => Err(bad()),
            false => Ok(KeepWithin(parts)),
        }
    }
}

impl KeepWithin {
    /// Returns the moment that lies so long before another.
    fn before(self, moment: &Zoned) -> Option<Zoned> {
        let SpanParts {
            years,
            months,
            weeks,
            days,
            hours,
        } = self.0;
        let span = Span::new()
            .years(years)
            .months(months)
            .weeks(weeks)
            .days(days)
            .hours(hours);
        moment.checked_sub(span).ok()
    }
}

/// What of a snapshot puts it into a group of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupBy {
    /// Its machine.
    pub host: bool,
    /// Its paths.
    pub paths: bool,
    /// Its tags.
    pub tags: bool,
}

setters!(GroupBy {
    host: bool,
    paths: bool,
    tags: bool,
} into {
});

impl Default for GroupBy {
    fn default() -> GroupBy {
        GroupBy {
            host: true,
            paths: true,
            tags: false,
        }
    }
}

/// Snapshots to which a policy applies together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PolicyGroup {
    /// The machine, if snapshots are grouped by it.
    pub host: Option<String>,
    /// The paths, if snapshots are grouped by them.
    pub paths: Option<Vec<Vec<u8>>>,
    /// The tags, if snapshots are grouped by them.
    pub tags: Option<Vec<String>>,
    /// The snapshots, newest first.
    pub snapshots: Vec<PolicyDecision>,
    /// A time without snapshots, if what was made before it is forgotten because of it. Perhaps there was no such
    /// time, and the clock is wrong.
    pub gap: Option<PolicyGap>,
    /// Those of a writer that a keeper had seen before.
    pub(super) was_seen: Vec<FileId>,
}

/// A time without snapshots that is longer than [`KeepPolicy::within`]: what was made before it would be kept without
/// what was made after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyGap {
    /// When the last snapshot before it was made, as that says.
    pub before: Time,
    /// When the first one after it was made, as that says.
    pub after: Time,
    /// Snapshots that are forgotten because of it.
    pub forgotten: usize,
}

impl PolicyGap {
    /// Returns how many whole days it has.
    pub fn days(&self) -> i64 {
        (self.after.seconds - self.before.seconds) / (24 * 60 * 60)
    }
}

/// Days without snapshots of which each is to be told, although the last snapshot before them is kept.
const GAP_DAYS_TOLD: i64 = 366;

impl PolicyGroup {
    /// Returns how many snapshots are forgotten.
    pub fn forgotten(&self) -> usize {
        self.snapshots.iter().filter(|one| !one.is_kept()).count()
    }

    /// Returns whether more than half of the group is forgotten, or all of it.
    pub fn loses_most(&self) -> bool {
        let forgotten = self.forgotten();
        forgotten * 2 > self.snapshots.len() || forgotten > 0 && forgotten == self.snapshots.len()
    }
}

/// Whether a snapshot is kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PolicyDecision {
    /// The snapshot.
    pub info: SnapshotInfo,
    /// The rules that keep it, such as `daily`; none if it is forgotten.
    pub reasons: Vec<&'static str>,
    /// The time that the rules went by: its own or, if a writer says one that can't be, the nearest that can.
    pub time: Time,
}

impl PolicyDecision {
    /// Returns whether a rule keeps it.
    pub fn is_kept(&self) -> bool {
        !self.reasons.is_empty()
    }
}

/// A snapshot, and what the rules go by.
pub(super) struct Ranked {
    pub(super) info: SnapshotInfo,
    /// When it was made.
    pub(super) time: Time,
    /// The first of the snapshots that it was made from: those that have one count as one.
    pub(super) first: FileId,
    /// Whether it is of a writer, and a keeper had seen it before.
    pub(super) was_seen: bool,
}

impl Ranked {
    /// Returns a snapshot that is believed.
    fn as_it_says(info: SnapshotInfo) -> Ranked {
        Ranked {
            time: info.snapshot.time,
            first: first_id(&info),
            was_seen: false,
            info,
        }
    }
}

/// A rule that keeps the last snapshot of each of some periods.
struct Periods {
    name: &'static str,
    left: u32,
    key: fn(&Zoned) -> (i64, i64),
    last: Option<(i64, i64)>,
}

impl KeepPolicy {
    /// Returns whether no rule keeps anything.
    pub fn is_empty(&self) -> bool {
        let counts = [
            self.last,
            self.hourly,
            self.daily,
            self.weekly,
            self.monthly,
            self.yearly,
        ];
        counts.iter().all(|count| *count == 0) && self.within.is_none() && self.tags.is_empty()
    }

    /// Applies the policy to these snapshots, oldest first as [`snapshots`](crate::Repository::snapshots)
    /// returns them. Days and hours are those of this machine's time zone.
    pub fn apply(&self, snapshots: Vec<SnapshotInfo>, by: GroupBy) -> Vec<PolicyGroup> {
        self.apply_ranked(snapshots.into_iter().map(Ranked::as_it_says).collect(), by)
    }

    /// Applies the policy to these snapshots, oldest first.
    pub(super) fn apply_ranked(&self, snapshots: Vec<Ranked>, by: GroupBy) -> Vec<PolicyGroup> {
        self.apply_at(snapshots, by, &TimeZone::system(), crate::clock::now())
    }

    /// Applies the policy as if it were `now` in this time zone.
    fn apply_at(&self, snapshots: Vec<Ranked>, by: GroupBy, zone: &TimeZone, now: Time) -> Vec<PolicyGroup> {
        type Key = (Option<String>, Option<Vec<Vec<u8>>>, Option<Vec<String>>);
        let mut groups: BTreeMap<Key, Vec<Ranked>> = BTreeMap::new();
        for one in snapshots {
            let snapshot = &one.info.snapshot;
            let key = (
                by.host.then(|| snapshot.host.clone()),
                by.paths.then(|| snapshot.paths.clone()),
                by.tags.then(|| snapshot.tags.clone()),
            );
            groups.entry(key).or_default().push(one);
        }
        let groups = groups.into_iter().map(|((host, paths, tags), snapshots)| {
            let was_seen = snapshots
                .iter()
                .filter(|one| one.was_seen)
                .map(|one| one.info.id)
                .collect();
            let snapshots = self.decide(snapshots, zone, now);
            PolicyGroup {
                host,
                paths,
                tags,
                gap: self.gap(&snapshots, zone, now),
                snapshots,
                was_seen,
            }
        });
        groups.collect()
    }

    /// Returns the last time without snapshots for which some are forgotten that were within the span before it. If
    /// the last one before it is kept, by another rule, such a time is usual: only one of more than a year is returned.
    fn gap(&self, decisions: &[PolicyDecision], zone: &TimeZone, now: Time) -> Option<PolicyGap> {
        let span = self.within?;
        let since = |time: Time| Some(span.before(&zoned(time, zone)?)?.timestamp().as_second());
        let mut made: Vec<&PolicyDecision> = Vec::new();
        let mut last: Option<&PolicyDecision> = None;
        let mut found = None;
        let past = decisions.iter().rev().filter(|one| one.time <= now);
        for one in past {
            let after = one.time;
            if let Some(last) = last
                && since(after).is_some_and(|since| last.time.seconds < since)
            {
                let before = last.time;
                let since = since(before).unwrap_or(i64::MIN);
                let was_kept = |one: &&&PolicyDecision| one.time.seconds >= since;
                let gap = PolicyGap {
                    before,
                    after,
                    forgotten: made.iter().filter(|one| !one.is_kept()).filter(was_kept).count(),
                };
                if gap.forgotten > 0 && (!last.is_kept() || gap.days() > GAP_DAYS_TOLD) {
                    found = Some(gap);
                }
            }
            if last.is_none_or(|last| last.time <= after) {
                last = Some(one);
            }
            made.push(one);
        }
        found
    }

    /// Decides on the snapshots of one group, oldest first. Returns them newest first.
    fn decide(&self, snapshots: Vec<Ranked>, zone: &TimeZone, now: Time) -> Vec<PolicyDecision> {
        let hour = |at: &Zoned| (day(at), i64::from(at.hour()));
        let periods = |name, left, key| Periods {
            name,
            left,
            key,
            last: None,
        };
        let mut rules = [
            periods("hourly", self.hourly, hour),
            periods("daily", self.daily, |at| (day(at), 0)),
            periods("weekly", self.weekly, |at| {
                let week = at.date().iso_week_date();
                (week.year().into(), week.week().into())
            }),
            periods("monthly", self.monthly, |at| (at.year().into(), at.month().into())),
            periods("yearly", self.yearly, |at| (at.year().into(), 0)),
        ];
        let in_span = self.in_span(&snapshots, zone, now);
        let count = snapshots.iter().map(|one| one.first).collect::<HashSet<_>>().len();
        // A snapshot and those that were made from it, by a rewrite, count as one: all of them are kept, or none.
        let mut met: HashMap<FileId, Vec<&'static str>> = HashMap::new();
        let decide = |Ranked { info, time, first, .. }: Ranked| {
            let at = met.len();
            let by_time = met.entry(first).or_insert_with(|| {
                let mut reasons = Vec::new();
                if at < self.last as usize {
                    reasons.push("last");
                }
                let moment = zoned(time, zone);
                for rule in &mut rules {
                    let Some(moment) = moment.as_ref().filter(|_| rule.left > 0) else {
                        continue;
                    };
                    let key = (rule.key)(moment);
                    // The oldest stays as long as a rule is not used up: it has the longest history.
                    if rule.last != Some(key) || at + 1 == count {
                        rule.last = Some(key);
                        rule.left -= 1;
                        reasons.push(rule.name);
                    }
                }
                reasons
            });
            let mut reasons = by_time.clone();
            if in_span.contains(&info.id) {
                reasons.push("within");
            }
            let tags: HashSet<&String> = info.snapshot.tags.iter().collect();
            if self.tags.iter().any(|all| all.iter().all(|tag| tags.contains(tag))) {
                reasons.push("tag");
            }
            PolicyDecision { info, reasons, time }
        };
        snapshots.into_iter().rev().map(decide).collect()
    }

    /// Returns the snapshots, oldest first, that are within the span before now or, if there is none so new,
    /// before the newest. So a policy keeps what it kept, if backups have stopped.
    ///
    /// What was made after one that is kept is kept, too: it only looks older if a clock was slow.
    fn in_span(&self, snapshots: &[Ranked], zone: &TimeZone, now: Time) -> HashSet<FileId> {
        let is_past = |one: &&Ranked| one.time <= now;
        let newest = snapshots.iter().filter(is_past).map(|one| one.time).max();
        let before = |span: KeepWithin| span.before(&zoned(newest.unwrap_or(now), zone)?);
        let Some(since) = self.within.and_then(before) else {
            return HashSet::new();
        };
        let since = since.timestamp().as_second();
        let is_new = |one: &Ranked| one.time.seconds >= since;
        let first = snapshots.iter().position(|one| is_new(one) && is_past(&one));
        let made_after = snapshots.iter().skip(first.unwrap_or(snapshots.len()));
        let from_the_future = snapshots.iter().filter(|one| is_new(one));
        made_after.chain(from_the_future).map(|one| one.info.id).collect()
    }
}

/// Returns the number of a day.
fn day(at: &Zoned) -> i64 {
    i64::from(at.year()) * 400 + i64::from(at.day_of_year())
}

fn zoned(time: Time, zone: &TimeZone) -> Option<Zoned> {
    Some(Timestamp::from_second(time.seconds).ok()?.to_zoned(zone.clone()))
}

/// Returns the ids of the snapshots that are forgotten.
pub(super) fn forgotten(groups: &[PolicyGroup]) -> Vec<FileId> {
    let all = groups.iter().flat_map(|group| &group.snapshots);
    all.filter(|one| !one.is_kept()).map(|one| one.info.id).collect()
}

#[cfg(test)]
mod tests {
    use ibid_format::content::Content;
    use ibid_format::snapshot::{Snapshot, SnapshotTotals};

    use super::*;

    const NOW: &str = "2026-11-23T12:00:00Z";

    fn time(text: &str) -> Time {
        let timestamp: Timestamp = text.parse().unwrap();
        Time {
            seconds: timestamp.as_second(),
            nanos: 0,
        }
    }

    fn at(number: u8, time: Time, tags: &[&str]) -> SnapshotInfo {
        SnapshotInfo {
            id: FileId([number; 16]),
            file_size: 0,
            snapshot: Snapshot {
                time,
                sequence: number.into(),
                duration_ms: 0,
                host: "amber".into(),
                user: String::new(),
                program: String::new(),
                paths: vec![b"/home".to_vec()],
                tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
                parent: None,
                original: None,
                root: Content::empty(),
                users: vec![],
                groups: vec![],
                counters: SnapshotTotals::default(),
            },
        }
    }

    /// One snapshot every six hours for 80 days, the last one an hour ago.
    fn history() -> Vec<SnapshotInfo> {
        let last = time("2026-11-23T11:00:00Z").seconds;
        let of = |n: i64| Time {
            seconds: last - (319 - n) * 6 * 3600,
            nanos: 0,
        };
        let numbered = |n: i64| {
            let mut info = at((n % 251) as u8, of(n), &[]);
            info.id = FileId((n as u128).to_be_bytes());
            info
        };
        (0..320).map(numbered).collect()
    }

    fn ranked(snapshots: Vec<SnapshotInfo>) -> Vec<Ranked> {
        snapshots.into_iter().map(Ranked::as_it_says).collect()
    }

    fn apply(policy: &KeepPolicy, snapshots: Vec<SnapshotInfo>) -> Vec<PolicyDecision> {
        let mut groups = policy.apply_at(ranked(snapshots), GroupBy::default(), &TimeZone::UTC, time(NOW));
        assert_eq!(groups.len(), 1);
        groups.remove(0).snapshots
    }

    fn kept(policy: &KeepPolicy) -> Vec<(String, Vec<&'static str>)> {
        let kept = apply(policy, history()).into_iter().filter(PolicyDecision::is_kept);
        kept.map(|one| {
            let timestamp = Timestamp::from_second(one.info.snapshot.time.seconds).unwrap();
            (timestamp.strftime("%m-%d %H").to_string(), one.reasons)
        })
        .collect()
    }

    #[test]
    fn the_last_of_each_day_week_and_month_is_kept() {
        let policy = KeepPolicy::default().last(2).daily(3).weekly(2).monthly(2);
        let expected = [
            ("11-23 11", vec!["last", "daily", "weekly", "monthly"]),
            ("11-23 05", vec!["last"]),
            ("11-22 23", vec!["daily", "weekly"]),
            ("11-21 23", vec!["daily"]),
            ("10-31 23", vec!["monthly"]),
        ];
        let expected = expected.map(|(time, reasons)| (time.to_owned(), reasons));
        assert_eq!(kept(&policy), expected);
    }

    #[test]
    fn the_oldest_stays_for_a_rule_that_is_not_used_up() {
        let yearly = kept(&KeepPolicy::default().yearly(3));
        assert_eq!(yearly.len(), 2);
        assert_eq!(yearly[1], ("09-04 17".to_owned(), vec!["yearly"]));
    }

    #[test]
    fn all_within_a_span_are_kept() {
        let within = |text: &str| text.parse::<KeepWithin>().unwrap();
        let count = |span| kept(&KeepPolicy::default().within(within(span))).len();
        assert_eq!((count("1d"), count("1w"), count("6h"), count("2d12h")), (5, 29, 2, 11));
        assert_eq!(count("1m"), 31 * 4 + 1);
        // A snapshot from the future moves nothing.
        let mut snapshots = history();
        snapshots.push(at(252, time("2035-01-01T00:00:00Z"), &[]));
        let policy = KeepPolicy::default().within(within("1d"));
        let kept = apply(&policy, snapshots).into_iter().filter(PolicyDecision::is_kept);
        assert_eq!(kept.count(), 6);
    }

    #[test]
    fn what_was_made_after_one_that_is_kept_is_kept_whatever_the_clock_said() {
        let times = ["2026-11-01", "2026-11-22", "2016-01-01", "2026-11-23", "1970-01-02"];
        let snapshots = times.iter().zip(1..).map(|(day, number)| {
            let midnight = format!("{day}T00:00:00Z");
            at(number, time(&midnight), &[])
        });
        let policy = KeepPolicy::default().within("3d".parse::<KeepWithin>().unwrap());
        let decisions = apply(&policy, snapshots.collect());
        let kept: Vec<bool> = decisions.iter().rev().map(PolicyDecision::is_kept).collect();
        assert_eq!(kept, [false, true, true, true, true]);
    }

    #[test]
    fn a_time_without_snapshots_is_told_if_it_forgets_what_was_made_before_it() {
        let days = ["2026-08-01", "2026-09-20", "2026-09-21", "2026-11-22", "2026-11-23"];
        let gap = |days: &[&str], policy: &KeepPolicy, now: &str| {
            let snapshots = days.iter().zip(1..).map(|(day, number)| {
                let midnight = format!("{day}T00:00:00Z");
                at(number, time(&midnight), &[])
            });
            let groups = policy.apply_at(
                ranked(snapshots.collect()),
                GroupBy::default(),
                &TimeZone::UTC,
                time(now),
            );
            groups[0].gap.map(|gap| (gap.days(), gap.forgotten))
        };
        let within = |text: &str| KeepPolicy::default().within(text.parse::<KeepWithin>().unwrap());
        assert_eq!(gap(&days, &within("30d"), NOW), Some((62, 2)));
        // What is kept until it is older than the span is not forgotten for a gap.
        assert_eq!(gap(&days[..3], &within("30d"), NOW), Some((50, 1)));
        assert_eq!(gap(&days, &within("1y"), NOW), None);
        assert_eq!(gap(&days[1..3], &within("30d"), NOW), None);
        // Another rule keeps the last one before it: so it is for each weekend.
        assert_eq!(gap(&days, &within("30d").daily(9), NOW), None);
        assert_eq!(gap(&days, &within("30d").weekly(9), NOW), None);
        // With a clock that is wrong by years, and later with the right one.
        let wrong = [&days[..], &["2035-01-01"]].concat();
        let yearly = within("30d").yearly(3);
        assert_eq!(gap(&wrong[2..], &yearly, "2035-01-01T00:00:00Z"), Some((2961, 1)));
        assert_eq!(gap(&wrong[2..], &yearly, NOW), None);
    }

    #[test]
    fn spans_that_mean_nothing_are_refused() {
        for text in ["", "1", "d", "1x", "1d1d", "0d", "99999d", "-1d", "1 d", "1dd"] {
            assert!(text.parse::<KeepWithin>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_tag_keeps_snapshots_that_have_all_of_a_list() {
        let now = time(NOW);
        let snapshots = vec![at(1, now, &["a"]), at(2, now, &["a", "b"]), at(3, now, &["c"])];
        let list = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
        let policy = KeepPolicy::default().tags(vec![list(&["a", "b"]), list(&["c"])]);
        let kept: Vec<bool> = apply(&policy, snapshots).iter().map(PolicyDecision::is_kept).collect();
        assert_eq!(kept, [true, true, false]);
    }

    /// Otherwise a rewrite would take the place of an older snapshot, and the day's rule would keep either of two.
    #[test]
    fn a_snapshot_and_its_rewrites_count_as_one() {
        let mut snapshots = history();
        // As `rewrite` leaves them: the same time and place, after the original.
        for (copy, of) in [(201, 319), (202, 319), (203, 310), (204, 0)] {
            let original = snapshots.iter().position(|info| info.id == history()[of].id).unwrap();
            let mut rewritten = snapshots[original].clone();
            rewritten.snapshot.original = Some(rewritten.id);
            rewritten.id = FileId([copy; 16]);
            snapshots.insert(original + 1, rewritten);
        }
        let policy = KeepPolicy::default().last(2).daily(3).yearly(2);
        let decisions = apply(&policy, snapshots);
        let alone = apply(&policy, history());
        for one in &decisions {
            let first = first_id(&one.info);
            let same = alone.iter().find(|alone| alone.info.id == first).unwrap();
            assert_eq!(one.reasons, same.reasons);
        }
        assert_eq!(decisions.len(), 324);
        assert_eq!(decisions.iter().filter(|one| one.is_kept()).count(), 5 + 3);
    }

    #[test]
    fn a_rule_goes_by_when_snapshots_were_seen_whatever_they_say() {
        // One a day, and as many that say they were made at the end of each of these days.
        let day = |n: u8| time(&format!("2026-11-{n:02}T12:00:00Z"));
        let good = (1..=20).map(|n| Ranked::as_it_says(at(n, day(n), &[])));
        let planted = (1..=20).map(|n| Ranked {
            time: time("2026-11-21T11:00:00Z"),
            ..Ranked::as_it_says(at(100 + n, time(&format!("2026-11-{n:02}T23:00:00Z")), &[]))
        });
        let policy = KeepPolicy::default().daily(7);
        let groups = policy.apply_at(
            good.chain(planted).collect(),
            GroupBy::default(),
            &TimeZone::UTC,
            time(NOW),
        );
        let kept = groups[0].snapshots.iter().filter(|one| one.is_kept());
        let kept: Vec<u8> = kept.map(|one| one.info.id.0[0]).collect();
        // They have the place of one day together.
        assert_eq!(kept, [120, 20, 19, 18, 17, 16, 15]);
    }

    #[test]
    fn groups_that_lose_most_are_found() {
        let groups = |policy: &KeepPolicy| {
            let groups = policy.apply_at(ranked(history()), GroupBy::default(), &TimeZone::UTC, time(NOW));
            groups[0].loses_most()
        };
        assert!(groups(&KeepPolicy::default().last(159)));
        assert!(!groups(&KeepPolicy::default().last(160)));
        assert!(groups(&KeepPolicy::default().tags(vec![vec!["none".to_owned()]])));
    }
}
