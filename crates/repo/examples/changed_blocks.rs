//! Backs up an image of 100 GB, of which 4 GiB are data, and then 640 changed blocks of 64 KiB: by
//! reading everything, and with a map of the blocks.
//!
//! ```sh
//! cargo run --release -p ibid-repo --example changed_blocks -- /folder/with/10/GB
//! ```
#![allow(clippy::print_stdout, reason = "it prints what it measured")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ibid_repo::{BackupOptions, BackupSummary, ChangedBlocks, InitOptions, LocalStorage, Repository};

const SIZE: u64 = 100_000_000_000;
/// The data are in so many places, evenly spaced.
const PLACES: u64 = 64;
const BLOCK: u64 = 64 << 10;
const BLOCKS_EACH: u64 = 1024;
/// Of the blocks, so many change in each place.
const CHANGED_EACH: u64 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("name an empty folder")?);
    let path = folder.join("disk.raw");
    let image = File::create_new(&path)?;
    image.set_len(SIZE)?;
    let mut random = Random(1);
    let place = |number: u64| number * (SIZE / PLACES) / BLOCK * BLOCK;
    for number in 0..PLACES {
        for block in 0..BLOCKS_EACH {
            image.write_all_at(&random.block(), place(number) + block * BLOCK)?;
        }
    }
    let options = BackupOptions::default().path(&path);
    let repository = repository(&folder, "first")?;
    let first = repository.backup(&options)?;
    report("a first backup", &first);
    copy(&folder.join("first"), &folder.join("second"))?;

    let mut changed = Vec::new();
    for number in 0..PLACES {
        for part in 0..CHANGED_EACH {
            let blocks = BLOCKS_EACH / CHANGED_EACH;
            let offset = place(number) + (part * blocks + random.next() % blocks) * BLOCK;
            image.write_all_at(&random.block(), offset)?;
            changed.push(offset..offset + BLOCK);
        }
    }
    image.sync_all()?;
    let parent = first.id.ok_or("a snapshot")?.to_string();
    report(
        "without a map",
        &repository.backup(&options.clone().parent(parent.clone()))?,
    );
    let storage = Arc::new(LocalStorage::open(folder.join("second"))?);
    let repository = Repository::open(storage, None)?;
    let with_map = options.parent(parent).changed_blocks(ChangedBlocks::new(changed)?);
    report("with a map", &repository.backup(&with_map)?);
    Ok(())
}

fn repository(folder: &Path, name: &str) -> Result<Repository, Box<dyn std::error::Error>> {
    let storage = Arc::new(LocalStorage::create(folder.join(name))?);
    Ok(Repository::init(storage, None, &InitOptions::default())?)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}

fn report(what: &str, summary: &BackupSummary) {
    println!(
        "{what}: {} MiB read, {} MiB taken over, {} MiB written, {} ms",
        summary.read_bytes >> 20,
        summary.taken_over_bytes >> 20,
        summary.written >> 20,
        summary.duration_ms
    );
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    fn block(&mut self) -> Vec<u8> {
        (0..BLOCK / 8).flat_map(|_| self.next().to_le_bytes()).collect()
    }
}
