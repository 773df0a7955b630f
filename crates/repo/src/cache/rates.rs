//! How fast the storage was.

use std::io::Read;

use super::Cache;
use crate::Repository;

/// A file with two lines of text: `sent 1000000`, `received 5000000`.
pub(super) const RATES: &str = "rates";
const SIZE_MAX: u64 = 100;

/// How fast bytes moved between this machine and a storage, in earlier commands that moved many: bytes a second, 0 if
/// there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// To the storage.
    pub sent: u64,
    /// From the storage.
    pub received: u64,
}

impl Rates {
    fn parse(text: &str) -> Option<Rates> {
        let mut lines = text.lines();
        let mut rate = |name| lines.next()?.strip_prefix(name)?.parse().ok();
        Some(Rates {
            sent: rate("sent ")?,
            received: rate("received ")?,
        })
    }
}

impl Repository {
    /// Returns the rates that the local cache remembers. They only say how long something may take.
    pub fn rates(&self) -> Rates {
        let rates = self.cache.as_ref().and_then(Cache::rates);
        rates.unwrap_or_default()
    }

    /// Remembers rates in the local cache, if there is one that can be written to.
    pub fn remember_rates(&self, rates: Rates) {
        if let Some(cache) = &self.cache {
            cache.remember_rates(rates);
        }
    }
}

impl Cache {
    fn rates(&self) -> Option<Rates> {
        let mut text = String::new();
        let file = std::fs::File::open(self.folder().join(RATES)).ok()?;
        file.take(SIZE_MAX).read_to_string(&mut text).ok()?;
        Rates::parse(&text)
    }

    fn remember_rates(&self, rates: Rates) {
        let text = format!("sent {}\nreceived {}\n", rates.sent, rates.received);
        // Without them, it is not known how long something takes.
        let _ = self.write_bytes("", &self.folder().join(RATES), text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_remembered_and_nonsense_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), ibid_format::FileId::random());
        assert_eq!(cache.rates(), None);
        let rates = Rates {
            sent: 5,
            received: u64::MAX,
        };
        cache.remember_rates(rates);
        assert_eq!(cache.rates(), Some(rates));
        for text in [
            "",
            "sent 1",
            "received 1\nsent 1\n",
            "sent -1\nreceived 2\n",
            "sent 1\nreceived x",
        ] {
            std::fs::write(cache.folder().join(RATES), text).unwrap();
            assert_eq!(cache.rates(), None, "{text}");
        }
        cache.remember_rates(rates);
        assert_eq!(cache.clear().unwrap().0, 1);
    }
}
