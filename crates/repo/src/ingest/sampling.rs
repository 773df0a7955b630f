//! Where is looking for what is similar worth it? (Paper 004, section 3.4.1: its governor gives up
//! where little is gained.)
//!
//! What is new to a repository is like nothing in it, and its next version will be like it: so only
//! files count that were there in the snapshot before and have changed. If these, of one kind, were
//! like nothing either, their next versions will hardly be.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ibid_format::tree::{EntryKind, TreeEntry};

/// The kind of a file that has changed, by the end of its name; [`Kind::NEW`] for all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kind(u8);

impl Kind {
    /// Nothing is known about what the next version of it will be like.
    pub(crate) const NEW: Kind = Kind(0);
    /// All for which there was no number left.
    const OTHERS: Kind = Kind(u8::MAX);
}

/// Gives kinds their numbers.
#[derive(Default)]
pub(crate) struct Kinds(HashMap<Vec<u8>, Kind>);

/// An end of a name that is longer tells of no kind.
const END_MAX: usize = 8;

impl Kinds {
    /// The kind of a file with this name, of which the snapshot before had this.
    pub(crate) fn of(&mut self, name: &[u8], former: Option<&TreeEntry>) -> Kind {
        let has_changed =
            former.is_some_and(|former| matches!(&former.kind, EntryKind::File(content) if content.length > 0));
        if !has_changed {
            return Kind::NEW;
        }
        let end = Path::new(OsStr::from_bytes(name)).extension().unwrap_or_default();
        let end = Some(end.as_bytes())
            .filter(|end| end.len() <= END_MAX)
            .unwrap_or_default();
        if let Some(known) = self.0.get(end) {
            return *known;
        }
        if self.0.len() + 1 == usize::from(Kind::OTHERS.0) {
            return Kind::OTHERS;
        }
        let new = Kind(self.0.len() as u8 + 1);
        self.0.insert(end.to_vec(), new);
        new
    }
}

/// Of a kind, it is judged by so many bytes of new chunks, and again after half as many.
const WINDOW: u64 = 64 << 20;
/// One part in so many has to be like something: else these bytes take more than 1/1.1 of what they
/// would.
const ALIKE_PART_MIN: u64 = 11;
/// Of what gains nothing, one chunk in so many is looked at: it may do so again.
pub(crate) const LOOK_EVERY: u64 = 16;

/// What has been gained so far, by kind.
pub(crate) struct Gains(Vec<Gain>);

#[derive(Default)]
struct Gain {
    looked_at: AtomicU64,
    alike: AtomicU64,
    /// Whether it was too little.
    is_little: AtomicBool,
}

impl Gains {
    pub(crate) fn new() -> Gains {
        Gains((0..=u8::MAX).map(|_| Gain::default()).collect())
    }

    /// Whether chunks of this kind are worth looking at.
    pub(crate) fn is_little(&self, kind: Kind) -> bool {
        self.0[usize::from(kind.0)].is_little.load(Ordering::Relaxed)
    }

    /// A new chunk was looked at, and something like it was found, or not. For one thread at a
    /// time.
    pub(crate) fn note(&self, kind: Kind, bytes: u64, is_alike: bool) {
        if kind == Kind::NEW {
            return;
        }
        let gain = &self.0[usize::from(kind.0)];
        let looked_at = gain.looked_at.load(Ordering::Relaxed) + bytes;
        let alike = gain.alike.load(Ordering::Relaxed) + if is_alike { bytes } else { 0 };
        let window = if gain.is_little.load(Ordering::Relaxed) {
            WINDOW / LOOK_EVERY
        } else {
            WINDOW
        };
        let is_judged = looked_at >= window;
        if is_judged {
            gain.is_little
                .store(alike * ALIKE_PART_MIN < looked_at, Ordering::Relaxed);
        }
        let part = if is_judged { 2 } else { 1 };
        gain.looked_at.store(looked_at / part, Ordering::Relaxed);
        gain.alike.store(alike / part, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use ibid_format::content::Content;
    use ibid_format::tree::Time;

    use super::*;

    fn file(length: u64) -> TreeEntry {
        let time = Time { seconds: 0, nanos: 0 };
        TreeEntry {
            name: b"former".to_vec(),
            kind: EntryKind::File(Content {
                length,
                ..Content::empty()
            }),
            mode: 0o600,
            uid: 0,
            gid: 0,
            mtime: time,
            ctime: time,
            inode: 0,
            changed_while_read: false,
            hard_link_device: None,
            xattrs: Vec::new(),
        }
    }

    #[test]
    fn files_that_have_changed_have_a_kind_by_the_end_of_their_name() {
        let mut kinds = Kinds::default();
        let former = file(1);
        let mut of = |name: &str| kinds.of(name.as_bytes(), Some(&former));
        let log = of("first.log");
        assert_ne!(log, Kind::NEW);
        assert_eq!(of("second.log"), log);
        assert_ne!(of("second.sql"), log);
        assert_eq!(of("Makefile"), of(".profile"));
        assert_eq!(of("a name.without one"), of("Makefile"));
        assert_eq!(of("a name.without one"), of("another. that is a sentence"));
        let many: Vec<Kind> = (0..1000).map(|n| of(&format!("file.{n}"))).collect();
        assert_eq!(many[999], Kind::OTHERS);
        assert_eq!(of("third.log"), log);
        assert_eq!(kinds.of(b"first.log", None), Kind::NEW);
        assert_eq!(
            kinds.of(b"first.log", Some(&file(0))),
            Kind::NEW,
            "nothing could be like that"
        );
    }

    #[test]
    fn a_kind_is_given_up_after_a_window_without_gain_and_taken_up_with_the_next_gain() {
        let gains = Gains::new();
        let (log, sql) = (Kind(1), Kind(2));
        let chunk = 64 << 10;
        let mut chunks = 0;
        while !gains.is_little(log) {
            gains.note(log, chunk, chunks % 12 == 0);
            gains.note(sql, chunk, chunks % 10 == 0);
            gains.note(Kind::NEW, chunk, false);
            chunks += 1;
        }
        assert_eq!(chunks * chunk, WINDOW);
        (0..10 * chunks).for_each(|n| gains.note(sql, chunk, n % 10 == 0));
        assert!(!gains.is_little(sql) && !gains.is_little(Kind::NEW));
        let mut chunks = 0;
        while gains.is_little(log) {
            gains.note(log, chunk, true);
            chunks += 1;
        }
        assert!(chunks * chunk <= WINDOW / LOOK_EVERY, "of what is still looked at");
    }
}
