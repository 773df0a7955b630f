//! Archives of snapshots, read by the programs that people use for them.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use ibid_repo::{ArchiveFormat, Error, Monitor, Repository, Warning};

use crate::support;
use crate::support::{Folder, backup, contents, difference, noise, repository, same_tree};

/// Extracts bytes with a program that reads the archive from standard input.
fn extract(archive: &[u8], command: &[&str], into: &Path) {
    use std::io::Write;
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .current_dir(into)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(archive).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success() && said.is_empty(), "{command:?}: {said}");
}

fn archive(repository: &Repository, path: &Path, format: ArchiveFormat) -> (Vec<u8>, Vec<String>) {
    let left_out = Arc::new(Mutex::new(Vec::new()));
    let noted = left_out.clone();
    let monitor = Arc::new(Monitor::new(move |warning| match warning {
        Warning::Skipped { path, .. } => {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            noted.lock().unwrap().push(name);
        }
        other => panic!("{other:?}"),
    }));
    let snapshot = repository.snapshot("latest").unwrap();
    let mut out = Vec::new();
    let summary = repository
        .watched_by(&monitor)
        .archive(snapshot.at(path), format, &mut out)
        .unwrap();
    let left_out = left_out.lock().unwrap().clone();
    assert_eq!(summary.left_out, left_out.len() as u64);
    (out, left_out)
}

/// Adds what only long records can say.
fn with_long_names(folder: &Folder) {
    let deep = format!("{}/{}", "d".repeat(200), "e".repeat(200));
    folder.write(format!("{deep}/file"), b"far below");
    std::os::unix::fs::symlink("t".repeat(300), folder.path().join("long link")).unwrap();
    std::fs::hard_link(folder.path().join(format!("{deep}/file")), folder.path().join("near")).unwrap();
    let old = std::fs::FileTimes::new()
        .set_modified(std::time::UNIX_EPOCH - std::time::Duration::new(1_000_000, 250_000_000));
    folder.write("before 1970", b"old");
    std::fs::File::open(folder.path().join("before 1970"))
        .unwrap()
        .set_times(old)
        .unwrap();
}

#[test]
fn tar_extracts_what_a_restore_gives() {
    let folder = Folder::with_everything();
    with_long_names(&folder);
    let repository = repository();
    backup(&repository, folder.path());
    let (bytes, left_out) = archive(&repository, folder.path(), ArchiveFormat::Tar);
    assert_eq!(left_out, ["socket"]);
    let out = Folder::new();
    extract(
        &bytes,
        &[
            "tar",
            "--xattrs",
            "--xattrs-include=*",
            "--warning=no-timestamp",
            "-xpf",
            "-",
        ],
        out.path(),
    );
    std::fs::remove_file(folder.path().join("socket")).unwrap();
    // Holes are zeros in an archive.
    for name in ["sparse", "small sparse"] {
        let read = |folder: &Folder| std::fs::read(folder.path().join(name)).unwrap();
        assert!(read(&folder) == read(&out), "{name}");
        for folder in [&folder, &out] {
            std::fs::remove_file(folder.path().join(name)).unwrap();
        }
    }
    same_tree(folder.path(), out.path());
    let inode = |name: &str| std::fs::metadata(out.path().join(name)).unwrap().ino();
    assert_eq!(inode("hard link"), inode("text/same"));
}

#[test]
fn zip_extracts_the_same_files_with_their_modes() {
    let folder = Folder::with_everything();
    with_long_names(&folder);
    let repository = repository();
    backup(&repository, folder.path());
    let (bytes, left_out) = archive(&repository, folder.path(), ArchiveFormat::Zip);
    assert_eq!(left_out, ["fifo", "socket"]);
    let out = Folder::new();
    // What `unzip` does, without a length of names that it cuts and questions that it asks.
    let script = "
import io, os, stat, sys, zipfile
with zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read())) as archive:
    assert archive.testzip() is None
    for entry in archive.infolist():
        name = entry.orig_filename.encode('utf-8' if entry.flag_bits & 0x800 else 'cp437')
        mode = entry.external_attr >> 16
        os.makedirs(os.path.dirname(name) or b'.', exist_ok=True)
        if entry.is_dir():
            os.makedirs(name, exist_ok=True)
        elif stat.S_ISLNK(mode):
            os.symlink(archive.read(entry), name)
        else:
            with open(name, 'wb') as file:
                file.write(archive.read(entry))
        if not stat.S_ISLNK(mode):
            os.chmod(name, stat.S_IMODE(mode) | 0o700 * entry.is_dir())
