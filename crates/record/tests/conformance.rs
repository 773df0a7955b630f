//! Every engine keeps every promise, even if its process is killed.

use std::path::Path;
use std::process::Command;

use ibid_record::conformance;
use ibid_record::engine::{Commit, Engine, EngineError, Pause, Redb, RedbReader, Sealed, Snapshot, Unused, Work};

/// The engine and the folder of the child process.
const CHILD: &str = "IBID_RECORD_CONFORMANCE_CHILD";

type Opened = Result<Box<dyn Engine>, EngineError>;

fn redb(path: &Path) -> Opened {
    Ok(Box::new(Redb::open(path, 1 << 20)?))
}

#[cfg(feature = "fjall")]
fn fjall(path: &Path) -> Opened {
    Ok(Box::new(ibid_record::engine::Fjall::open(path, 1 << 20)?))
}

fn open(engine: &str, path: &Path) -> Opened {
    match engine {
        "redb" => redb(path),
        #[cfg(feature = "fjall")]
        "fjall" => fjall(path),
        _ => panic!("no engine {engine}"),
    }
}

fn killed(engine: &'static str) {
    let folder = tempfile::tempdir().unwrap();
    conformance::killed(&folder.path().join("engine"), &|path| open(engine, path), 5, |path| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child_process", "--nocapture", "--include-ignored"]);
        command.env(CHILD, format!("{engine}:{}", path.display()));
        command
    });
}

#[test]
#[ignore = "the process that the tests `…_is_killed` start"]
fn child_process() {
    let Ok(child) = std::env::var(CHILD) else { return };
    let (engine, path) = child.split_once(':').unwrap();
    let engine = open(engine, Path::new(path)).unwrap();
    conformance::write_until_killed(&*engine, std::io::stdout());
}

#[test]
fn redb_keeps_its_promises() {
    conformance::run(tempfile::tempdir().unwrap().path(), redb);
}

/// The key is the same at every opening.
#[test]
fn sealed_values_keep_its_promises() {
    let keys = ibid_format::Keys::encrypted(ibid_format::FileId::ZERO, &ibid_format::MasterKey::from_bytes([7; 32]));
    let open = |path: &Path| -> Opened {
        let engine = Redb::open(path, 1 << 20)?;
        Ok(Box::new(Sealed::new(engine, keys.clone(), path)))
    };
    conformance::run(tempfile::tempdir().unwrap().path(), open);
}

/// Writes through one opening, and reads through another one as another process does.
struct ReadBeside {
    reader: RedbReader,
    writer: Redb,
}

impl Engine for ReadBeside {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        self.reader.refresh()?;
        self.reader.snapshot()
    }

    fn write(&self, commit: Commit, work: Work<'_>) -> Result<(), EngineError> {
        self.writer.write(commit, work)?;
        // A reader sees what was synced.
        self.writer.sync()
    }

    fn sync(&self) -> Result<(), EngineError> {
        self.writer.sync()
    }

    fn reclaim(&self, unused: Unused, pause: Pause<'_>) -> Result<(), EngineError> {
        self.writer.reclaim(unused, pause)
    }

    fn shrink(&self) -> Result<(), EngineError> {
        self.writer.shrink()
    }

    fn compact(&self) -> Result<(), EngineError> {
        self.writer.compact()
    }

    fn wipe(&self) -> Result<bool, EngineError> {
        self.writer.wipe()
    }
}

/// In one run all that was written since the opening is in the log, in the other most is in redb's file.
#[test]
fn what_a_reader_beside_the_writer_sees_keeps_its_promises() {
    for log_bytes in [16 << 20, 8 << 10] {
        conformance::run(tempfile::tempdir().unwrap().path(), |path| -> Opened {
            let writer = Redb::open(path, 1 << 20)?
                .with_log_bytes(log_bytes)
                .with_step_changes(2);
            let reader = RedbReader::open(path, 1 << 20)?;
            Ok(Box::new(ReadBeside { reader, writer }))
        });
    }
}

#[test]
fn redb_is_killed() {
    killed("redb");
}

#[cfg(feature = "fjall")]
#[test]
fn fjall_keeps_its_promises() {
    conformance::run(tempfile::tempdir().unwrap().path(), fjall);
}

#[cfg(feature = "fjall")]
#[test]
fn fjall_is_killed() {
    killed("fjall");
}
