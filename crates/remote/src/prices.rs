//! What services charge for requests and for what they send.

use ibid_storage::{Thaw, ThawTier};

use crate::{Address, Requests, Service};

/// What a service charges, in its currency. What it charges for keeping objects is not in it, and neither are free
/// amounts of a month, which other programs may have used.
///
/// ```
/// use ibid_remote::{Prices, Requests};
/// let prices = Prices::of(&"s3://backups".parse()?, None).expect("Amazon's are known");
/// let mut asked = Requests::default();
/// (asked.put, asked.received_bytes) = (2000, 10_000_000_000);
/// assert!((prices.cost(&asked) - (0.01 + 0.90)).abs() < 1e-9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Prices {
    /// What they are the prices of: `Amazon S3, us-east-1`.
    pub name: String,
    /// The day on which they were looked up, or are from: `2026-11-26`.
    pub date: String,
    /// Where they are from, a URL.
    pub source: String,
    /// What comes before an amount, or a code such as `EUR`.
    pub currency: String,
    /// 1000 objects stored.
    pub put: f64,
    /// 1000 objects, or parts of them, read.
    pub get: f64,
    /// 1000 objects asked for their size.
    pub head: f64,
    /// 1000 pages of lists.
    pub list: f64,
    /// 1000 objects deleted.
    pub delete: f64,
    /// A gigabyte sent to the service.
    pub sent: f64,
    /// A gigabyte received from the service, over the internet.
    pub received: f64,
    /// Bytes of a gigabyte.
    pub gigabyte: u64,
    /// A gigabyte in the usual class for a month: copies of what is thawed are there.
    pub stored: f64,
    /// What it costs to thaw objects of archive classes. What is not in it is not known.
    pub thaw: Vec<ThawPrice>,
}

/// What it costs to thaw objects of a class in a tier.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ThawPrice {
    /// The class, as the service calls it.
    pub class: String,
    /// How fast.
    pub tier: ThawTier,
    /// 1000 objects.
    pub requests: f64,
    /// A gigabyte.
    pub gigabyte: f64,
}

impl ThawPrice {
    /// Returns a price: for 1000 objects, and for a gigabyte.
    #[must_use]
    pub fn new(class: impl Into<String>, tier: ThawTier, requests: f64, gigabyte: f64) -> ThawPrice {
        ThawPrice {
            class: class.into(),
            tier,
            requests,
            gigabyte,
        }
    }
}

/// Returns in how many hours, at most and as a rule, Amazon thaws objects of a class; `None` if it does not in this
/// tier.
///
/// ```
/// use ibid_storage::ThawTier;
/// assert_eq!(ibid_remote::thaw_hours("DEEP_ARCHIVE", ThawTier::Bulk), Some(48.0));
/// assert_eq!(ibid_remote::thaw_hours("DEEP_ARCHIVE", ThawTier::Expedited), None);
/// ```
#[must_use]
pub fn thaw_hours(class: &str, tier: ThawTier) -> Option<f64> {
    match (class, tier) {
        ("GLACIER", ThawTier::Bulk) => Some(12.0),
        ("GLACIER", ThawTier::Standard) => Some(5.0),
        ("GLACIER", ThawTier::Expedited) => Some(0.1),
        ("DEEP_ARCHIVE", ThawTier::Bulk) => Some(48.0),
        ("DEEP_ARCHIVE", ThawTier::Standard) => Some(12.0),
        _ => None,
    }
}

/// A month, days.
const MONTH: f64 = 30.0;
/// What a thawed copy of Amazon's is kept as, a gigabyte for a month.
const AMAZON_STORED: f64 = 0.023;
/// What Amazon charges for 1000 objects, and for a gigabyte. It was found where it explains its bills, and for the
/// class `DEEP_ARCHIVE` where others repeat its list.
const AMAZON_THAW: [(&str, ThawTier, f64, f64); 5] = [
    ("GLACIER", ThawTier::Bulk, 0.025, 0.0),
    ("GLACIER", ThawTier::Standard, 0.05, 0.01),
    ("GLACIER", ThawTier::Expedited, 10.0, 0.03),
    ("DEEP_ARCHIVE", ThawTier::Bulk, 0.025, 0.0025),
    ("DEEP_ARCHIVE", ThawTier::Standard, 0.10, 0.02),
];

/// Prices in dollars: for a thousand puts, gets, heads, lists and deletes, then for a gigabyte received.
struct Known {
    name: &'static str,
    /// How names of its hosts end.
    hosts: &'static [&'static str],
    date: &'static str,
    source: &'static str,
    requests: [f64; 5],
    received: f64,
    gigabyte: u64,
}

