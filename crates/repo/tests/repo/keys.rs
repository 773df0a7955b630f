//! Key slots: a password that opens the repository is never lost, and one that was replaced no
//! longer opens it.

use std::sync::{Arc, Once};

use ibid_format::slot::{self, Argon2Cost, MEMORY_KIB_ALLOWED, Note, Slot};
use ibid_format::{FileId, Keys};
use ibid_repo::{Error, KeyOptions, ReadData, Repository};
use ibid_storage::{Memory, Name, Storage};

use crate::support;
use crate::support::damage::{image, kind, storage};
use crate::support::hooked::{Hooked, Hooks};
use crate::support::quick;

const DEAR: Argon2Cost = Argon2Cost {
    memory_kib: MEMORY_KIB_ALLOWED + 1,
    passes: 1,
    lanes: 1,
};

fn cheap() -> Argon2Cost {
    quick().cost
}

fn made() -> (Arc<Memory>, Repository) {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"first"), &quick()).unwrap();
    (storage, repository)
}

fn open(storage: &Arc<Memory>, password: &[u8]) -> Result<Repository, Error> {
    Repository::open(storage.clone(), Some(password))
}

fn slots(storage: &dyn Storage) -> Vec<Name> {
    image(storage).into_keys().filter(|name| kind(name) == "keys").collect()
}

fn id(name: &Name) -> FileId {
    FileId::parse(name.last_segment()).unwrap()
}

/// Stores the contents of an existing key slot as another one, which the same password opens.
fn twin(storage: &Arc<Memory>, password: &[u8]) {
    let name = &slots(storage.as_ref())[0];
    let slot = Slot::parse(id(name), &storage.get(name, slot::LIMIT).unwrap()).unwrap();
    let keys = Keys::encrypted(slot.repository(), &slot.unlock(password, 64).unwrap());
    let twin = FileId::random();
    let note = Note {
        created: 0,
        label: "twin".into(),
        host: String::new(),
        user: String::new(),
    };
    let bytes = slot::create(twin, &keys, password, cheap(), &note).unwrap();
    storage
        .put(&Name::new(&format!("keys/{twin}")).unwrap(), &[&bytes])
        .unwrap();
}

#[test]
fn no_key_is_made_that_could_not_be_opened() {
    let refused = |result: Result<(), Error>| match result {
        Err(Error::Refused { source, .. }) => assert!(source.to_string().contains("the limit is 1024 MiB"), "{source}"),
        other => panic!("{other:?}"),
    };
    let empty = Arc::new(Memory::new());
    let options = quick().cost(DEAR);
    refused(Repository::init(empty.clone(), Some(b"first"), &options).map(drop));
    assert!(image(empty.as_ref()).is_empty());

    let (storage, repository) = made();
    let before = image(storage.as_ref());
    refused(
        repository
            .add_key(b"second", &KeyOptions::default().cost(DEAR))
            .map(drop),
    );
    refused(
        repository
            .change_password(b"first", b"second", &KeyOptions::default().cost(DEAR))
            .map(drop),
    );
    assert!(
        before == image(storage.as_ref()),
        "nothing was stored and nothing is gone"
    );
}

#[test]
fn the_key_that_opened_the_repository_is_told_and_stays() {
    let (storage, first) = made();
    let second = first.add_key(b"second", &KeyOptions::default().cost(cheap())).unwrap();
    let own = id(&slots(storage.as_ref())
        .into_iter()
        .find(|name| id(name) != second)
        .unwrap());
    // The password part of the other slot is damaged: its note is intact, and the damage shows only
    // with its password.
    let mut damaged = image(storage.as_ref());
    damaged.get_mut(&Name::new(&format!("keys/{second}")).unwrap()).unwrap()[60] ^= 1;
    let storage = support::damage::storage(&damaged);
    assert!(matches!(open(&storage, b"second"), Err(Error::WrongPassword { .. })));
    let repository = open(&storage, b"first").unwrap();
    let listed = repository.keys().unwrap();
    let current: Vec<FileId> = listed.iter().filter(|key| key.current).map(|key| key.id).collect();
    assert_eq!((current, listed.len()), (vec![own], 2));

    let refused = repository.remove_key(&own.to_string()).unwrap_err();
    assert!(matches!(refused, Error::KeyInUse { id } if id == own), "{refused}");
    repository.remove_key(&second.to_string()).unwrap();
    let refused = repository.remove_key("").unwrap_err();
    assert!(matches!(refused, Error::KeyInUse { .. }), "the last one: {refused}");
    open(&storage, b"first").unwrap();
}

