//! A writer stores snapshots and does nothing else, to its own files and to those of others, whoever has its key.

use std::sync::Arc;

use ibid_format::frame::{Compression, FrameBuilder, FrameEncoder};
use ibid_format::pack::{PackBuilder, PackKind};
use ibid_format::writer::{WriterKey, signed};
use ibid_format::{ChunkId, FileId, FileKind, Keys, index};
use ibid_repo::{
    Checkpoints, CopyOptions, Error, Monitor, PruneOptions, ReadData, RepairOptions, Repository, RestoreOptions,
    RewriteOptions,
};
use ibid_storage::{ErrorKind, Memory, Name, Operation, Storage};

use crate::support::damage::{Image, image, kind, storage};
use crate::support::{Folder, backup, noise, options, quick, same_tree, scratch};

/// A repository with a snapshot of its own, and two writers.
pub(crate) struct Scene {
    pub(crate) storage: Arc<Memory>,
    pub(crate) repository: Repository,
    pub(crate) folder: Folder,
    pub(crate) laptop: WriterKey,
    server: WriterKey,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let storage = Arc::new(Memory::new());
        let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
        let folder = Folder::scratch();
        folder.write("letter", b"in the same place where it was before");
        folder.write("deep/er/noise", &noise(1, 300_000));
        let (laptop, server) = (
            repository.add_writer("laptop").unwrap(),
            repository.add_writer("server").unwrap(),
        );
        Scene {
            storage,
            repository,
            folder,
            laptop,
            server,
        }
    }

    /// Stores a session as the laptop does, which no process ends.
    pub(crate) fn put_session_of_laptop(&self, id: FileId) {
        let keys = self.laptop.keys();
        let session = ibid_repo::Session {
            time: ibid_repo::Time::default(),
            host: "elsewhere".into(),
            user: String::new(),
            program: String::new(),
            action: "backup".into(),
            paths: Vec::new(),
            process: ibid_repo::Process::default(),
        };
        let content = session.encode(&keys, id).unwrap();
        let header = signed::sign(&keys, FileKind::Session, id, &[&content]).unwrap();
        let name = Name::new(&format!("written/{}/sessions/{id}", self.laptop.id())).unwrap();
        self.storage.put(&name, &[&header, &content]).unwrap();
    }

    /// Returns the keys with which keepers read the files of the laptop.
    pub(crate) fn keys_of_keeper(&self) -> Keys {
        let keys = crate::support::deltas::Writer::of(self.storage.clone()).keys;
        keys.of_writer(self.laptop.id()).unwrap()
    }

    pub(crate) fn as_writer(&self, key: &WriterKey) -> Repository {
        Repository::open_as_writer(self.storage.clone(), key).unwrap()
    }

    /// Makes a backup with the key of the laptop.
    pub(crate) fn back_up(&self) -> FileId {
        backup(&self.as_writer(&self.laptop), self.folder.path()).id.unwrap()
    }

    pub(crate) fn image(&self) -> Image {
        image(self.storage.as_ref())
    }

    /// Returns the names of the files of a writer in a folder.
    pub(crate) fn names(&self, key: &WriterKey, folder: &str) -> Vec<Name> {
        let below = format!("written/{}/{folder}", key.id());
        self.image().into_keys().filter(|name| name.is_in(&below)).collect()
    }
}

/// Opens an image with the password.
pub(crate) fn keeper(image: &Image) -> Repository {
    Repository::open(storage(image), Some(b"secret")).unwrap()
}

/// Asserts that the latest snapshot is restored as the folder is.
pub(crate) fn restores(repository: &Repository, folder: &Folder) {
    let (snapshot, target) = (repository.snapshot("latest").unwrap(), scratch());
    let wanted = RestoreOptions::default().verify(true);
    let path = snapshot.at(folder.path());
    repository.restore(path, target.path(), &wanted).unwrap();
    same_tree(folder.path(), target.path());
}

#[test]
fn what_a_writer_stores_a_keeper_reads() {
    let scene = Scene::new();
    let id = scene.back_up();
    let laptop = scene.repository.writer("laptop").unwrap();
    assert_eq!(
        laptop
            .snapshots()
            .unwrap()
            .iter()
            .map(|info| info.id)
            .collect::<Vec<_>>(),
        [id]
    );
    restores(&laptop, &scene.folder);
    let report = laptop.check(ReadData::All).unwrap();
    assert!(report.faults.is_empty() && report.notes.is_empty(), "{report:?}");
    assert_eq!(report.snapshots, 1);
    let by_id = scene.repository.writer(&scene.laptop.id().to_string()[..12]).unwrap();
    assert_eq!(by_id.snapshot("latest").unwrap().id, id);
    // It belongs to no other.
    assert!(scene.repository.snapshots().unwrap().is_empty());
    assert!(
        scene
            .repository
            .writer("server")
            .unwrap()
            .snapshots()
            .unwrap()
            .is_empty()
    );
    let unknown = scene.repository.writer("desktop").unwrap_err();
    assert!(matches!(unknown, Error::UnknownWriter { matches: 0, .. }), "{unknown}");
    let ambiguous = scene.repository.writer("").unwrap_err();
    assert!(matches!(ambiguous, Error::UnknownWriter { .. }), "{ambiguous}");
}

