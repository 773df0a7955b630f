//! Decides for which files looking for similar chunks pays. (dDedup §3.4.1 gives up where little is
//! gained.)
//!
//! A new file resembles nothing in the repository, but its next version will resemble it. So only
//! files count that were in the parent snapshot and have changed. If changed files of a class
//! resembled nothing, their next versions probably won't either. Of such a class, only one chunk in
//! [`SAMPLE_EVERY`] is sketched.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ibid_format::tree::{EntryKind, TreeEntry};

/// Class of a changed file, by its extension; [`FileClass::NEW`] for all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileClass(u8);

impl FileClass {
    /// Class of files that the parent snapshot does not have.
    pub(crate) const NEW: FileClass = FileClass(0);
    /// Class of all files once the numbers are used up.
    const OTHERS: FileClass = FileClass(u8::MAX);
}

/// Assigns numbers to classes.
#[derive(Default)]
pub(crate) struct FileClasses(HashMap<Vec<u8>, FileClass>);

/// Longest extension that makes a class, bytes.
const END_MAX: usize = 8;

impl FileClasses {
    /// Returns the class of a file with this name and this entry in the parent snapshot.
    pub(crate) fn of(&mut self, name: &[u8], former: Option<&TreeEntry>) -> FileClass {
        let has_changed =
            former.is_some_and(|former| matches!(&former.kind, EntryKind::File(content) if content.length > 0));
        if !has_changed {
            return FileClass::NEW;
        }
        let end = Path::new(OsStr::from_bytes(name)).extension().unwrap_or_default();
        let end = Some(end.as_bytes())
            .filter(|end| end.len() <= END_MAX)
            .unwrap_or_default();
        if let Some(known) = self.0.get(end) {
            return *known;
        }
        if self.0.len() + 1 == usize::from(FileClass::OTHERS.0) {
            return FileClass::OTHERS;
        }
        let new = FileClass(self.0.len() as u8 + 1);
        self.0.insert(end.to_vec(), new);
        new
    }
}

/// Bytes of new chunks after which a class is judged; it is judged again after half as many.
const WINDOW: u64 = 64 << 20;
/// A class gains enough if at least one byte in this many is in a chunk that resembles a stored
/// one. Below that, the bytes take more than 1/1.1 of the space they would take anyway.
const ALIKE_PART_MIN: u64 = 11;
/// In classes without gain, one chunk in this many is sketched, because they may gain again.
pub(crate) const SAMPLE_EVERY: u64 = 16;

/// Gain of each class so far.
pub(crate) struct Sampling(Vec<ClassGain>);

#[derive(Default)]
struct ClassGain {
    looked_at: AtomicU64,
    alike: AtomicU64,
    /// Whether the class gained too little, so that only a sample of its chunks is sketched.
    is_sampled: AtomicBool,
}

impl Sampling {
    pub(crate) fn new() -> Sampling {
        Sampling((0..=u8::MAX).map(|_| ClassGain::default()).collect())
    }

    /// Returns whether only a sample of this class's chunks is sketched.
    pub(crate) fn is_sampled(&self, kind: FileClass) -> bool {
        self.0[usize::from(kind.0)].is_sampled.load(Ordering::Relaxed)
    }

    /// Records whether a sketched new chunk resembles a stored one. Must be called by one thread at
    /// a time.
    pub(crate) fn note(&self, kind: FileClass, bytes: u64, is_alike: bool) {
        if kind == FileClass::NEW {
            return;
        }
        let gain = &self.0[usize::from(kind.0)];
        let looked_at = gain.looked_at.load(Ordering::Relaxed) + bytes;
        let alike = gain.alike.load(Ordering::Relaxed) + if is_alike { bytes } else { 0 };
        let window = if gain.is_sampled.load(Ordering::Relaxed) {
            WINDOW / SAMPLE_EVERY
        } else {
            WINDOW
        };
        let is_judged = looked_at >= window;
        if is_judged {
            gain.is_sampled
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
            inode_flags: Default::default(),
            xattrs: Vec::new(),
        }
    }

    #[test]
    fn files_that_have_changed_have_a_kind_by_the_end_of_their_name() {
        let mut kinds = FileClasses::default();
        let former = file(1);
        let mut of = |name: &str| kinds.of(name.as_bytes(), Some(&former));
        let log = of("first.log");
        assert_ne!(log, FileClass::NEW);
        assert_eq!(of("second.log"), log);
        assert_ne!(of("second.sql"), log);
        assert_eq!(of("Makefile"), of(".profile"));
        assert_eq!(of("a name.without one"), of("Makefile"));
        assert_eq!(of("a name.without one"), of("another. that is a sentence"));
        let many: Vec<FileClass> = (0..1000).map(|n| of(&format!("file.{n}"))).collect();
        assert_eq!(many[999], FileClass::OTHERS);
        assert_eq!(of("third.log"), log);
        assert_eq!(kinds.of(b"first.log", None), FileClass::NEW);
        assert_eq!(
            kinds.of(b"first.log", Some(&file(0))),
            FileClass::NEW,
            "nothing could be like that"
        );
    }

    #[test]
    fn a_kind_is_given_up_after_a_window_without_gain_and_taken_up_with_the_next_gain() {
        let sampling = Sampling::new();
        let (log, sql) = (FileClass(1), FileClass(2));
        let chunk = 64 << 10;
        let mut chunks = 0;
        while !sampling.is_sampled(log) {
            sampling.note(log, chunk, chunks % 12 == 0);
            sampling.note(sql, chunk, chunks % 10 == 0);
            sampling.note(FileClass::NEW, chunk, false);
            chunks += 1;
        }
        assert_eq!(chunks * chunk, WINDOW);
        (0..10 * chunks).for_each(|n| sampling.note(sql, chunk, n % 10 == 0));
        assert!(!sampling.is_sampled(sql) && !sampling.is_sampled(FileClass::NEW));
        let mut chunks = 0;
        while sampling.is_sampled(log) {
            sampling.note(log, chunk, true);
            chunks += 1;
        }
        assert!(chunks * chunk <= WINDOW / SAMPLE_EVERY, "of what is still looked at");
    }
}
