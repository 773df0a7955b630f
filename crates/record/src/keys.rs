//! Keys without their records.

use std::ops::Bound;

use ibid_format::record::KeyEntry;

use crate::engine::KeyRange;
use crate::versions::Version;

/// A key, and its latest version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyState {
    /// The key.
    pub key: Vec<u8>,
    /// Its latest version. It is a deletion only in a namespace that keeps versions.
    pub latest: Version,
}

/// Which keys are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFilter {
    /// Keys that have a body.
    Live,
    /// Keys whose latest version is a deletion. A namespace that does not keep versions has none.
    Deleted,
    /// Both.
    All,
}

impl KeyFilter {
    pub(crate) fn takes(self, entry: &KeyEntry) -> bool {
        match self {
            KeyFilter::Live => !entry.deleted,
            KeyFilter::Deleted => entry.deleted,
            KeyFilter::All => true,
        }
    }
}

/// The keys that begin with the same bytes, as a range for [`Namespace::scan`](crate::Namespace::scan)
/// and [`Namespace::keys`](crate::Namespace::keys).
///
/// ```
/// use ibid_record::{Direction, KeyFilter, Options, Prefix, Store, Versions};
/// # let folder = tempfile::tempdir()?;
/// let store = Store::open(folder.path(), Options::default())?;
/// let pages = store.namespace("pages", Versions::Latest)?;
/// for key in ["a/1", "b/1", "b/2", "b0"] {
///     pages.insert(key.as_bytes(), b"")?;
/// }
/// let found = pages.keys(Prefix::new(b"b/").range(), Direction::Forward, KeyFilter::Live)?;
/// let found: Vec<_> = found.map(|found| found.map(|found| found.key)).collect::<Result<_, _>>()?;
/// assert_eq!(found, [b"b/1", b"b/2"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    from: Vec<u8>,
    to: Bound<Vec<u8>>,
}

impl Prefix {
    /// Returns the keys that begin with `prefix`; all keys if it is empty.
    pub fn new(prefix: &[u8]) -> Self {
        // The next key that does not begin with it ends one byte higher.
        let to = match prefix.iter().rposition(|&byte| byte < 0xff) {
            None => Bound::Unbounded,
            Some(last) => {
                let mut end = prefix[..=last].to_vec();
                end[last] += 1;
                Bound::Excluded(end)
            }
        };
        let from = prefix.to_vec();
        Prefix { from, to }
    }

    /// Returns the range of these keys.
    pub fn range(&self) -> KeyRange<'_> {
        (Bound::Included(&self.from), self.to.as_ref().map(Vec::as_slice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_what_no_longer_begins_so() {
        let end = |prefix: &[u8]| Prefix::new(prefix).to;
        assert_eq!(end(b""), Bound::Unbounded);
        assert_eq!(end(b"\xff\xff"), Bound::Unbounded);
        assert_eq!(end(b"ab"), Bound::Excluded(b"ac".to_vec()));
        assert_eq!(end(b"a\xff\xff"), Bound::Excluded(b"b".to_vec()));
    }
}