const GB: u64 = 1_000_000_000;
const GIB: u64 = 1 << 30;

/// Prices of the usual class of storage, as they were found on these days. Of prices by steps it is the first that is
/// not free.
const KNOWN: [Known; 6] = [
    Known {
        name: "Amazon S3, us-east-1",
        hosts: &[".amazonaws.com"],
        date: "2026-11-23",
        source: "https://aws.amazon.com/s3/pricing/",
        requests: [0.005, 0.0004, 0.0004, 0.005, 0.0],
        received: 0.09,
        gigabyte: GB,
    },
    Known {
        name: "Cloudflare R2",
        hosts: &[".r2.cloudflarestorage.com"],
        date: "2026-11-26",
        source: "https://developers.cloudflare.com/r2/pricing/",
        requests: [0.0045, 0.000_36, 0.000_36, 0.0045, 0.0],
        received: 0.0,
        gigabyte: GB,
    },
    Known {
        name: "Backblaze B2",
        hosts: &[".backblazeb2.com"],
        date: "2026-11-23",
        source: "https://www.backblaze.com/b2/b2-transactions-price.html",
        requests: [0.0, 0.0004, 0.0004, 0.004, 0.0],
        received: 0.01,
        gigabyte: GB,
    },
    Known {
        name: "Google Cloud Storage, one region",
        hosts: &["storage.googleapis.com"],
        date: "2026-11-26",
        source: "https://cloud.google.com/storage/pricing-examples",
        requests: [0.005, 0.0004, 0.0004, 0.005, 0.0],
        received: 0.12,
        gigabyte: GIB,
    },
    Known {
        name: "Azure Blob Storage, hot",
        hosts: &[".blob.core.windows.net"],
        // Microsoft's samples of prices, and what others say of traffic.
        date: "2024-07-26",
        source: "https://learn.microsoft.com/azure/storage/blobs/blob-storage-estimate-costs",
        requests: [0.0055, 0.000_44, 0.000_44, 0.0055, 0.0],
        received: 0.087,
        gigabyte: GB,
    },
    Known {
        name: "Wasabi",
        hosts: &[".wasabisys.com"],
        date: "2026-11-26",
        source: "https://wasabi.com/pricing/pricing-faqs",
        requests: [0.0; 5],
        received: 0.0,
        gigabyte: GB,
    },
];

impl Known {
    fn prices(&self) -> Prices {
        let [put, get, head, list, delete] = self.requests;
        let is_amazon = self.name.starts_with("Amazon");
        Prices {
            name: self.name.to_owned(),
            date: self.date.to_owned(),
            source: self.source.to_owned(),
            currency: "$".to_owned(),
            put,
            get,
            head,
            list,
            delete,
            sent: 0.0,
            received: self.received,
            gigabyte: self.gigabyte,
            stored: if is_amazon { AMAZON_STORED } else { 0.0 },
            thaw: match is_amazon {
                true => AMAZON_THAW
                    .map(|(class, tier, requests, gigabyte)| ThawPrice::new(class, tier, requests, gigabyte))
                    .to_vec(),
                false => Vec::new(),
            },
        }
    }
}

impl Default for Prices {
    /// Returns prices of which all are zero, in dollars.
    fn default() -> Prices {
        Prices {
            name: String::new(),
            date: String::new(),
            source: String::new(),
            currency: "$".to_owned(),
            put: 0.0,
            get: 0.0,
            head: 0.0,
            list: 0.0,
            delete: 0.0,
            sent: 0.0,
            received: 0.0,
            gigabyte: GB,
            stored: 0.0,
            thaw: Vec::new(),
        }
    }
}

impl Prices {
    /// Returns the prices of the service that is reached at an address, if this program knows them. `endpoint` is the
    /// URL of the server, if it is not the one of the service.
    #[must_use]
    pub fn of(address: &Address, endpoint: Option<&str>) -> Option<Prices> {
        let host = endpoint.map(|endpoint| {
            let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
            rest.split(['/', ':']).next().unwrap_or_default().to_ascii_lowercase()
        });
        let host = host.as_deref().unwrap_or(match address.service() {
            Service::S3 => "s3.amazonaws.com",
            Service::Google => "storage.googleapis.com",
            Service::Azure => "account.blob.core.windows.net",
        });
        let ends = |known: &&Known| known.hosts.iter().any(|end| host.ends_with(end));
        KNOWN.iter().find(ends).map(Known::prices)
    }

    /// Returns the prices that this program knows.
    #[must_use]
    pub fn known() -> Vec<Prices> {
        KNOWN.iter().map(Known::prices).collect()
    }

