//! Processes that use one repository at the same time.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibid_format::frame::{Compression, FrameBuilder, FrameEncoder};
use ibid_format::pack::{PackBuilder, PackKind};
use ibid_format::writer::signed;
use ibid_format::{FileKind, index};
use ibid_repo::{
    BackupOptions, Checkpoints, CopyOptions, CopyOutcome, CopySummary, Excludes, FileId, Limit, PruneOptions,
    Repository, RewriteOptions, SnapshotInfo, WriterKey,
};
use ibid_storage::{Name, Storage};

use super::place::empty;
use super::pruning::{Broken, Kept, Known, REWRITTEN, Trees, compare, init, open, open_to_store};
use super::seam::Seam;
use super::turns::Seat;
use super::{Random, options};

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Writer,
    Pruner,
    Reader,
    Forgetter,
    /// Changes tags, leaves files out, and brings back what was forgotten.
    Editor,
    /// Copies snapshots of another repository into this one.
    CopierIn,
    /// Copies snapshots of this repository into another one.
    CopierOut,
    /// Stores packs with a writer's key that do not hold what they say.
    Thief,
}

/// All of them.
pub const ROLES: [Role; 7] = [
    Role::Writer,
    Role::Pruner,
    Role::Reader,
    Role::Forgetter,
    Role::Editor,
    Role::CopierIn,
    Role::CopierOut,
];

/// Those who use the files of a writer.
pub const ROLES_OF_WRITER: [Role; 7] = [
    Role::Writer,
    Role::Pruner,
    Role::Reader,
    Role::Forgetter,
    Role::Editor,
    Role::CopierOut,
    Role::Thief,
];

impl Role {
    /// Returns how often the process may fall asleep: once in so many times that it gives way. Prunes begin and end
    /// while it sleeps.
    pub fn sleep(self) -> [u64; 3] {
        match self {
            // It calls the storage a few times only.
            Role::Reader | Role::CopierOut => [150, 10, 4],
            _ => [150, 150, 20],
        }
    }

    /// Does a few things, until it is done or killed.
    pub fn act(self, actor: &Actor<'_>, random: &mut Random) {
        let times = match self {
            Role::Reader | Role::CopierIn | Role::CopierOut => 1,
            Role::Writer => 1 + random.below(2),
            Role::Pruner | Role::Forgetter | Role::Editor | Role::Thief => 1 + random.below(3),
        };
        for _ in 0..times {
            let Some(repository) = actor.open(self) else { return };
            match self {
                Role::Writer => actor.write(&repository, random),
                Role::Pruner => actor.prune(&repository, random),
                Role::Reader => actor.read(&repository, random),
                Role::Forgetter => actor.forget(&repository, random),
                Role::Editor => actor.edit(&repository, random),
                Role::CopierIn => actor.copy_in(&repository, random),
                Role::CopierOut => actor.copy_out(&repository, random),
                Role::Thief => actor.plant(random),
            }
        }
    }
}

/// A process, and what it uses.
pub struct Actor<'a> {
    pub trees: &'a Trees,
    pub seat: &'a Arc<Seat>,
    pub known: &'a Mutex<Known>,
    pub seam: &'a Seam,
    /// The key of the writer, if these are the files of one.
    pub key: Option<&'a WriterKey>,
    /// The local cache of its machine, if it has one.
    pub cache: Option<&'a Path>,
}

