//! Writes the repositories that every later version must open, into the folder given. For a new
//! version of the format only: what `tests/fixtures` holds is never written again.
//!
//! ```sh
//! cargo run -p ibid-repo --example write_fixtures -- target/fixtures
//! ```

#[path = "../tests/support/versions.rs"]
mod versions;

use std::path::PathBuf;
use std::sync::Arc;

use ibid_format::slot::Argon2Cost;
use ibid_repo::{BackupOptions, InitOptions, Monitor, Repository};
use versions::{PASSWORD, tree};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = PathBuf::from(std::env::args_os().nth(1).ok_or("name a folder to write into")?);
    for (name, password) in [("encrypted", Some(PASSWORD)), ("open", None)] {
        let storage = Arc::new(ibid_storage::Local::create(target.join(name))?);
        let init = InitOptions {
            frame_size: 32 << 10,
            cost: Argon2Cost {
                memory_kib: 64,
                passes: 1,
                lanes: 1,
            },
            ..InitOptions::default()
        };
        let repository = Repository::init(storage, password, &init, 1_790_000_000)?;
        let folder = tempfile::tempdir()?;
        let path = folder.path().canonicalize()?;
        for n in 1..=2 {
            std::fs::create_dir_all(path.join("letters"))?;
            for (name, bytes) in tree(n) {
                std::fs::write(path.join(name), bytes)?;
            }
            let options = BackupOptions {
                paths: vec![path.clone()],
                tags: vec![format!("v{n}")],
                host: Some("fixture".into()),
                program: "ibid 0.1.0".into(),
                force: true,
                ..BackupOptions::default()
            };
            repository.backup(options, &Monitor::silent())?;
        }
    }
    Ok(())
}