#[test]
fn a_writer_does_nothing_else() {
    let scene = Scene::new();
    let id = scene.back_up();
    let before = scene.image();
    let writer = scene.as_writer(&scene.laptop);
    let refused = |what: &str, error: Error| assert!(matches!(error, Error::WriteOnly { .. }), "{what}: {error}");
    refused("snapshots", writer.snapshots().unwrap_err());
    refused("snapshot", writer.snapshot("latest").unwrap_err());
    refused("snapshot", writer.snapshot(&id.to_string()).unwrap_err());
    refused("check", writer.check(ReadData::No).unwrap_err());
    refused("forget", writer.forget(&[id]).unwrap_err());
    refused("forget for good", writer.forget_for_good(&[id]).unwrap_err());
    refused("prune", writer.prune(&PruneOptions::default()).unwrap_err());
    refused("repair", writer.repair(&RepairOptions::default()).unwrap_err());
    refused(
        "repair",
        writer.repair(&RepairOptions::default().dry_run(true)).unwrap_err(),
    );
    refused("keys", writer.keys().unwrap_err());
    refused("add key", writer.add_key(b"another", &Default::default()).unwrap_err());
    refused("remove key", writer.remove_key("").unwrap_err());
    refused("add writer", writer.add_writer("another").unwrap_err());
    refused("writers", writer.writers().unwrap_err());
    refused("writer", writer.writer("laptop").map(drop).unwrap_err());
    refused("remove writer", writer.remove_writer("server").unwrap_err());
    let to = Repository::init(Arc::new(Memory::new()), Some(b"secret"), &quick()).unwrap();
    let laptop = scene.repository.writer("laptop").unwrap();
    let all = laptop.snapshots().unwrap();
    assert!(writer.copy_to(&to, &all, &CopyOptions::default()).is_err());
    assert!(
        laptop
            .restore(&all[0], scratch().path(), &RestoreOptions::default())
            .is_ok()
    );
    refused(
        "restore",
        writer
            .restore(&all[0], scratch().path(), &RestoreOptions::default())
            .unwrap_err(),
    );
    refused("stats", writer.stats(&all).map(drop).unwrap_err());
    let with_parent = options(scene.folder.path()).parent(id.to_string());
    refused("parent", writer.backup(&with_parent).unwrap_err());
    refused(
        "unchanged",
        writer
            .backup(&options(scene.folder.path()).skip_if_unchanged(true))
            .unwrap_err(),
    );
    assert!(scene.image() == before, "and it has changed nothing");
}

#[test]
fn keepers_store_no_files_for_a_writer() {
    let scene = Scene::new();
    scene.back_up();
    let before = scene.image();
    let laptop = scene.repository.writer("laptop").unwrap();
    let refused = |error: Error| assert!(matches!(error, Error::OfWriter { .. }), "{error}");
    refused(laptop.backup(&options(scene.folder.path())).unwrap_err());
    let repaired = laptop.repair(&RepairOptions::default()).unwrap();
    assert!(repaired.is_clean() && repaired.written == 0, "{repaired:?}");
    refused(laptop.add_key(b"another", &Default::default()).unwrap_err());
    refused(laptop.remove_key("").unwrap_err());
    refused(
        laptop
            .change_password(b"secret", b"other", &Default::default())
            .unwrap_err(),
    );
    refused(laptop.add_writer("another").unwrap_err());
    let info = laptop.snapshot("latest").unwrap();
    let rewritten = laptop.rewrite(&info, &RewriteOptions::default()).unwrap();
    assert_eq!(rewritten.id, None, "nothing was to be left out");
    let (own, all) = (
        backup(&scene.repository, scene.folder.path()),
        scene.repository.snapshots().unwrap(),
    );
    assert_eq!(own.id, Some(all[0].id));
    let copied = scene.repository.copy_to(&laptop, &all, &CopyOptions::default());
    refused(copied.map(drop).unwrap_err());
    let written = |image: Image| {
        image
            .into_iter()
            .filter(|(name, _)| name.is_in("written"))
            .collect::<Image>()
    };
    assert!(written(scene.image()) == written(before));
}

