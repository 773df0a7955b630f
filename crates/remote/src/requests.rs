//! How many requests there were, of which kind.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::{Method, Uri};

/// The requests that a storage has sent, and the bytes of bodies that went both ways.
///
/// Servers charge by kind. What was tried again counts each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requests {
    /// Objects stored.
    pub put: u64,
    /// Objects, or parts of them, read.
    pub get: u64,
    /// Objects asked for their size.
    pub head: u64,
    /// Pages of lists, of up to 1000 objects each.
    pub list: u64,
    /// Requests to delete objects. One may be about many.
    pub delete: u64,
    /// Objects that the service was asked to thaw.
    pub thaw: u64,
    /// Other requests, as for credentials.
    pub other: u64,
    /// How many of all these were tried again, because there was no answer or one that asked for it.
    pub again: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
}

impl Requests {
    /// Returns how many requests there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.put + self.get + self.head + self.list + self.delete + self.thaw + self.other
    }

    /// Returns these and others together.
    #[must_use]
    pub fn and(self, others: Requests) -> Requests {
        Requests {
            put: self.put + others.put,
            get: self.get + others.get,
            head: self.head + others.head,
            list: self.list + others.list,
            delete: self.delete + others.delete,
            thaw: self.thaw + others.thaw,
            other: self.other + others.other,
            again: self.again + others.again,
            sent_bytes: self.sent_bytes + others.sent_bytes,
            received_bytes: self.received_bytes + others.received_bytes,
        }
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Put,
    Get,
    Head,
    List,
    Delete,
    Thaw,
    Other,
}

impl Kind {
    pub(crate) fn of(method: &Method, uri: &Uri) -> Kind {
        let has = |part| {
            uri.query()
                .is_some_and(|query| query.split('&').any(|found| found == part))
        };
        let lists = has("list-type=2") || has("versions") || has("comp=list");
        match *method {
            Method::PUT => Kind::Put,
            // In S3 and Google's dialect of it, then in Azure's.
            Method::GET if lists => Kind::List,
            Method::GET => Kind::Get,
            Method::HEAD => Kind::Head,
            Method::DELETE => Kind::Delete,
            // Of several objects: Azure's and S3's.
            Method::POST if has("comp=batch") || has("delete") => Kind::Delete,
            Method::POST if has("restore") => Kind::Thaw,
            _ => Kind::Other,
        }
    }
}

/// The numbers behind [`Requests`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    by_kind: [AtomicU64; 7],
    again: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Counters {
    pub(crate) fn request(&self, kind: Kind, again: bool) {
        self.by_kind[kind as usize].fetch_add(1, Relaxed);
        self.again.fetch_add(u64::from(again), Relaxed);
    }

    pub(crate) fn moved(&self, bytes: usize, up: bool) {
        let counter = if up { &self.sent } else { &self.received };
        counter.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn get(&self) -> Requests {
        let of = |kind: Kind| self.by_kind[kind as usize].load(Relaxed);
        Requests {
            put: of(Kind::Put),
            get: of(Kind::Get),
            head: of(Kind::Head),
            list: of(Kind::List),
            delete: of(Kind::Delete),
            thaw: of(Kind::Thaw),
            other: of(Kind::Other),
            again: self.again.load(Relaxed),
            sent_bytes: self.sent.load(Relaxed),
            received_bytes: self.received.load(Relaxed),
        }
    }
}