#[test]
fn a_key_is_named_by_as_many_digits_as_it_takes() {
    let (_, repository) = made();
    for password in [&b"second"[..], b"third"] {
        repository
            .add_key(password, &KeyOptions::default().cost(cheap()))
            .unwrap();
    }
    let refused = repository.remove_key("").unwrap_err();
    assert!(matches!(refused, Error::UnknownKey { matches: 3, .. }), "{refused}");
    let other = repository.keys().unwrap().into_iter().find(|key| !key.current).unwrap();
    let removed = repository
        .remove_key(&other.id.to_string().to_ascii_uppercase())
        .unwrap();
    assert_eq!(removed, other.id);
}

#[test]
fn a_slot_that_cannot_be_read_is_listed_with_that() {
    let (storage, repository) = made();
    storage
        .put(&Name::new(&format!("keys/{}", FileId([7; 16]))).unwrap(), &[b"no key"])
        .unwrap();
    let listed = repository.keys().unwrap();
    let odd = listed.iter().find(|key| key.id == FileId([7; 16])).unwrap();
    assert!(
        odd.cost.is_none() && odd.note.is_err() && listed.len() == 2,
        "{listed:?}"
    );
    repository
        .change_password(b"first", b"changed", &KeyOptions::default().cost(cheap()))
        .unwrap();
    open(&storage, b"changed").unwrap();
}

#[test]
fn a_changed_password_opens_nothing_any_more() {
    let (storage, _) = made();
    twin(&storage, b"first");
    twin(&storage, b"first");
    // A slot of another repository with the same password, left by an interrupted `init`, and a
    // damaged one, with ids that sort first and last.
    let (other, _) = made();
    let foreign = slots(other.as_ref()).remove(0);
    let bytes = other.get(&foreign, slot::LIMIT).unwrap();
    storage.put(&foreign, &[&bytes]).unwrap();
    for byte in [0, 0xFF] {
        storage
            .put(
                &Name::new(&format!("keys/{}", FileId([byte; 16]))).unwrap(),
                &[b"damaged"],
            )
            .unwrap();
    }
    let repository = open(&storage, b"first").unwrap();
    let change = repository
        .change_password(b"first", b"changed", &KeyOptions::default().cost(cheap()))
        .unwrap();
    assert_eq!((change.removed.len(), change.untried.len()), (3, 2), "{change:?}");
    assert!(matches!(open(&storage, b"first"), Err(Error::WrongPassword { .. })));
    open(&storage, b"changed").unwrap();
    assert!(slots(storage.as_ref()).contains(&foreign), "what is not ours stays");

    let report = open(&storage, b"changed").unwrap().check(ReadData::No).unwrap();
    let noted: Vec<&str> = report.notes.iter().map(|note| note.object.as_str()).collect();
    assert_eq!(noted, [foreign.as_str()], "a check tells of it");
    assert_eq!(report.faults.len(), 2, "{report:?}");
}

#[test]
fn a_password_that_opens_already_is_not_added_again() {
    let (_, repository) = made();
    let second = repository
        .add_key(b"second", &KeyOptions::default().cost(cheap()))
        .unwrap();
    let in_use = |error: Error| assert!(matches!(error, Error::PasswordInUse { id } if id == second), "{error}");
    in_use(
        repository
            .add_key(b"second", &KeyOptions::default().cost(cheap()))
            .unwrap_err(),
    );
    in_use(
        repository
            .change_password(b"first", b"second", &KeyOptions::default().cost(cheap()))
            .unwrap_err(),
    );
    // The same password at another cost is accepted.
    repository
        .change_password(b"first", b"first", &KeyOptions::default().cost(cheap()))
        .unwrap();
}

/// Storage that damages every key slot stored in it.
struct Rotten(Arc<Memory>);

impl Hooks for Rotten {
    fn inner(&self) -> &dyn Storage {
        self.0.as_ref()
    }

    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), ibid_storage::Error> {
        let mut bytes = parts.concat();
        if kind(name) == "keys" {
            bytes[60] ^= 1;
        }
        self.0.put(name, &[&bytes])
    }
}