#[test]
fn a_writer_stores_nothing_twice_though_it_has_lost_all_but_its_key() {
    let scene = Scene::new();
    scene.back_up();
    let packs = scene.names(&scene.laptop, "packs");
    // Another process, without a cache.
    scene.folder.write("new", &noise(2, 50_000));
    let summary = backup(&scene.as_writer(&scene.laptop), scene.folder.path());
    assert!(summary.counters.new_bytes < 60_000, "{:?}", summary.counters);
    assert!(summary.counters.bytes > 300_000);
    assert!(scene.names(&scene.laptop, "packs").len() > packs.len());
    let again = backup(&scene.as_writer(&scene.laptop), scene.folder.path());
    // Folders above this one change with the other tests.
    assert!(again.counters.new_bytes < 10_000, "{:?}", again.counters);
    restores(&scene.repository.writer("laptop").unwrap(), &scene.folder);
}

#[test]
fn a_writer_with_a_cache_stores_the_same_and_a_keeper_with_one_reads_it() {
    let (scene, cache) = (Scene::new(), scratch());
    let writer = scene.as_writer(&scene.laptop).with_cache(cache.path());
    backup(&writer, scene.folder.path());
    scene.folder.write("new", &noise(3, 50_000));
    let summary = backup(&writer, scene.folder.path());
    assert!(summary.counters.new_bytes < 60_000, "{:?}", summary.counters);
    for _ in 0..2 {
        let laptop = scene.repository.writer("laptop").unwrap().with_cache(cache.path());
        restores(&laptop, &scene.folder);
    }
}

#[test]
fn what_two_writers_both_have_is_stored_for_each() {
    let scene = Scene::new();
    let new_bytes = |key| backup(&scene.as_writer(key), scene.folder.path()).counters.new_bytes;
    assert!(new_bytes(&scene.laptop) > 300_000 && new_bytes(&scene.server) > 300_000);
    assert!(backup(&scene.repository, scene.folder.path()).counters.new_bytes > 300_000);
    for name in ["laptop", "server"] {
        restores(&scene.repository.writer(name).unwrap(), &scene.folder);
    }
}

#[test]
fn a_dry_run_and_streams_and_interrupted_backups_are_as_elsewhere() {
    let scene = Scene::new();
    let before = scene.image();
    let writer = scene.as_writer(&scene.laptop);
    let dry = writer.backup(&options(scene.folder.path()).dry_run(true)).unwrap();
    assert!(dry.id.is_none() && scene.image() == before);
    let stream = ibid_repo::Stream::new("stream", &b"what a program printed"[..]);
    let summary = writer.backup_stream(stream, &options(scene.folder.path())).unwrap();
    let laptop = scene.repository.writer("laptop").unwrap();
    assert_eq!(Some(laptop.snapshot("latest").unwrap().id), summary.id);
    // A session is left of a backup that is killed, and nothing counts that has no snapshot.
    let monitor = Arc::new(Monitor::new(|_| {}));
    monitor.cancel();
    let wanted = options(scene.folder.path()).checkpoints(Checkpoints::Every(1));
    let stopped = writer.watched_by(&monitor).backup(&wanted);
    assert!(matches!(stopped, Err(Error::Interrupted)));
    assert_eq!(laptop.snapshots().unwrap().len(), 1);
    assert!(
        scene.names(&scene.laptop, "checkpoints").is_empty(),
        "it could not read them"
    );
    scene.back_up();
    restores(&laptop, &scene.folder);
}

#[test]
fn snapshots_of_a_writer_are_in_the_order_of_its_clock() {
    let scene = Scene::new();
    let writer = scene.as_writer(&scene.laptop);
    let at = |seconds| {
        let time = ibid_repo::Time { seconds, nanos: 0 };
        writer
            .backup(&options(scene.folder.path()).time(Some(time)))
            .unwrap()
            .id
            .unwrap()
    };
    let ids = [at(1_800_000_000), at(1_700_000_000), at(1_900_000_000)];
    let found = scene.repository.writer("laptop").unwrap().snapshots().unwrap();
    let found: Vec<FileId> = found.iter().map(|info| info.id).collect();
    assert_eq!(found, [ids[1], ids[0], ids[2]]);
}

// The thief of the client.

