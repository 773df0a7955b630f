//! Recording and replaying the answers of a table, so that a second pass measures the search for
//! boundaries without naming and lookups.

use ibid_chunk::locality::{Entered, Fingerprint, Hint, Known, Table, TableEntry, TableWith};

/// The answers of a table for one piece of data, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    found: Vec<Entered<TableEntry>>,
    /// For every fingerprint, whether it was computed in vain.
    vain: Vec<bool>,
}

impl Answers {
    pub(super) fn clear(&mut self) {
        self.found.clear();
        self.vain.clear();
    }
}

/// A table whose answers are recorded.
pub(super) struct Recorder<'a, F> {
    pub(super) table: TableWith<'a, F>,
    pub(super) answers: &'a mut Answers,
    /// Whether hints are refused even if they hold. A fingerprint is then needed only if the chunk
    /// is inserted by it.
    pub(super) refuses_all: bool,
}

impl<F: FnMut(&[u8]) -> [u8; 16]> Known for Recorder<'_, F> {
    /// The fingerprint, and its index in [`Answers::vain`].
    type Fingerprint = (Fingerprint, usize);
    type Entry = TableEntry;

    fn fingerprint(&mut self, chunk: &[u8]) -> (Fingerprint, usize) {
        self.answers.vain.push(true);
        (self.table.fingerprint(chunk), self.answers.vain.len() - 1)
    }

    fn find_cut(&mut self, (fingerprint, number): &(Fingerprint, usize), after: TableEntry) -> Option<TableEntry> {
        let entry = self.table.find_cut(fingerprint, after);
        if entry.is_some() && !self.refuses_all {
            self.answers.vain[*number] = false;
        }
        let is_duplicate = entry.is_some();
        self.answers.found.push(Entered { entry, is_duplicate });
        entry
    }

    fn enter(
        &mut self,
        (fingerprint, number): (Fingerprint, usize),
        after: Option<TableEntry>,
        at_end: bool,
    ) -> Entered<TableEntry> {
        self.answers.vain[number] = false;
        let found = self.table.enter(fingerprint, after, at_end);
        self.answers.found.push(found);
        found
    }

    fn hint(&mut self, entry: TableEntry, place: usize) -> Option<Hint> {
        self.table.hint(entry, place)
    }

    fn note(&mut self, entry: TableEntry, hint: Hint) {
        self.table.note(entry, hint);
    }
}

/// The recorded answers, over a table that has only the hints.
pub(super) struct Replay<'a> {
    hints: &'a Table,
    found: std::slice::Iter<'a, Entered<TableEntry>>,
    vain: std::slice::Iter<'a, bool>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(hints: &'a Table, answers: &'a Answers) -> Replay<'a> {
        Replay {
            hints,
            found: answers.found.iter(),
            vain: answers.vain.iter(),
        }
    }

    fn next(&mut self) -> Entered<TableEntry> {
        *self.found.next().expect("the same questions in the same order")
    }
}

impl Known for Replay<'_> {
    type Fingerprint = ();
    type Entry = TableEntry;

    #[inline]
    fn fingerprint(&mut self, chunk: &[u8]) {
        if self.vain.next() == Some(&true) {
            std::hint::black_box(blake3::hash(chunk));
        }
    }

    #[inline]
    fn find_cut(&mut self, (): &(), _: TableEntry) -> Option<TableEntry> {
        self.next().entry
    }

    #[inline]
    fn enter(&mut self, (): (), _: Option<TableEntry>, _: bool) -> Entered<TableEntry> {
        self.next()
    }

    #[inline]
    fn hint(&mut self, entry: TableEntry, place: usize) -> Option<Hint> {
        self.hints.hint(entry, place)
    }

    #[inline]
    fn note(&mut self, entry: TableEntry, hint: Hint) {
        self.hints.note(entry, hint);
    }
}
