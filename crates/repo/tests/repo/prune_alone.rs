//! In network folders a prune waits until all machines see the same; one that is alone waits for nothing.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ibid_repo::{Error, FileId, Limit, Monitor, PruneOptions, ReadData, Repository, Warning};
use ibid_storage::{Memory, Name, Storage};

use crate::support::deltas::Writer;
use crate::support::hooked::{Hooked, Hooks};
use crate::support::{Folder, backup, noise, quick};

/// A network folder as another machine sees it: sessions are not listed for a while.
struct NetworkFolder {
    inner: Memory,
    is_network: bool,
    /// For how long.
    hidden: Duration,
    stored: Mutex<HashMap<String, Instant>>,
}

impl NetworkFolder {
    fn new(is_network: bool, hidden: Duration) -> Arc<Hooked<NetworkFolder>> {
        Arc::new(Hooked(NetworkFolder {
            inner: Memory::new(),
            is_network,
            hidden,
            stored: Mutex::default(),
        }))
    }

    /// Stores a session of another machine.
    fn session(&self) -> FileId {
        let session = ibid_repo::Session {
            time: ibid_repo::Time::default(),
            host: "elsewhere".into(),
            user: "ada".into(),
            program: "a test".into(),
            action: "backup".into(),
            paths: vec![],
            process: ibid_repo::Process::default(),
        };
        let id = FileId::random();
        let keys = Writer::of(Arc::new(self.inner.clone())).keys;
        let name = Name::new(&format!("sessions/{id}")).unwrap();
        self.put(&name, &[&session.encode(&keys, id).unwrap()]).unwrap();
        id
    }
}

impl Hooks for NetworkFolder {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), ibid_storage::Error> {
        self.stored.lock().unwrap().insert(name.to_string(), Instant::now());
        self.inner.put(name, parts)
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), ibid_storage::Error> {
        self.inner.list(folder, &mut |name, size| {
            let stored = self.stored.lock().unwrap().get(name.as_str()).copied();
            let is_new = stored.is_some_and(|stored| stored.elapsed() < self.hidden);
            if !(is_new && name.as_str().starts_with("sessions/")) {
                each(name, size);
            }
        })
    }

    fn folder(&self) -> Option<PathBuf> {
        Some(PathBuf::from("/nowhere"))
    }

    fn is_remote(&self) -> bool {
        self.is_network
    }
}

/// Returns a repository with something to free.
fn with_garbage(storage: &Arc<Hooked<NetworkFolder>>) -> Repository {
    let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
    let folder = Folder::scratch();
    folder.write("stays", &noise(1, 100_000));
    backup(&repository, folder.path());
    folder.write("goes", &noise(2, 300_000));
    let id = backup(&repository, folder.path()).id.unwrap();
    repository.forget(&[id]).unwrap();
    repository
}

/// Prunes; returns the summary and the seconds that were announced before each wait.
fn prune(repository: &Repository, options: &PruneOptions) -> (ibid_repo::PruneSummary, Vec<u64>) {
    let waits = Arc::new(Mutex::new(Vec::new()));
    let heard = waits.clone();
    let monitor = Arc::new(Monitor::new(move |warning| {
        if let Warning::WaitsForCaches { seconds } = warning {
            heard.lock().unwrap().push(seconds);
        }
    }));
    let summary = repository.watched_by(&monitor).prune(options).unwrap();
    let waits = waits.lock().unwrap().clone();
    (summary, waits)
}

fn options(cache_age: Duration) -> PruneOptions {
    PruneOptions::default().max_unused(Limit::Bytes(0)).cache_age(cache_age)
}

#[test]
fn only_in_a_network_folder_a_prune_waits_and_says_so() {
    let age = Duration::from_secs(1);
    for (is_network, exclusive, expected) in [(true, false, vec![2]), (true, true, vec![]), (false, false, vec![])] {
        let repository = with_garbage(&NetworkFolder::new(is_network, Duration::ZERO));
        let begun = Instant::now();
        let (summary, waits) = prune(&repository, &options(age).exclusive(exclusive));
        assert_eq!(waits, expected, "network: {is_network}, exclusive: {exclusive}");
        assert_eq!(begun.elapsed() >= age * 2, !waits.is_empty());
        assert!(summary.freed() > 250_000, "{summary:?}");
        // There is nothing to wait for if nothing is condemned.
        assert!(prune(&repository, &options(age)).1.is_empty());
        assert!(repository.check(ReadData::All).unwrap().is_clean());
    }
    assert_eq!(PruneOptions::default().cache_age, Duration::from_secs(60));
}

#[test]
fn a_session_that_is_listed_late_is_waited_for() {
    let hidden = Duration::from_millis(600);
    for (age, is_met) in [(Duration::from_millis(400), true), (Duration::ZERO, false)] {
        let storage = NetworkFolder::new(true, hidden);
        let repository = with_garbage(&storage);
        let session = storage.session();
        let waiting = prune(&repository, &options(age)).0.waiting;
        let waiting: Vec<FileId> = waiting.iter().map(|waiting| waiting.id).collect();
        let expected = if is_met { vec![session] } else { vec![] };
        assert_eq!(waiting, expected, "what a wait is good for");
    }
}

/// The snapshot of a session that has ended may be listed late, too.
#[test]
fn a_prune_waits_once_more_after_a_session_has_ended() {
    let storage = NetworkFolder::new(true, Duration::ZERO);
    let repository = with_garbage(&storage);
    let session = storage.session();
    assert_eq!(prune(&repository, &options(Duration::ZERO)).0.waiting.len(), 1);
    storage
        .delete(&Name::new(&format!("sessions/{session}")).unwrap())
        .unwrap();
    let (summary, waits) = prune(&repository, &options(Duration::from_secs(1)));
    assert_eq!(waits, [1]);
    assert!(summary.packs_deleted > 0);
}

#[test]
fn a_wait_can_be_stopped() {
    let repository = with_garbage(&NetworkFolder::new(true, Duration::ZERO));
    let monitor = Arc::new(Monitor::default());
    let watched = repository.watched_by(&monitor);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| watched.prune(&options(Duration::from_secs(3600))));
        std::thread::sleep(Duration::from_millis(300));
        monitor.cancel();
        assert!(matches!(running.join().unwrap(), Err(Error::Interrupted)));
    });
}

#[test]
fn a_prune_that_is_to_be_alone_refuses_an_open_session() {
    let storage = NetworkFolder::new(false, Duration::ZERO);
    let repository = with_garbage(&storage);
    let session = storage.session();
    let exclusive = options(Duration::ZERO).exclusive(true);
    let error = repository.prune(&exclusive).unwrap_err();
    assert!(matches!(&error, Error::SessionOpen { session: named, .. } if *named == session));
    let text = error.to_string();
    assert!(
        text.contains(&session.to_string()[..8]) && text.contains("backup on elsewhere"),
        "{text}"
    );
    // One that can't be read may be open.
    let damaged = Name::new(&format!("sessions/{}", FileId::random())).unwrap();
    storage.put(&damaged, &[b"no session"]).unwrap();
    let given_up = exclusive.clone().give_up_on(vec![session]);
    assert!(matches!(repository.prune(&given_up), Err(Error::SessionOpen { .. })));
    storage.delete(&damaged).unwrap();
    assert!(repository.prune(&given_up).unwrap().freed() > 250_000);
    assert!(repository.check(ReadData::All).unwrap().is_clean());
}
