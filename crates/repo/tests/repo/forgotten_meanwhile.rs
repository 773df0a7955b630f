//! A snapshot is forgotten while a prune is at work: it keeps its data, or it is gone for good.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};

use ibid_repo::{Limit, PruneOptions, ReadData, Repository};
use ibid_storage::{Error, Memory, Name, Storage};

use crate::support::damage::{image, storage};
use crate::support::hooked::{Hooked, Hooks};
use crate::support::{Folder, backup, noise, quick};
use crate::writers::{self, restores};

fn options() -> PruneOptions {
    PruneOptions::default().max_unused(Limit::Bytes(0))
}

/// Another process forgets a snapshot at one of the calls, and is killed before the removal of its file is durable.
struct ForgottenAt {
    storage: Arc<Memory>,
    call: usize,
    calls: AtomicUsize,
    snapshot: Name,
    /// What a loss of power brings back.
    removed: Mutex<Option<Vec<u8>>>,
}

impl ForgottenAt {
    fn call(&self) {
        if self.calls.fetch_add(1, Ordering::Relaxed) != self.call {
            return;
        }
        let bytes = self.storage.get(&self.snapshot, u64::MAX).unwrap();
        let copy = self.snapshot.as_str().replace("snapshots/", "forgotten/");
        self.storage.put(&Name::new(&copy).unwrap(), &[&bytes]).unwrap();
        self.storage.delete(&self.snapshot).unwrap();
        *self.removed.lock().unwrap() = Some(bytes);
    }
}

impl Hooks for ForgottenAt {
    fn inner(&self) -> &dyn Storage {
        self.call();
        self.storage.as_ref()
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        self.call();
        if *name == self.snapshot {
            *self.removed.lock().unwrap() = None;
        }
        self.storage.delete(name)
    }
}

#[test]
fn after_a_loss_of_power_no_forgotten_snapshot_is_back_whose_data_is_gone() {
    let made = Arc::new(Memory::new());
    let repository = Repository::init(made.clone(), Some(b"secret"), &quick()).unwrap();
    let mut snapshots = Vec::new();
    for seed in 0..2 {
        let folder = Folder::scratch();
        folder.write("file", &noise(seed, 50_000));
        snapshots.push(backup(&repository, folder.path()).id.unwrap());
    }
    let image = image(made.as_ref());
    let (mut call, mut freed, mut came_back) = (0, 0, 0);
    loop {
        let storage = storage(&image);
        let meanwhile = Arc::new(Hooked(ForgottenAt {
            storage: storage.clone(),
            call,
            calls: AtomicUsize::new(0),
            snapshot: Name::new(&format!("snapshots/{}", snapshots[0])).unwrap(),
            removed: Mutex::default(),
        }));
        let summary = Repository::open(meanwhile.clone(), Some(b"secret"))
            .unwrap()
            .prune(&options())
            .unwrap();
        freed += summary.packs_deleted;
        let removed = meanwhile.removed.lock().unwrap().take();
        came_back += usize::from(removed.is_some());
        if let Some(bytes) = removed {
            storage.put(&meanwhile.snapshot, &[&bytes]).unwrap();
        }
        let report = Repository::open(storage, Some(b"secret")).unwrap().check(ReadData::All);
        assert!(report.unwrap().is_clean(), "forgotten at call {call}");
        if meanwhile.calls.load(Ordering::Relaxed) <= call {
            break;
        }
        call += 1;
    }
    assert!(
        freed > 0 && came_back > 0,
        "{freed} packs freed, {came_back} of {call} came back"
    );
}

/// The snapshot of a writer arrives when a prune has just listed what was forgotten.
struct Arrives {
    storage: Arc<dyn Storage>,
    snapshot: (Name, Vec<u8>),
    once: Once,
}

impl Hooks for Arrives {
    fn inner(&self) -> &dyn Storage {
        self.storage.as_ref()
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        let listed = self.storage.list(folder, each);
        if folder.ends_with("/forgotten") {
            let (name, bytes) = &self.snapshot;
            self.once.call_once(|| self.storage.put(name, &[bytes]).unwrap());
        }
        listed
    }
}

/// Who has the key of a writer knows the ids of its snapshots before they are stored.
#[test]
fn what_a_writer_says_was_forgotten_has_no_snapshot_deleted_that_is_about_to_be_stored() {
    for is_signed in [true, false] {
        let scene = writers::Scene::new();
        let id = scene.back_up();
        let name = |folder: &str| Name::new(&format!("written/{}/{folder}/{id}", scene.laptop.id())).unwrap();
        let bytes = scene.storage.get(&name("snapshots"), u64::MAX).unwrap();
        scene.storage.delete(&name("snapshots")).unwrap();
        let planted = if is_signed { bytes.clone() } else { noise(1, 500) };
        scene.storage.put(&name("forgotten"), &[&planted]).unwrap();
        let arrives = Hooked(Arrives {
            storage: scene.storage.clone(),
            snapshot: (name("snapshots"), bytes),
            once: Once::new(),
        });
        let keeper = Repository::open(Arc::new(arrives), Some(b"secret")).unwrap();
        keeper.writer("laptop").unwrap().prune(&options()).unwrap();
        restores(&scene.repository.writer("laptop").unwrap(), &scene.folder);
    }
}