    /// Returns what it costs to thaw so many objects of a class, of so many bytes, and to have their copies for the
    /// days; `None` if that is not known.
    ///
    /// ```
    /// use ibid_remote::Prices;
    /// use ibid_storage::{Thaw, ThawTier};
    /// let prices = Prices::of(&"s3://backups".parse()?, None).expect("Amazon's are known");
    /// let thaw = Thaw::new(30, ThawTier::Bulk).expect("within the limits");
    /// let cost = prices.thaw("DEEP_ARCHIVE", 1000, 10_000_000_000, thaw).expect("as well");
    /// assert!((cost - (0.025 + 10.0 * 0.0025 + 10.0 * 0.023)).abs() < 1e-9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn thaw(&self, class: &str, objects: u64, bytes: u64, thaw: Thaw) -> Option<f64> {
        let is_it = |price: &&ThawPrice| price.class == class && price.tier == thaw.tier();
        let price = self.thaw.iter().find(is_it)?;
        let gigabytes = bytes as f64 / self.gigabyte.max(1) as f64;
        let copies = gigabytes * self.stored * f64::from(thaw.days()) / MONTH;
        Some(objects as f64 / 1000.0 * price.requests + gigabytes * price.gigabyte + copies)
    }

    /// Returns what these requests cost.
    #[must_use]
    pub fn cost(&self, requests: &Requests) -> f64 {
        let thousands = [
            (requests.put, self.put),
            (requests.get, self.get),
            (requests.head, self.head),
            (requests.list, self.list),
            (requests.delete, self.delete),
        ];
        let asked: f64 = thousands
            .iter()
            .map(|(count, price)| *count as f64 / 1000.0 * price)
            .sum();
        let gigabytes = |bytes: u64| bytes as f64 / self.gigabyte.max(1) as f64;
        asked + gigabytes(requests.sent_bytes) * self.sent + gigabytes(requests.received_bytes) * self.received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(address: &str, endpoint: Option<&str>) -> Option<String> {
        Prices::of(&address.parse().unwrap(), endpoint).map(|prices| prices.name)
    }

    #[test]
    fn a_service_is_told_by_its_host_and_others_have_no_prices() {
        let of = |endpoint| named("s3://bucket/a", Some(endpoint));
        assert_eq!(named("s3://bucket", None).as_deref(), Some("Amazon S3, us-east-1"));
        assert_eq!(
            of("https://s3.eu-west-1.amazonaws.com").as_deref(),
            Some("Amazon S3, us-east-1")
        );
        assert_eq!(
            of("https://abc.r2.cloudflarestorage.com").as_deref(),
            Some("Cloudflare R2")
        );
        assert_eq!(
            of("https://s3.us-west-004.backblazeb2.com/").as_deref(),
            Some("Backblaze B2")
        );
        assert_eq!(of("https://S3.wasabisys.com:443").as_deref(), Some("Wasabi"));
        assert_eq!(
            of("https://storage.googleapis.com").as_deref(),
            Some("Google Cloud Storage, one region")
        );
        assert_eq!(
            named("gs://bucket", None).as_deref(),
            Some("Google Cloud Storage, one region")
        );
        assert_eq!(named("az://box/a", None).as_deref(), Some("Azure Blob Storage, hot"));
        for other in [
            "http://127.0.0.1:9000",
            "https://amazonaws.com.example.org",
            "https://nas",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn each_kind_costs_its_own_price() {
        let prices = Prices {
            put: 1.0,
            get: 2.0,
            head: 4.0,
            list: 8.0,
            delete: 16.0,
            sent: 32.0,
            received: 64.0,
            gigabyte: 1000,
            ..Prices::default()
        };
        type Of = fn(&mut Requests) -> &mut u64;
        let kinds: [(Of, f64); 7] = [
            (|asked| &mut asked.put, 1.0),
            (|asked| &mut asked.get, 2.0),
            (|asked| &mut asked.head, 4.0),
            (|asked| &mut asked.list, 8.0),
            (|asked| &mut asked.delete, 16.0),
            (|asked| &mut asked.sent_bytes, 32.0),
            (|asked| &mut asked.received_bytes, 64.0),
        ];
        for (of, price) in kinds {
            let mut asked = Requests::default();
            *of(&mut asked) = 1000;
            assert_eq!(prices.cost(&asked), price);
        }
    }

    #[test]
    fn known_prices_say_when_they_were_found_and_where() {
        for prices in Prices::known() {
            let day: Vec<usize> = prices.date.split('-').map(str::len).collect();
            assert_eq!(day, [4, 2, 2], "{prices:?}");
            assert!(prices.source.starts_with("https://"), "{prices:?}");
        }
    }
}
