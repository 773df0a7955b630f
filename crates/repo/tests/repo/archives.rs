//! When an archive changes only in its headers, its large members are not stored again.

use ibid_repo::{Repository, Similarity, Stream};

use crate::support;
use crate::support::{noise, options, repository};

const MEMBER: usize = 200 << 10;

/// Returns a tar file with members of 200 KiB, all with this time.
fn tar(members: u64, time: u64) -> Vec<u8> {
    let mut archive = Vec::new();
    for number in 0..members {
        let mut header = [0; 512];
        header[..6].copy_from_slice(format!("f{number:05}").as_bytes());
        header[124..136].copy_from_slice(format!("{MEMBER:011o}\0").as_bytes());
        header[136..148].copy_from_slice(format!("{time:011o}\0").as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend(header);
        archive.extend(noise(number, MEMBER));
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

/// Returns the bytes of new chunks when the archive is backed up without deltas.
fn new_bytes(repository: &Repository, archive: &[u8], as_stream: bool) -> u64 {
    let folder = support::scratch();
    let file = folder.path().join("a.tar");
    let options = options(&file).similarity(Similarity::Off);
    let summary = if as_stream {
        let stream = Stream::new("a.tar", std::io::Cursor::new(archive.to_vec()));
        repository.backup_stream(stream, &options)
    } else {
        std::fs::write(&file, archive).unwrap();
        repository.backup(&options)
    };
    let summary = summary.unwrap();
    assert_eq!(summary.counters.unreadable, 0);
    summary.counters.new_bytes
}

#[test]
fn other_times_in_all_headers_cost_little_more_than_the_headers() {
    // The first archive is read as a small file, together with others; the rest in pieces.
    for (members, as_stream) in [(4, false), (30, false), (30, true)] {
        let repository = repository();
        let first = new_bytes(&repository, &tar(members, 1), as_stream);
        let again = new_bytes(&repository, &tar(members, 0o1_234_567), as_stream);
        assert!(first > members * MEMBER as u64, "{first}");
        // Headers, and lists of chunks.
        assert!(
            again < first / 50,
            "{members} members: {again} of {first} bytes are new"
        );
    }
}