impl Actor<'_> {
    fn open(&self, role: Role) -> Option<Repository> {
        let repository = match role {
            Role::Writer => open_to_store(self.seat.clone(), self.key),
            _ => open(self.seat.clone(), self.key),
        };
        let repository = repository.ok()?;
        Some(match self.cache {
            Some(folder) => repository.with_tiny_index().with_cache(folder),
            None => repository,
        })
    }

    fn write(&self, repository: &Repository, random: &mut Random) {
        let tree = random.below(self.trees.versions.len() as u64) as usize;
        let checkpoints = match random.below(2) {
            0 => Checkpoints::Every(1 + random.below(60_000)),
            _ => Checkpoints::Auto,
        };
        let options: BackupOptions = options(&self.trees.versions[tree].0).checkpoints(checkpoints);
        let done = repository.backup(&options);
        let mut known = self.known.lock().unwrap();
        match done {
            // It may rely on what a thief has planted.
            Ok(_) if known.is_poisoned => {}
            Ok(summary) => {
                known.seen.acknowledged += 1;
                known.acknowledged.push(Kept {
                    id: summary.id.unwrap(),
                    tree,
                    is_rewritten: false,
                });
            }
            Err(_) => known.seen.failed += 1,
        }
    }

    fn prune(&self, repository: &Repository, random: &mut Random) {
        let patience = [0, 1_000_000][random.below(2) as usize];
        let options = PruneOptions::default()
            .max_unused(Limit::Bytes(0))
            .patience(Duration::from_secs(patience));
        if let Ok(summary) = repository.prune(&options) {
            let mut known = self.known.lock().unwrap();
            known.seen.prunes += 1;
            known.seen.freed += summary.packs_deleted;
            known.seen.waited += u64::from(!summary.waiting.is_empty());
            known.seen.anew += u64::from(summary.encoded_anew > 0);
        }
    }

    /// Returns any snapshot that was acknowledged, if it is there.
    fn any(&self, repository: &Repository, random: &mut Random) -> Option<(Kept, SnapshotInfo)> {
        let kept = {
            let known = self.known.lock().unwrap();
            known.acknowledged[random.below(known.acknowledged.len() as u64) as usize]
        };
        let info = repository.snapshot(&kept.id.to_string()).ok()?;
        Some((kept, info))
    }

    /// Notes what is wrong with a snapshot, unless it was forgotten meanwhile.
    fn judge(&self, kept: &Kept, broken: Option<String>) {
        let mut known = self.known.lock().unwrap();
        if known.seen.planted > 0 {
            // A restore fails on what was planted, until a prune has dropped it.
            return;
        }
        if !self.seat.is_killed() && !known.forgotten.contains(&kept.id) {
            let broken = broken.map(|what| Broken::Lost(format!("{what}, while others are at work")));
            known.broken = known.broken.take().or(broken);
        }
    }

    fn read(&self, repository: &Repository, random: &mut Random) {
        let Some((kept, info)) = self.any(repository, random) else {
            return;
        };
        self.judge(&kept, compare(repository, &info, &kept, self.trees));
        self.known.lock().unwrap().seen.restored += 1;
    }

    fn forget(&self, repository: &Repository, random: &mut Random) {
        let id = {
            let mut known = self.known.lock().unwrap();
            let at = random.below(known.acknowledged.len() as u64) as usize;
            let id = known.acknowledged[at].id;
            known.forgotten.push(id);
            id
        };
        let _ = repository.forget(&[id]);
    }

    fn edit(&self, repository: &Repository, random: &mut Random) {
        if random.below(3) == 0 {
            return self.remember(repository, random);
        }
        let Some((kept, info)) = self.any(repository, random) else {
            return;
        };
        // The old one is deleted, or forgotten.
        self.known.lock().unwrap().forgotten.push(kept.id);
        let (id, is_rewritten) = match random.below(2) {
            _ if self.key.is_some() => (repository.set_tags(&info, &[random.next().to_string()], ""), false),
            0 => (
                repository.set_tags(&info, &[random.next().to_string()], ""),
                kept.is_rewritten,
            ),
            _ => {
                let excludes = Excludes::default().patterns(vec![REWRITTEN.into()]);
                let options = RewriteOptions::default().excludes(excludes).forget(true);
                (repository.rewrite(&info, &options).map(|summary| summary.id), true)
            }
        };
        if let Ok(Some(id)) = id {
            self.changed(Kept {
                id,
                is_rewritten,
                ..kept
            });
        }
    }

    fn changed(&self, kept: Kept) {
        let mut known = self.known.lock().unwrap();
        known.seen.changed += 1;
        known.acknowledged.push(kept);
    }

    /// Brings back a snapshot that was forgotten.
    fn remember(&self, repository: &Repository, random: &mut Random) {
        let forgotten = repository.forgotten(|_, _| ()).unwrap_or_default();
        if forgotten.is_empty() {
            return;
        }
        let id = forgotten[random.below(forgotten.len() as u64) as usize].id;
        let Some(kept) = self.kept(id) else { return };
        if let Ok(id) = repository.remember(id, "") {
            self.changed(Kept { id, ..kept });
        }
    }

    fn kept(&self, id: FileId) -> Option<Kept> {
        let known = self.known.lock().unwrap();
        known.acknowledged.iter().find(|kept| kept.id == id).copied()
    }

    /// Stores a pack that says it has the number of a tree, and has another. In one of three cases it stores an index
    /// file of that, too. Backups of the writer believe it, so the snapshots that these make may be broken.
    fn plant(&self, random: &mut Random) {
        let Some(key) = self.key else { return };
        let number = random.below(self.trees.versions.len() as u64).to_le_bytes();
        let keys = key.keys();
        let mut new_id = || FileId((u128::from(random.next()) << 64 | u128::from(random.next())).to_be_bytes());
        let (pack, file) = (new_id(), new_id());
        let (mut gathered, mut plaintext) = (FrameBuilder::new(), Vec::new());
        gathered.push(keys.chunk_id(&number), &[b'x'; 8]);
        let (blobs, body) = (gathered.blobs(), gathered.body());
        let mut encoder = FrameEncoder::new();
        encoder
            .encode(blobs, body, Compression::Stored, &mut plaintext)
            .unwrap();
        let mut builder = PackBuilder::new(&keys, pack, PackKind::Data);
        builder.add(&plaintext, blobs, 0, &[]);
        let (bytes, summary) = builder.finish();
        let put = |folder: &str, kind, id: FileId, bytes: &[u8]| {
            let header = signed::sign(&keys, kind, id, &[bytes]).unwrap();
            let name = format!("written/{}/{folder}/{id}", key.id());
            self.seat.put(&Name::new(&name).unwrap(), &[&header, bytes]).is_ok()
        };
        let (is_listed, epoch) = (random.below(3) == 0, [0, 1, u64::MAX / 2][random.below(3) as usize]);
        {
            // What is late may arrive, too.
            let mut known = self.known.lock().unwrap();
            known.seen.planted += 1;
            known.is_poisoned |= is_listed;
        }
        let folder = format!("packs/{}", &pack.to_string()[..2]);
        if put(&folder, FileKind::Pack, pack, &bytes) && is_listed {
            let listed = index::encode(&keys, file, epoch, &[summary]).unwrap();
            put("index", FileKind::Index, file, &listed);
        }
    }

    fn copy_in(&self, repository: &Repository, random: &mut Random) {
        let source = Repository::open(self.trees.others.clone(), Some(b"secret")).unwrap();
        let all = source.snapshots().unwrap();
        let (from, count) = (random.below(3) as usize, 1 + random.below(2) as usize);
        let wanted: Vec<SnapshotInfo> = all.into_iter().skip(from).take(count).collect();
        let done = source.copy_to(repository, &wanted, &CopyOptions::default());
        for (copied, id) in copies(&done.unwrap_or_default()) {
            let path = &copied.snapshot.paths[0];
            let is_its = |(of_tree, _): &(std::path::PathBuf, _)| of_tree.as_os_str().as_encoded_bytes() == path;
            let tree = self.trees.versions.iter().position(is_its).unwrap();
            let mut known = self.known.lock().unwrap();
            known.seen.copied += 1;
            known.acknowledged.push(Kept {
                id,
                tree,
                is_rewritten: false,
            });
        }
    }

    fn copy_out(&self, repository: &Repository, random: &mut Random) {
        let destination = init(&empty(), self.seam);
        let Some((kept, info)) = self.any(repository, random) else {
            return;
        };
        let done = repository.copy_to(&destination, &[info], &CopyOptions::default());
        let broken = match &done {
            Err(error) => Some(format!("snapshot {} does not copy: {error}", kept.id)),
            Ok(summary) => summary.snapshots.iter().find_map(|copied| match &copied.outcome {
                CopyOutcome::Failed(error) => Some(format!("snapshot {} does not copy: {error}", kept.id)),
                _ => None,
            }),
        };
        self.judge(&kept, broken);
        for (_, id) in copies(&done.unwrap_or_default()) {
            let info = destination.snapshot(&id.to_string()).unwrap();
            // What was copied is right, even if its source was forgotten meanwhile.
            let broken = compare(&destination, &info, &kept, self.trees);
            let mut known = self.known.lock().unwrap();
            known.seen.copied += 1;
            known.broken = known.broken.take().or(broken.map(Broken::Lost));
        }
    }
}

/// Returns the snapshots that were copied, and the ids of the copies.
fn copies(summary: &CopySummary) -> Vec<(&SnapshotInfo, FileId)> {
    let copied = summary.snapshots.iter().filter_map(|copied| match &copied.outcome {
        CopyOutcome::Copied(summary) => Some((&copied.source, summary.id?)),
        _ => None,
    });
    copied.collect()
}
