//! A store on a simulated disk, which ends and is opened again.

use std::path::Path;

use ibid_record::engine::Redb;
use ibid_record::{Options, Role, Store};

use super::disk::Disk;

/// How a store ends before it is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Close,
    Kill,
    PowerFailure,
}

pub(crate) struct Node {
    pub(crate) disk: Disk,
    pub(crate) options: Options,
    pub(crate) store: Option<Store>,
}

impl Node {
    pub(crate) fn new(options: Options) -> Self {
        let mut node = Node {
            disk: Disk::default(),
            options,
            store: None,
        };
        node.open();
        node
    }

    pub(crate) fn engine(&self) -> Redb {
        self.disk.engine(1 << 20)
    }

    fn open(&mut self) {
        let engine = Box::new(self.engine());
        self.store = Some(Store::with_engine(Path::new("disk"), engine, self.options).unwrap());
    }

    pub(crate) fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    pub(crate) fn role(&self) -> Role {
        self.store().log().unwrap().unwrap().role
    }

    pub(crate) fn is_copying(&self) -> bool {
        matches!(self.role(), Role::Incomplete { .. })
    }

    pub(crate) fn position(&self) -> u64 {
        self.store().log().unwrap().unwrap().next
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.store().log().unwrap().unwrap().epoch
    }

    /// Ends the store, and opens what that leaves on the disk.
    pub(crate) fn restart(&mut self, end: End, below: &mut dyn FnMut(u64) -> u64) {
        let left = match end {
            End::Close => None,
            End::Kill => Some(self.disk.after_a_kill()),
            End::PowerFailure => Some(self.disk.after_power_failure(below)),
        };
        self.store = None;
        if let Some(left) = left {
            self.disk = left;
        }
        self.open();
    }
}