#[test]
fn thief_of_the_client_reads_nothing_that_it_stored() {
    let scene = Scene::new();
    scene.back_up();
    let keys = scene.laptop.keys();
    for folder in ["packs", "snapshots"] {
        for name in scene.names(&scene.laptop, folder) {
            let bytes = scene.storage.get(&name, u64::MAX).unwrap();
            let (header, content) = bytes.split_at(signed::HEADER);
            let id = FileId::parse(name.last_segment()).unwrap();
            let kind = if folder == "packs" {
                FileKind::Pack
            } else {
                FileKind::Snapshot
            };
            signed::open(&keys, kind, id, header).unwrap().check(content).unwrap();
            let position = content.len() - ibid_format::pack::TRAILER as usize;
            let opened = match kind {
                FileKind::Pack => {
                    let size = content.len() as u64;
                    ibid_format::pack::open_trailer(&keys, id, size, &mut content[position..].to_vec()).map(drop)
                }
                _ => ibid_format::snapshot::Snapshot::open(&keys, id, &mut content.to_vec()).map(drop),
            };
            assert!(matches!(opened, Err(ibid_format::Error::WriteOnly { .. })), "{name}");
        }
    }
}

#[test]
fn thief_of_the_client_can_end_no_backup_of_others_and_forge_none() {
    let scene = Scene::new();
    scene.back_up();
    // The laptop's files, under the same names, as if the server had stored them.
    let mut image = scene.image();
    for (name, bytes) in scene.image() {
        let others = name
            .as_str()
            .replace(&scene.laptop.id().to_string(), &scene.server.id().to_string());
        image.entry(Name::new(&others).unwrap()).or_insert(bytes);
    }
    let repository = keeper(&image);
    let server = repository.writer("server").unwrap();
    let mut refused = 0;
    let found = server.snapshots_with(|_, error| {
        assert!(error.is_damage() && error.to_string().contains("signature"), "{error}");
        refused += 1;
    });
    assert_eq!((found.unwrap().len(), refused), (0, 1));
    restores(&repository.writer("laptop").unwrap(), &scene.folder);
}

#[test]
fn malicious_writer_cannot_give_packs_up() {
    let scene = Scene::new();
    let id = scene.back_up();
    // An entry of the log that dooms all packs of the writer, and one that is not signed at all.
    let mut packs: Vec<FileId> = (scene.names(&scene.laptop, "packs").iter())
        .map(|name| FileId::parse(name.last_segment()).unwrap())
        .collect();
    packs.sort_unstable();
    let keys = scene.laptop.keys();
    let mut entry = ibid_format::prune_log::Entry::first(ibid_repo::Time::default(), "thief");
    entry.doomed = packs;
    entry.fence = 1;
    let content = entry.encode(&keys, 1).unwrap();
    let number = FileId::numbered(1);
    assert!(
        signed::sign(&keys, FileKind::PruneLog, number, &[&content]).is_err(),
        "the library does not sign it"
    );
    let as_session = signed::sign(&keys, FileKind::Session, number, &[&content]).unwrap();
    for header in [&as_session[..], &[]] {
        let mut image = scene.image();
        let name = Name::new(&format!("written/{}/prune/{number}", scene.laptop.id())).unwrap();
        image.insert(name, [header, &content].concat());
        let laptop = keeper(&image).writer("laptop").unwrap();
        assert_eq!(laptop.snapshot("latest").unwrap().id, id);
        restores(&laptop, &scene.folder);
        let report = laptop.check(ReadData::All).unwrap();
        assert!(
            report.faults.iter().any(|fault| fault.object.contains("prune")),
            "{report:?}"
        );
    }
}

/// Stores a pack that claims to have chunks and has others, and an index file of it, as whoever has a writer's key can.
pub(crate) fn plant(storage: &dyn Storage, key: &WriterKey, keys_of_ids: &Keys, true_bytes: &[u8]) {
    plant_under(
        storage,
        key,
        keys_of_ids.chunk_id(true_bytes),
        &vec![b'x'; true_bytes.len()],
    );
}

/// Stores a pack that says it has a chunk of this id, and an index file that lists it.
pub(crate) fn plant_under(storage: &dyn Storage, key: &WriterKey, id: ChunkId, garbage: &[u8]) {
    let (keys, pack, file) = (key.keys(), FileId::random(), FileId::random());
    let mut gathered = FrameBuilder::new();
    gathered.push(id, garbage);
    let mut plaintext = Vec::new();
    let (blobs, body) = (gathered.blobs(), gathered.body());
    FrameEncoder::new()
        .encode(blobs, body, Compression::Stored, &mut plaintext)
        .unwrap();
    let mut builder = PackBuilder::new(&keys, pack, PackKind::Data);
    builder.add(&plaintext, gathered.blobs(), 0, &[]);
    let (bytes, summary) = builder.finish();
    let put = |folder: String, kind, id: FileId, content: &[u8]| {
        let header = signed::sign(&keys, kind, id, &[content]).unwrap();
        let name = Name::new(&format!("written/{}/{folder}/{id}", key.id())).unwrap();
        storage.put(&name, &[&header, content]).unwrap();
    };
    put(
        format!("packs/{}", &pack.to_string()[..2]),
        FileKind::Pack,
        pack,
        &bytes,
    );
    let index = index::encode(&keys, file, 0, &[summary]).unwrap();
    put("index".to_owned(), FileKind::Index, file, &index);
}

