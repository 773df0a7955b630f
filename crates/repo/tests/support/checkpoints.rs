//! Backups with many checkpoints, interrupted by crashes of a simulated disk, one after another.

use std::time::Duration;

use ibid_repo::{Checkpoint, Checkpoints, PruneOptions, ReadData, Repository};
use ibid_storage::Local;
use ibid_storage::fault::FaultDisk;

use super::crash::{End, PLACE, restores};
use super::place::reached;
use super::{Contents, Folder, Random, contents, noise, options, quick};

/// A tree that does not change, and whose files are old enough to be told from changed ones.
pub struct Interruptions {
    folder: Folder,
    tree: Contents,
    /// Length of all files, bytes.
    pub bytes: u64,
}

/// Observations of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Backups that were interrupted.
    pub crashes: u64,
    /// Files and bytes that the last backup took over from checkpoints.
    pub files: u64,
    pub bytes: u64,
}

impl Interruptions {
    pub fn new() -> Interruptions {
        let folder = Folder::scratch();
        let mut bytes = 0;
        for n in 0..24_u64 {
            let file = noise(n, 5_000 + 700 * n as usize);
            bytes += file.len() as u64;
            folder.write(format!("d{}/e{}/f{n}", n % 3, n % 2), &file);
        }
        // A ctime from just before a backup does not tell later changes, so such a file is read again.
        std::thread::sleep(Duration::from_millis(50));
        let tree = contents(folder.path());
        Interruptions { folder, tree, bytes }
    }

    /// Backs up until the disk has crashed at each of these operations of a backup in turn, then once more.
    pub fn run(&self, crashes: &[u64], seed: u64, end: End) -> Seen {
        let context = format!("crashes at {crashes:?}, seed {seed}, {end:?}");
        let mut random = Random(seed);
        let options = options(self.folder.path()).checkpoints(Checkpoints::Every(1 + random.below(40_000)));
        let mut disk = FaultDisk::new(seed);
        let place = Local::create_on(disk.clone(), PLACE).unwrap();
        let init = quick().frame_size(16 << 10).pack_size(1 << 20);
        let mut repository = Repository::init(reached(place), Some(b"secret"), &init).unwrap();
        let mut seen = Seen::default();
        for at in crashes {
            disk.crash_at(disk.operations() + at);
            let is_done = repository.backup(&options).is_ok();
            seen.crashes += u64::from(!is_done);
            disk = match end {
                // Another seed, or temporary files would get names that are taken.
                End::Power => disk.crash(random.next()),
                End::Kill => disk.restart(),
            };
            let place = Local::open_on(disk.clone(), PLACE).unwrap();
            repository = Repository::open(reached(place), Some(b"secret")).unwrap();
            if is_done {
                break;
            }
            if random.below(3) == 0 {
                // It ends the sessions of the interrupted backups, and frees what no checkpoint needs.
                let impatient = PruneOptions::default()
                    .patience(Duration::ZERO)
                    .cache_age(Duration::ZERO);
                repository
                    .prune(&impatient)
                    .unwrap_or_else(|error| panic!("{context}: {error}"));
            }
        }
        let kept = furthest(&repository, &context).filter(|_| repository.snapshots().unwrap().is_empty());
        let summary = repository
            .backup(&options)
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        if let Some(kept) = kept {
            assert!(
                summary.resumed_files >= kept.files && summary.read_bytes <= self.bytes - kept.bytes,
                "{context}: of {} files and {} bytes, {summary:?}",
                kept.files,
                kept.bytes
            );
        }
        let id = summary.id.unwrap().to_string();
        restores(&repository, &id, self.folder.path(), &self.tree, &context);
        let report = repository.check(ReadData::All).unwrap();
        assert!(report.is_clean(), "{context}: {report:?}");
        assert!(
            furthest(&repository, &context).is_none(),
            "{context}: a checkpoint is left"
        );
        Seen {
            files: summary.resumed_files,
            bytes: summary.resumed_bytes,
            ..seen
        }
    }
}

/// Returns the checkpoint that has most files.
fn furthest(repository: &Repository, context: &str) -> Option<Checkpoint> {
    let checkpoints = repository.checkpoints(|_, error| panic!("{context}: {error}")).unwrap();
    let all = checkpoints.into_iter().map(|info| info.checkpoint);
    all.max_by_key(|checkpoint| checkpoint.files)
}
