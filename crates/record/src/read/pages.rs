//! Reading a range of a table a page at a time, as an iterator needs it.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};

use super::view::{PAGE, View};
use crate::engine::{Direction, Table};
use crate::error::Error;

/// The rest of a range of a table, and what was read of it ahead.
pub(super) struct Pages<V, T> {
    view: V,
    table: Table,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    direction: Direction,
    page: VecDeque<T>,
    ended: bool,
}

impl<V: Borrow<View>, T> Pages<V, T> {
    pub(super) fn new(view: V, table: Table, range: (Bound<Vec<u8>>, Bound<Vec<u8>>), direction: Direction) -> Self {
        let (from, to) = range;
        Pages {
            view,
            table,
            from,
            to,
            direction,
            page: VecDeque::new(),
            ended: false,
        }
    }

    pub(super) fn view(&self) -> &View {
        self.view.borrow()
    }

    /// Returns the next of what `decode` makes of the pairs of the range, without those of which it makes nothing.
    pub(super) fn next(
        &mut self,
        decode: impl Fn(&[u8], &[u8]) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        while self.page.is_empty() && !self.ended {
            self.read_page(&decode)?;
        }
        Ok(self.page.pop_front())
    }

    /// Reads no further page, so that a loop over a failing iterator ends.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    fn read_page(&mut self, decode: impl Fn(&[u8], &[u8]) -> Result<Option<T>, Error>) -> Result<(), Error> {
        let (mut last, mut seen) = (None, 0);
        let mut decoded = Ok(());
        let page = &mut self.page;
        let mut each = |key: &[u8], value: &[u8]| {
            last = Some(key.to_vec());
            seen += 1;
            decoded = decode(key, value).map(|found| page.extend(found));
            if decoded.is_err() || seen == PAGE {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let as_slice = |bound| Bound::map(bound, Vec::as_slice);
        let range = (as_slice(self.from.as_ref()), as_slice(self.to.as_ref()));
        let engine = &self.view.borrow().engine;
        engine.range(self.table, range, self.direction, &mut each)?;
        if decoded.is_err() {
            self.page.clear();
            return decoded;
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