#[test]
fn malicious_writer_poisons_nobody_else() {
    let scene = Scene::new();
    let letter = b"in the same place where it was before";
    // Under the ids that the chunk has for the writer and, if it should know them, for keepers and others.
    let other = scene.server.keys();
    for keys in [&scene.laptop.keys(), &other] {
        plant(scene.storage.as_ref(), &scene.laptop, keys, letter);
    }
    backup(&scene.repository, scene.folder.path());
    backup(&scene.as_writer(&scene.server), scene.folder.path());
    restores(&scene.repository, &scene.folder);
    restores(&scene.repository.writer("server").unwrap(), &scene.folder);
    assert!(scene.repository.check(ReadData::All).unwrap().faults.is_empty());
    // The laptop itself is deceived: it relied on what it seemed to have stored. No wrong byte comes back.
    scene.back_up();
    let laptop = scene.repository.writer("laptop").unwrap();
    let report = laptop.check(ReadData::All).unwrap();
    assert!(!report.faults.is_empty(), "and a check says so");
    let target = scratch();
    let snapshot = laptop.snapshot("latest").unwrap();
    let _ = laptop.restore(
        snapshot.at(scene.folder.path()),
        target.path(),
        &RestoreOptions::default(),
    );
    let restored = std::fs::read(target.path().join("letter"));
    assert!(restored.is_err() || restored.unwrap() == letter);
}

#[test]
fn malicious_writer_hides_true_bytes_until_its_files_are_gone() {
    let scene = Scene::new();
    scene.back_up();
    let before = scene.image();
    let letter = b"in the same place where it was before";
    for _ in 0..5 {
        plant(scene.storage.as_ref(), &scene.laptop, &scene.laptop.keys(), letter);
    }
    let planted: Vec<Name> = scene
        .image()
        .into_keys()
        .filter(|name| !before.contains_key(name))
        .collect();
    let laptop = scene.repository.writer("laptop").unwrap();
    let report = laptop.check(ReadData::All).unwrap();
    let packs = planted.iter().filter(|name| name.as_str().contains("/packs/"));
    for pack in packs {
        let is_named = |fault: &ibid_repo::Fault| fault.object.contains(pack.last_segment());
        assert!(report.faults.iter().any(is_named), "{pack}: {report:?}");
    }
    // With or without its lies, no wrong byte comes back.
    let target = scratch();
    let snapshot = laptop.snapshot("latest").unwrap();
    let _ = laptop.restore(
        snapshot.at(scene.folder.path()),
        target.path(),
        &RestoreOptions::default(),
    );
    let restored = std::fs::read(target.path().join("letter"));
    assert!(restored.is_err() || restored.unwrap() == letter);
    for name in &planted {
        scene.storage.delete(name).unwrap();
    }
    restores(&scene.repository.writer("laptop").unwrap(), &scene.folder);
}

#[test]
fn malicious_writer_cannot_use_files_again_under_other_names() {
    let scene = Scene::new();
    let id = scene.back_up();
    for folder in ["packs", "snapshots", "index"] {
        let mut image = scene.image();
        let name = scene.names(&scene.laptop, folder)[0].clone();
        let other = FileId::random().to_string();
        let renamed = match folder {
            "packs" => format!("written/{}/packs/{}/{other}", scene.laptop.id(), &other[..2]),
            _ => format!("written/{}/{folder}/{other}", scene.laptop.id()),
        };
        let bytes = image[&name].clone();
        image.insert(Name::new(&renamed).unwrap(), bytes);
        let laptop = keeper(&image).writer("laptop").unwrap();
        let mut unreadable = 0;
        let found = laptop.snapshots_with(|_, _| unreadable += 1).unwrap();
        assert_eq!(found.iter().map(|info| info.id).collect::<Vec<_>>(), [id]);
        assert_eq!(unreadable, u32::from(folder == "snapshots"), "{folder}");
        let report = laptop.check(ReadData::All).unwrap();
        assert!(
            report.faults.iter().any(|fault| fault.object.contains(&other)),
            "{folder}: {report:?}"
        );
        restores(&laptop, &scene.folder);
    }
}

