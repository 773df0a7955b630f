//! Least-recently-used order.

use std::collections::{BTreeMap, HashMap};

/// Numbered items in the order of their last use.
#[derive(Default)]
pub(crate) struct Recency {
    /// Time of last use of each item.
    times: HashMap<u32, u64>,
    order: BTreeMap<u64, u32>,
    clock: u64,
}

impl Recency {
    /// Returns whether an item is present, without counting that as use.
    pub(crate) fn contains(&self, number: u32) -> bool {
        self.times.contains_key(&number)
    }

    /// Adds an item, or marks it as used.
    pub(crate) fn touch(&mut self, number: u32) {
        self.clock += 1;
        if let Some(before) = self.times.insert(number, self.clock) {
            self.order.remove(&before);
        }
        self.order.insert(self.clock, number);
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(time) = self.times.remove(&number) {
            self.order.remove(&time);
        }
    }

    /// Removes the least recently used items until at most `most` are left.
    pub(crate) fn shrink(&mut self, most: usize) {
        while self.times.len() > most {
            self.pop_oldest();
        }
    }

    /// Removes the least recently used item.
    pub(crate) fn pop_oldest(&mut self) -> Option<u32> {
        let (_, number) = self.order.pop_first()?;
        self.times.remove(&number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_go_in_the_order_of_their_last_use() {
        let mut recency = Recency::default();
        for number in [1, 2, 3, 1, 4] {
            recency.touch(number);
        }
        recency.remove(3);
        recency.remove(100);
        assert_eq!([1, 3].map(|number| recency.contains(number)), [true, false]);
        recency.shrink(3);
        let oldest: Vec<u32> = std::iter::from_fn(|| recency.pop_oldest()).collect();
        assert_eq!(oldest, [2, 1, 4]);
        [5, 6, 7].into_iter().for_each(|number| recency.touch(number));
        recency.shrink(2);
        assert_eq!([5, 6, 7].map(|number| recency.contains(number)), [false, true, true]);
    }
}