#[test]
fn no_key_goes_before_the_new_one_has_opened() {
    let (storage, _) = made();
    let before = image(storage.as_ref());
    let repository = Repository::open(Arc::new(Hooked(Rotten(storage.clone()))), Some(b"first")).unwrap();
    let change = repository
        .change_password(b"first", b"changed", &KeyOptions::default().cost(cheap()))
        .unwrap_err();
    assert!(matches!(change, Error::KeyNotStored { .. }), "{change}");
    let add = repository
        .add_key(b"second", &KeyOptions::default().cost(cheap()))
        .unwrap_err();
    assert!(matches!(add, Error::KeyNotStored { .. }), "{add}");
    assert!(before == image(storage.as_ref()), "what does not open does not stay");
    let empty = Arc::new(Memory::new());
    let init = Repository::init(Arc::new(Hooked(Rotten(empty.clone()))), Some(b"first"), &quick()).unwrap_err();
    assert!(matches!(init, Error::KeyNotStored { .. }), "{init}");
    assert!(image(empty.as_ref()).is_empty(), "no repository without a key");
}

/// The slot and the config name different repositories. A slot that opens is intact.
#[test]
fn a_config_with_a_wrong_id_is_named_and_not_the_keys() {
    let (memory, _) = made();
    let mut image = image(memory.as_ref());
    image.get_mut(&Name::new("config").unwrap()).unwrap()[20] ^= 1;
    let error = Repository::open(storage(&image), Some(b"first")).unwrap_err();
    assert!(matches!(error, Error::ConfigDamaged { .. }), "{error}");
    let error = Repository::open(storage(&image), Some(b"wrong")).unwrap_err();
    assert!(matches!(error, Error::NoKeys { found: 1, .. }), "{error}");
}

#[test]
fn a_config_of_something_else_is_no_damage() {
    for config in [
        &b"\xE8\xF3\x12\x34 what restic writes"[..],
        b"[repository]\nversion = 1\n",
        b"",
        &[b'x'; 9000],
    ] {
        let memory = Memory::new();
        memory.put(&Name::new("config").unwrap(), &[config]).unwrap();
        let error = Repository::probe(&memory).unwrap_err();
        assert!(matches!(error, Error::NotARepository { .. }), "{error}");
        assert!(!error.to_string().contains("damaged"), "{error}");
    }
}

/// Several `backup --init` run at once: the second leaves nothing behind.
#[test]
fn an_init_that_comes_second_takes_its_key_away() {
    let first = Arc::new(Memory::new());
    let barrier = std::sync::Barrier::new(4);
    let made: Vec<bool> = std::thread::scope(|scope| {
        let init = || {
            barrier.wait();
            match Repository::init(first.clone(), Some(b"first"), &quick()) {
                Ok(_) => true,
                Err(Error::RepositoryExists { .. }) => false,
                Err(error) => panic!("{error}"),
            }
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(init)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(made.iter().filter(|made| **made).count(), 1);
    assert_eq!(slots(first.as_ref()).len(), 1);
    open(&first, b"first").unwrap();
}

/// Another program makes the repository just before the first look at what there is.
struct MadeMeanwhile {
    storage: Arc<Memory>,
    made: Once,
}

impl Hooks for MadeMeanwhile {
    fn inner(&self) -> &dyn Storage {
        self.storage.as_ref()
    }

    fn list_together(
        &self,
        folders: &[&str],
        each: &mut dyn FnMut(Name, u64),
    ) -> Result<Vec<bool>, ibid_storage::Error> {
        self.made.call_once(|| {
            Repository::init(self.storage.clone(), Some(b"first"), &quick()).unwrap();
        });
        self.storage.list_together(folders, each)
    }
}

#[test]
fn a_repository_that_is_made_meanwhile_has_not_lost_its_config() {
    let empty = || {
        let (storage, made) = (Arc::new(Memory::new()), Once::new());
        Arc::new(Hooked(MadeMeanwhile { storage, made }))
    };
    let error = Repository::init(empty(), Some(b"first"), &quick()).unwrap_err();
    assert!(matches!(error, Error::RepositoryExists { .. }), "{error}");
    Repository::open(empty(), Some(b"first")).unwrap();
}

/// A slot that needs more memory than this machine has is not reported as damaged.
#[test]
fn a_slot_that_asks_for_too_much_is_not_called_damaged() {
    let (storage, _) = made();
    let name = slots(storage.as_ref()).remove(0);
    let mut bytes = storage.get(&name, slot::LIMIT).unwrap();
    bytes[24..28].copy_from_slice(&DEAR.memory_kib.to_le_bytes());
    let repository = FileId(bytes[8..24].try_into().unwrap());
    slot::set_repository(&mut bytes, repository);
    storage.delete(&name).unwrap();
    storage.put(&name, &[&bytes]).unwrap();
    let error = open(&storage, b"first").unwrap_err();
    assert!(matches!(error, Error::KeyUnusable { .. }), "{error}");
    assert!(
        error.to_string().contains("1025 MiB of memory, the limit is 1024 MiB"),
        "{error}"
    );
}