#[test]
fn malicious_writers_sessions_hold_up_nobody_else() {
    let scene = Scene::new();
    backup(&scene.repository, scene.folder.path());
    let monitor = Arc::new(Monitor::new(|_| {}));
    // A session that never ends.
    scene.put_session_of_laptop(FileId::random());
    let all: Vec<FileId> = scene
        .repository
        .snapshots()
        .unwrap()
        .iter()
        .map(|info| info.id)
        .collect();
    scene.repository.forget(&all).unwrap();
    scene
        .repository
        .watched_by(&monitor)
        .prune(&PruneOptions::default())
        .unwrap();
    assert!(
        !scene.image().keys().any(|name| kind(name) == "packs"),
        "the prune did not wait"
    );
    assert_eq!(
        scene
            .repository
            .writer("laptop")
            .unwrap()
            .sessions(|_, _| {})
            .unwrap()
            .len(),
        1
    );
}

// The thief of the storage.

#[test]
fn thief_of_the_storage_sees_no_contents_names_or_labels() {
    let scene = Scene::new();
    scene.back_up();
    for (name, bytes) in scene.image() {
        for secret in [&b"in the same place"[..], b"letter", b"laptop", b"server", b"tree"] {
            let seen = bytes.windows(secret.len()).any(|window| window == secret);
            assert!(!seen, "{name} has {:?}", String::from_utf8_lossy(secret));
        }
    }
}

#[test]
fn malicious_storage_cannot_change_a_byte_unnoticed() {
    let scene = Scene::new();
    scene.back_up();
    let good = scene.image();
    let mut random = crate::support::Random(7);
    let below = format!("written/{}", scene.laptop.id());
    for (name, bytes) in good.iter().filter(|(name, _)| name.is_in(&below)) {
        // Bytes of the header, of the beginning and the end, and any.
        let last = bytes.len() - 1;
        let any = random.below(bytes.len() as u64) as usize;
        for at in [0, 8, 9, 20, 60, 100, signed::HEADER, signed::HEADER + 8, any, last] {
            let mut image = good.clone();
            image.get_mut(name).unwrap()[at] ^= 1;
            judge(&image, &scene.folder, &format!("{name} at byte {at}"));
        }
        for length in [0, 1, signed::HEADER - 1, signed::HEADER, bytes.len() - 1] {
            let mut image = good.clone();
            image.get_mut(name).unwrap().truncate(length);
            judge(&image, &scene.folder, &format!("{name} cut to {length} bytes"));
        }
    }
}

/// Asserts that a check finds what is wrong, and that nothing wrong is restored.
fn judge(image: &Image, folder: &Folder, what: &str) {
    let laptop = match keeper(image).writer("laptop") {
        Ok(laptop) => laptop,
        Err(error) => {
            return assert!(
                error.is_damage() || matches!(error, Error::ConfigDamaged { .. }),
                "{what}: {error}"
            );
        }
    };
    let report = laptop.check(ReadData::All).unwrap();
    assert!(!report.faults.is_empty(), "{what}");
    let Ok(snapshot) = laptop.snapshot("latest") else {
        return;
    };
    let target = scratch();
    if laptop
        .restore(snapshot.at(folder.path()), target.path(), &RestoreOptions::default())
        .is_ok()
    {
        for file in ["letter", "deep/er/noise"] {
            if let Ok(restored) = std::fs::read(target.path().join(file)) {
                assert!(
                    restored == std::fs::read(folder.path().join(file)).unwrap(),
                    "{what}: {file} is wrong"
                );
            }
        }
    }
}

// The thief of both.

#[test]
fn thief_of_both_makes_a_writer_seal_for_keepers_all_the_same() {
    let scene = Scene::new();
    scene.back_up();
    // Whoever has the storage and the key replaces the writer's config, its note and the config of the repository.
    let config = Name::new(&format!("written/{}/config", scene.laptop.id())).unwrap();
    let others = Name::new(&format!("written/{}/config", scene.server.id())).unwrap();
    let mut image = scene.image();
    image.insert(config.clone(), scene.image()[&others].clone());
    image.remove(&Name::new(&format!("written/{}/config.copy", scene.laptop.id())).unwrap());
    let found = Repository::open_as_writer(storage(&image), &scene.laptop);
    assert!(found.is_err_and(|error| error.is_damage()));
    // The public key that files are sealed to is in the writer's key, and in no file.
    let elsewhere = Repository::init(Arc::new(Memory::new()), Some(b"other"), &quick()).unwrap();
    elsewhere.add_writer("laptop").unwrap();
    let Err(refused) = Repository::open_as_writer(Arc::new(Memory::new()), &scene.laptop) else {
        panic!("there is nothing");
    };
    assert!(matches!(refused, Error::NoRepository { .. }));
}

/// What credentials of a writer have to allow, and no more: the table in `docs/remote.md`.
struct Allowed {
    storage: Arc<Memory>,
    writer: FileId,
}

