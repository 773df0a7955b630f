//! A sweep removes the files that killed processes left, and no file that is being written.

use std::fs;
use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ibid_storage::disk::{Access, Disk, FolderEntry, OsDisk, OsFile};
use ibid_storage::fault::{Call, DiskFault, FaultDisk};
use ibid_storage::{Local, Name, SWEEP_AGE, Storage, Swept};

const CHILD: &str = "IBID_TEST_CHILD";

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// The real disk, except that a sync reports its start and never ends.
struct Stuck;

impl Disk for Stuck {
    type File = OsFile;

    fn sync(&self, _: &OsFile) -> io::Result<()> {
        writeln!(io::stdout(), "\nwriting")?;
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    fn create_new(&self, path: &Path) -> io::Result<OsFile> {
        OsDisk.create_new(path)
    }
    fn open(&self, path: &Path, access: Access) -> io::Result<OsFile> {
        OsDisk.open(path, access)
    }
    fn lock(&self, file: &OsFile) -> io::Result<bool> {
        OsDisk.lock(file)
    }
    fn write(&self, file: &mut OsFile, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        OsDisk.write(file, parts)
    }
    fn rename_noreplace(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsDisk.rename_noreplace(from, to)
    }
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        OsDisk.make_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        OsDisk.sync_dir(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        OsDisk.remove(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        OsDisk.list(path)
    }
    fn read_at(&self, file: &OsFile, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        OsDisk.read_at(file, offset, buffer)
    }
    fn length(&self, file: &OsFile) -> io::Result<u64> {
        OsDisk.length(file)
    }
    fn age(&self, file: &OsFile) -> io::Result<Duration> {
        OsDisk.age(file)
    }
    fn unique(&self) -> io::Result<u128> {
        OsDisk.unique()
    }
}

/// The child process of another test.
#[test]
fn child() {
    if let Some(root) = std::env::var_os(CHILD) {
        let place = Local::open_on(Stuck, PathBuf::from(root)).unwrap();
        place.put(&name("object"), &[&[1; 1000]]).unwrap();
    }
}

/// A process in the middle of a `put`.
fn spawn_writer(root: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child", "--exact", "--nocapture"]).env(CHILD, root);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line == "writing"), "the child did not come to write");
    child
}

#[test]
fn the_file_of_a_running_process_stays_and_that_of_a_killed_one_goes() {
    let folder = tempfile::tempdir().unwrap();
    let place = Local::create(folder.path()).unwrap();
    let mut child = spawn_writer(folder.path());
    assert_eq!(
        place.sweep(Duration::ZERO).unwrap(),
        Swept {
            files: 0,
            bytes: 0,
            kept: 1
        }
    );
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(
        place.sweep(SWEEP_AGE).unwrap(),
        Swept {
            files: 0,
            bytes: 0,
            kept: 1
        },
        "it is young"
    );
    assert_eq!(
        place.sweep(Duration::ZERO).unwrap(),
        Swept {
            files: 1,
            bytes: 1000,
            kept: 0
        }
    );
    assert_eq!(fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0);
    place
        .list("", &mut |name, _| panic!("{name} was never finished"))
        .unwrap();
}

#[test]
fn age_counts_from_the_last_write() {
    let disk = FaultDisk::new(1);
    let place = Local::create_on(disk.clone(), "/place").unwrap();
    place.put(&name("first"), &[b"x"]).unwrap();
    let before = disk.operations();
    place.put(&name("second"), &[b"x"]).unwrap();
    let operations = disk.operations() - before;
    disk.crash_at(disk.operations() + operations - 3); // before the sync
    place.put(&name("third"), &[b"x"]).unwrap_err();
    let disk = disk.restart();
    let place = Local::open_on(disk.clone(), "/place").unwrap();
    disk.advance(SWEEP_AGE - Duration::from_secs(1));
    assert_eq!(
        place.sweep(SWEEP_AGE).unwrap(),
        Swept {
            files: 0,
            bytes: 0,
            kept: 1
        }
    );
    disk.advance(Duration::from_secs(1));
    assert_eq!(
        place.sweep(SWEEP_AGE).unwrap(),
        Swept {
            files: 1,
            bytes: 1,
            kept: 0
        }
    );
    assert_eq!(place.sweep(SWEEP_AGE).unwrap(), Swept::default());
    assert_eq!(place.get(&name("first"), 1).unwrap(), b"x");
}

#[test]
fn without_locks_age_alone_decides() {
    let disk = FaultDisk::new(1);
    disk.fail_every(Call::Lock, DiskFault::Unsupported);
    let place = Local::create_on(disk.clone(), "/place").unwrap();
    place.put(&name("object"), &[b"x"]).unwrap();
    disk.create_new(Path::new("/place/tmp/0123456789abcdef0123456789abcdef"))
        .unwrap();
    assert_eq!(place.sweep(SWEEP_AGE).unwrap().kept, 1);
    disk.advance(SWEEP_AGE);
    assert_eq!(place.sweep(SWEEP_AGE).unwrap().files, 1);
}

#[test]
fn foreign_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let place = Local::create(folder.path()).unwrap();
    place.put(&name("object"), &[b"x"]).unwrap();
    fs::write(folder.path().join("tmp/notes"), b"mine").unwrap();
    assert_eq!(place.sweep(Duration::ZERO).unwrap(), Swept::default());
    assert!(folder.path().join("tmp/notes").exists());
}

#[test]
fn a_read_only_handle_sweeps_nothing_where_nothing_was_written() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        Local::open(folder.path()).unwrap().sweep(Duration::ZERO).unwrap(),
        Swept::default()
    );
}
