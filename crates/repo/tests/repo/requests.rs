//! How often a far storage is asked, however large the repository is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ibid_repo::scale::SyntheticIndex;
use ibid_repo::{MemoryStorage, Repository, Storage};
use ibid_storage::fault::Flaky;
use ibid_storage::{Error, Name};

use crate::support::hooked::{Hooked, Hooks};
use crate::support::{Folder, noise, quick, scratch};

/// Names in a page of a list.
const PAGE: u64 = 1000;

/// Counts requests as a server of objects does, of a repository most of whose packs are only listed.
struct Counted {
    inner: Flaky<Arc<MemoryStorage>>,
    index: SyntheticIndex,
    /// Requests beside those that [`Flaky`] counts: pages of lists after the first.
    pages: AtomicU64,
}

impl Counted {
    fn requests(&self) -> u64 {
        let counts = self.inner.counts();
        let calls = counts.put + counts.get + counts.read_at + counts.size + counts.list + counts.delete;
        calls + self.pages.load(Ordering::Relaxed)
    }
}

impl Hooks for Counted {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        let mut listed: u64 = 0;
        self.inner.list(folder, &mut |name, size| {
            listed += 1;
            each(name, size);
        })?;
        if folder == "packs" {
            for (id, size) in (0..self.index.packs()).map(|number| self.index.pack(number)) {
                listed += 1;
                let hex = id.to_string();
                each(Name::new(&format!("packs/{}/{hex}", &hex[..2])).unwrap(), size);
            }
        }
        self.pages
            .fetch_add(listed.max(1).div_ceil(PAGE) - 1, Ordering::Relaxed);
        Ok(())
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// Makes backups into a repository of so many chunks, and returns what each took: the first one, one of the same, one
/// with a changed file, and one without a cache.
fn requests_of_backups(chunks: u64) -> [u64; 4] {
    let index = SyntheticIndex { chunks };
    let memory = Arc::new(MemoryStorage::new());
    Repository::init(memory.clone(), Some(b"secret"), &quick()).unwrap();
    let storage = Arc::new(Hooked(Counted {
        inner: Flaky::new(memory),
        index,
        pages: AtomicU64::new(0),
    }));
    let cache = scratch();
    let open = || Repository::open(storage.clone(), Some(b"secret")).unwrap();
    index.write(&open().with_cache(cache.path()), |_| {}).unwrap();
    let folder = Folder::new();
    for number in 0..100 {
        folder.write(number.to_string(), &noise(number, 5000));
    }
    // Files whose times are settled are not read again.
    std::thread::sleep(std::time::Duration::from_millis(50));
    let of = |open: &dyn Fn() -> Repository| {
        let before = storage.0.requests();
        let options = ibid_repo::BackupOptions::default()
            .path(folder.path())
            .similarity(ibid_repo::Similarity::Off);
        let packs = open().backup(&options).unwrap().packs;
        (storage.0.requests() - before, packs)
    };
    let cached = || open().with_cache(cache.path());
    let (first, _) = of(&cached);
    // Those after it may store times of folders that were too new for it.
    let nothing_new = std::iter::repeat_with(|| of(&cached)).find(|(_, packs)| *packs == 0);
    let (again, _) = nothing_new.unwrap();
    folder.write("7", &noise(1000, 5000));
    let (changed, _) = of(&cached);
    [first, again, changed, of(&open).0]
}

/// What a backup of a changed file asks more if it looks for similar data: a list of sketches, one of its own that it
/// stores, and frames that are not kept.
#[test]
fn a_backup_takes_as_many_requests_in_a_large_repository() {
    let [first, again, changed, _] = requests_of_backups(1000);
    let [first_of_many, again_of_many, changed_of_many, without_cache] = requests_of_backups(400_000);
    assert!(again <= 15 && changed <= 17, "{again} {changed}");
    assert_eq!(
        (again_of_many, changed_of_many),
        (again - 1, changed - 1),
        "packs are not listed"
    );
    // 3125 packs.
    assert_eq!(first_of_many, first + 3);
    assert!(without_cache >= changed + 3, "{without_cache}");
}

#[test]
#[ignore = "takes 180 MB of memory or disk"]
fn a_backup_among_ten_million_chunks_takes_twelve_requests_if_nothing_is_new() {
    let [first, again, changed, _] = requests_of_backups(10_000_000);
    // 78 125 packs are listed once a day.
    assert_eq!((first, again, changed), (94, 12, 15));
}