impl Allowed {
    fn check(&self, operation: Operation, name: &str) -> Result<(), ibid_storage::Error> {
        let (written, revoked) = (format!("written/{}/", self.writer), format!("revoked/{}", self.writer));
        let may = match operation {
            Operation::Put => name.starts_with(&written),
            Operation::List => name.starts_with(&written) || name == revoked,
            Operation::Delete => false,
            _ => name == "config" || name.starts_with(&written) || name.starts_with(&revoked),
        };
        match may {
            true => Ok(()),
            false => Err(
                ibid_storage::Error::new(ErrorKind::PermissionDenied, operation, None, "memory")
                    .with_found(format!("{name} may not be touched")),
            ),
        }
    }
}

impl Storage for Allowed {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), ibid_storage::Error> {
        self.check(Operation::Put, name.as_str())?;
        self.storage.put(name, parts)
    }
    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, ibid_storage::Error> {
        self.check(Operation::Get, name.as_str())?;
        self.storage.get(name, limit)
    }
    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), ibid_storage::Error> {
        self.check(Operation::ReadAt, name.as_str())?;
        self.storage.read_at(name, offset, buffer)
    }
    fn size(&self, name: &Name) -> Result<u64, ibid_storage::Error> {
        self.check(Operation::Size, name.as_str())?;
        self.storage.size(name)
    }
    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), ibid_storage::Error> {
        self.check(Operation::List, folder)?;
        self.storage.list(folder, each)
    }
    fn settle(&self, name: &Name) -> Result<(), ibid_storage::Error> {
        self.check(Operation::Settle, name.as_str())?;
        self.storage.settle(name)
    }
    fn delete(&self, name: &Name) -> Result<(), ibid_storage::Error> {
        self.check(Operation::Delete, name.as_str())?;
        self.storage.delete(name)
    }
    fn location(&self) -> String {
        self.storage.location()
    }
    fn is_remote(&self) -> bool {
        true
    }
}

#[test]
fn a_writer_needs_no_more_of_the_storage_than_documented() {
    let (scene, cache) = (Scene::new(), scratch());
    let allowed = Arc::new(Allowed {
        storage: scene.storage.clone(),
        writer: scene.laptop.id(),
    });
    for _ in 0..2 {
        let monitor = Arc::new(Monitor::new(|warning| panic!("{warning:?}")));
        let writer = Repository::open_as_writer(allowed.clone(), &scene.laptop).unwrap();
        let writer = writer.with_cache(cache.path()).watched_by(&monitor);
        backup(&writer, scene.folder.path());
    }
    let laptop = scene.repository.writer("laptop").unwrap();
    restores(&laptop, &scene.folder);
    let sessions = laptop.sessions(|_, error| panic!("{error}")).unwrap();
    assert!(sessions.len() == 2 && sessions.iter().all(|info| info.state == ibid_repo::SessionState::Ended));
    assert!(laptop.check(ReadData::All).unwrap().faults.is_empty());
}

#[test]
fn a_key_opens_its_own_repository_and_no_other() {
    let scene = Scene::new();
    let other = Arc::new(Memory::new());
    Repository::init(other.clone(), Some(b"secret"), &quick()).unwrap();
    let refused = Repository::open_as_writer(other, &scene.laptop).map(drop).unwrap_err();
    assert!(matches!(refused, Error::WriterOfAnother { .. }), "{refused}");
    // A writer that was never stored.
    let master_only = storage(
        &scene
            .image()
            .into_iter()
            .filter(|(name, _)| !name.is_in("written"))
            .collect(),
    );
    let refused = Repository::open_as_writer(master_only, &scene.laptop)
        .map(drop)
        .unwrap_err();
    assert!(matches!(refused, Error::UnknownWriter { .. }), "{refused}");
}

// Revoking.

