//! Archives whose numbers do not fit into 32 bits, read by another program.

use std::io::{Read, Seek, SeekFrom, Write};
use std::process::Command;

use ibid_format::content::Content;
use ibid_format::tree::{EntryKind, Time, TreeEntry};

use super::zip::ZipWriter;
use crate::scratch::Scratch;

fn file(name: &str) -> TreeEntry {
    TreeEntry {
        name: name.as_bytes().to_vec(),
        kind: EntryKind::File(Content::empty()),
        mode: 0o640,
        uid: 1,
        gid: 2,
        mtime: Time::default(),
        ctime: Time::default(),
        inode: 1,
        changed_while_read: false,
        hard_link_device: None,
        inode_flags: Default::default(),
        xattrs: Vec::new(),
    }
}

/// Entries that begin behind 4 GiB, with sizes of 64 bits, and more of them than 16 bits count.
#[test]
fn a_zip_archive_of_any_size_is_read_by_others() {
    const START: u64 = 5 << 30;
    const ENTRIES: usize = 70_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.zip");
    let mut out = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    // A hole, which nothing reads: the archive continues the file.
    out.seek(SeekFrom::Start(START)).unwrap();
    let scratch = Scratch::tiny(folder.path());
    let mut zip = ZipWriter::starting_at(&mut out, &scratch, START, 1000);
    for number in 0..ENTRIES {
        let name = format!("folder/{number}");
        assert!(zip.add(name.as_bytes(), &file(&name), None).is_ok());
    }
    for (name, length) in [("short", 999), ("long", 1000)] {
        let mut contents = std::io::repeat(b'x').take(length);
        assert!(
            zip.add_file(name.as_bytes(), &file(name), &mut contents, length)
                .is_ok()
        );
    }
    zip.finish().unwrap();
    out.flush().unwrap();
    drop(out);
    let script = "
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive:
    names = archive.namelist()
    assert len(names) == 70002 and names[1] == 'folder/1', len(names)
    assert archive.testzip() is None
    assert archive.read('short') == b'x' * 999 and archive.read('long') == b'x' * 1000
    assert archive.getinfo('long').header_offset > 5 << 30
";
    let ran = Command::new("python3")
        .args(["-c", script])
        .arg(&path)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