";
    extract(&bytes, &["python3", "-c", script], out.path());
    for name in ["fifo", "socket"] {
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
    assert_eq!(difference(&contents(folder.path()), &contents(out.path())), None);
    let mode = |folder: &Folder| {
        std::fs::metadata(folder.path().join("small"))
            .unwrap()
            .permissions()
            .mode()
    };
    assert_eq!(mode(&folder), mode(&out));
}

#[test]
fn one_file_is_an_archive_too_and_has_its_own_name() {
    let folder = Folder::new();
    folder.write("deep/file", &noise(1, 3_000_000));
    let repository = repository();
    backup(&repository, folder.path());
    for (format, list) in [
        (ArchiveFormat::Tar, &["tar", "-xf", "-"][..]),
        (
            ArchiveFormat::Zip,
            &[
                "python3",
                "-c",
                "import io,sys,zipfile; zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read())).extractall()",
            ],
        ),
    ] {
        let out = Folder::new();
        let (bytes, _) = archive(&repository, &folder.path().join("deep/file"), format);
        extract(&bytes, list, out.path());
        assert!(std::fs::read(out.path().join("file")).unwrap() == noise(1, 3_000_000));
    }
    let snapshot = repository.snapshot("latest").unwrap();
    let missing = repository.archive(snapshot.at("none"), ArchiveFormat::Tar, Vec::new());
    assert!(matches!(missing, Err(Error::NoSuchPath { .. })));
}

/// Output that fails after so many bytes.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        self.0 = self
            .0
            .checked_sub(buffer.len())
            .ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_archive_that_cannot_be_completed_is_an_error_and_has_no_end() {
    let folder = Folder::new();
    for number in 0..20u64 {
        folder.write(format!("{number:02}"), &noise(number, 300_000));
    }
    let storage = tempfile::tempdir().unwrap();
    let local = Arc::new(ibid_storage::Local::create(storage.path()).unwrap());
    let repository = Repository::init(local, Some(b"secret"), &support::quick()).unwrap();
    backup(&repository, folder.path());
    let snapshot = repository.snapshot("latest").unwrap();
    let formats = [ArchiveFormat::Tar, ArchiveFormat::Zip];
    for format in formats {
        let full = repository.archive(snapshot.at(folder.path()), format, Full(1_000_000));
        assert!(matches!(full, Err(Error::Pipe { .. })), "{full:?}");
    }
    // A byte in the middle of the largest pack: data, since trees are much smaller.
    let packs = contents(&storage.path().join("packs"));
    let size = |path: &Path| {
        std::fs::metadata(storage.path().join("packs").join(path))
            .unwrap()
            .len()
    };
    let pack = packs
        .keys()
        .filter(|path| path.components().count() == 2)
        .max_by_key(|path| size(path))
        .unwrap();
    let pack = storage.path().join("packs").join(pack);
    let mut bytes = std::fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::set_permissions(&pack, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(&pack, &bytes).unwrap();
    let local = Arc::new(ibid_storage::Local::open(storage.path()).unwrap());
    let repository = Repository::open(local, Some(b"secret")).unwrap();
    for (format, list) in formats.into_iter().zip([
        &["tar", "-tf", "-"][..],
        &[
            "python3",
            "-c",
            "import io,sys,zipfile; zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read()))",
        ],
    ]) {
        let mut out = Vec::new();
        let damaged = repository.archive(snapshot.at(folder.path()), format, &mut out);
        assert!(
            matches!(damaged, Err(Error::ChunkDamaged { .. } | Error::Damaged { .. })),
            "{damaged:?}"
        );
        assert!(out.len() > 100_000, "what was read before is written");
        let file = storage.path().join("archive");
        std::fs::write(&file, &out).unwrap();
        let read = Command::new(list[0])
            .args(&list[1..])
            .stdin(std::fs::File::open(&file).unwrap())
            .output();
        assert!(!read.unwrap().status.success(), "{format:?} looks complete");
    }
}