#[test]
fn what_a_removed_writer_stores_does_not_count() {
    let scene = Scene::new();
    let id = scene.back_up();
    let running = scene.as_writer(&scene.laptop);
    assert_eq!(scene.repository.remove_writer("laptop").unwrap(), scene.laptop.id());
    let refused = Repository::open_as_writer(scene.storage.clone(), &scene.laptop)
        .map(drop)
        .unwrap_err();
    assert!(matches!(refused, Error::WriterRevoked { .. }), "{refused}");
    // A thief does not look whether it was revoked.
    scene.folder.write("planted", b"by a thief");
    let late = backup(&running, scene.folder.path()).id.unwrap();
    plant(
        scene.storage.as_ref(),
        &scene.laptop,
        &scene.laptop.keys(),
        b"in the same place where it was before",
    );
    std::fs::remove_file(scene.folder.path().join("planted")).unwrap();
    let laptop = scene.repository.writer("laptop").unwrap();
    assert_eq!(
        laptop
            .snapshots()
            .unwrap()
            .iter()
            .map(|info| info.id)
            .collect::<Vec<_>>(),
        [id]
    );
    let by_name = laptop.snapshot(&late.to_string());
    assert!(matches!(by_name, Err(Error::UnknownSnapshot { .. })));
    assert!(laptop.check(ReadData::All).unwrap().faults.is_empty());
    let snapshot = laptop.snapshot("latest").unwrap();
    let target = scratch();
    laptop
        .restore(
            snapshot.at(scene.folder.path()),
            target.path(),
            &RestoreOptions::default(),
        )
        .unwrap();
    let restored = std::fs::read(target.path().join("letter")).unwrap();
    assert_eq!(restored, b"in the same place where it was before");
    let listed = scene.repository.writers().unwrap();
    assert_eq!(
        listed
            .iter()
            .filter(|info| info.is_revoked)
            .map(|info| info.label())
            .collect::<Vec<_>>(),
        ["laptop"]
    );
    let again = scene.repository.remove_writer("laptop").unwrap_err();
    assert!(matches!(again, Error::WriterRevoked { .. }), "{again}");
}

#[test]
fn only_keepers_revoke() {
    let scene = Scene::new();
    let id = scene.back_up();
    let (keys, file) = (scene.laptop.keys(), FileId::random());
    let header = signed::sign(&keys, FileKind::Session, file, &[b"revoked"]).unwrap();
    let signed_by_writer = [&header[..], b"revoked"].concat();
    let unsigned = b"revoked, says a thief".to_vec();
    for (id, bytes) in [
        (FileId::random(), unsigned),
        (file, signed_by_writer),
        (FileId::random(), Vec::new()),
    ] {
        let name = Name::new(&format!("revoked/{}/{id}", scene.laptop.id())).unwrap();
        scene.storage.put(&name, &[&bytes]).unwrap();
    }
    let laptop = scene.repository.writer("laptop").unwrap();
    assert_eq!(laptop.snapshot("latest").unwrap().id, id);
    assert!(scene.repository.writers().unwrap().iter().all(|info| !info.is_revoked));
    scene.back_up();
}

// The rest of the repository.

#[test]
fn all_else_leaves_files_of_writers_alone() {
    let scene = Scene::new();
    scene.back_up();
    backup(&scene.repository, scene.folder.path());
    let of_writers = |image: Image| -> Image {
        let folders = ["writers", "written", "revoked"];
        image
            .into_iter()
            .filter(|(name, _)| folders.contains(&kind(name)))
            .collect()
    };
    let before = of_writers(scene.image());
    let all: Vec<FileId> = scene
        .repository
        .snapshots()
        .unwrap()
        .iter()
        .map(|info| info.id)
        .collect();
    scene.repository.forget(&all).unwrap();
    scene.repository.prune(&PruneOptions::default()).unwrap();
    scene.repository.repair(&RepairOptions::default()).unwrap();
    assert!(scene.repository.check(ReadData::All).unwrap().faults.is_empty());
    assert!(of_writers(scene.image()) == before);
    restores(&scene.repository.writer("laptop").unwrap(), &scene.folder);
}

#[test]
fn writers_have_labels_of_their_own() {
    let scene = Scene::new();
    let refused = scene.repository.add_writer("laptop").map(drop).unwrap_err();
    assert!(matches!(refused, Error::WriterExists { .. }), "{refused}");
    let too_long = scene.repository.add_writer(&"x".repeat(600)).map(drop).unwrap_err();
    assert!(matches!(too_long, Error::Refused { .. }), "{too_long}");
    scene.repository.add_writer("").unwrap();
    scene.repository.add_writer("").unwrap();
    let open = Repository::init(Arc::new(Memory::new()), None, &quick()).unwrap();
    assert!(matches!(
        open.add_writer("laptop").map(drop),
        Err(Error::NotEncrypted { .. })
    ));
    assert_eq!(scene.repository.writers().unwrap().len(), 4);
}

#[test]
fn a_snapshot_of_a_writer_is_copied_into_another_repository() {
    let scene = Scene::new();
    scene.back_up();
    let to = Repository::init(Arc::new(Memory::new()), Some(b"other"), &quick()).unwrap();
    let laptop = scene.repository.writer("laptop").unwrap();
    laptop
        .copy_to(&to, &laptop.snapshots().unwrap(), &CopyOptions::default())
        .unwrap();
    restores(&to, &scene.folder);
    // Into the repository itself, where keepers can forget and prune.
    laptop
        .copy_to(&scene.repository, &laptop.snapshots().unwrap(), &CopyOptions::default())
        .unwrap();
    restores(&scene.repository, &scene.folder);
}
