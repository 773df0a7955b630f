//! Which of some things was not used for longest?

use std::collections::{BTreeMap, HashMap};

/// Things by number, in the order of their last use.
#[derive(Default)]
pub(crate) struct Recency {
    /// With the time of last use.
    times: HashMap<u32, u64>,
    order: BTreeMap<u64, u32>,
    clock: u64,
}

impl Recency {
    /// Whether it is there. That is no use of it.
    pub(crate) fn contains(&self, number: u32) -> bool {
        self.times.contains_key(&number)
    }

    /// One is used, or comes in.
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

    /// Takes out those that were not used for longest, until there are so many at most.
    pub(crate) fn shrink(&mut self, most: usize) {
        while self.times.len() > most {
            self.pop_oldest();
        }
    }

    /// Takes out the one that was not used for longest.
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
