//! Writes the fixture repositories, which every later version must open, into the given folder. Run
//! it only for a new version of the format: files in `tests/fixtures` are never changed.
//!
//! ```sh
//! cargo run -p ibid-repo --example write_fixtures -- target/fixtures
//! ```

#[path = "../tests/support/versions.rs"]
mod versions;

use std::path::PathBuf;
use std::sync::Arc;

use ibid_repo::{Argon2Cost, BackupOptions, InitOptions, LocalStorage, Repository, Time};
use versions::{PASSWORD, tree};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = PathBuf::from(std::env::args_os().nth(1).ok_or("name a folder to write into")?);
    for (name, password) in [("encrypted", Some(PASSWORD)), ("open", None)] {
        let storage = Arc::new(LocalStorage::create(target.join(name))?);
        let cost = Argon2Cost {
            memory_kib: 64,
            passes: 1,
            lanes: 1,
        };
        let created = Time {
            seconds: 1_790_000_000,
            nanos: 0,
        };
        let init = InitOptions::default().frame_size(32 << 10).cost(cost).created(created);
        let repository = Repository::init(storage, password, &init)?;
        let folder = tempfile::tempdir()?;
        let path = folder.path().canonicalize()?;
        for n in 1..=2 {
            std::fs::create_dir_all(path.join("letters"))?;
            for (name, bytes) in tree(n) {
                std::fs::write(path.join(name), bytes)?;
            }
            let options = BackupOptions::default()
                .path(&path)
                .tags(vec![format!("v{n}")])
                .host("fixture".to_owned())
                .program("ibid 0.1.0")
                .force(true);
            repository.backup(&options)?;
        }
    }
    Ok(())
}
