//! What every storage promises.

use std::cell::RefCell;
use std::sync::Arc;

use ibid_storage::probe;
use ibid_storage::{ErrorKind, Memory, Operation, Storage, conformance};

use crate::{Host, Place, memory, name, options};

#[test]
fn a_connection_to_memory_conforms() {
    conformance::run(|| Box::new(Host::new(Memory::new()).client()));
}

#[test]
fn a_connection_to_a_folder_conforms() {
    let folders = RefCell::new(Vec::new());
    conformance::run(|| {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::at(Place::Folder(folder.path().join("new/place")));
        folders.borrow_mut().push(folder);
        Box::new(host.client())
    });
}

#[test]
fn a_connection_keeps_its_promises() {
    let folder = tempfile::tempdir().unwrap();
    let client = Host::at(Place::Folder(folder.path().join("place"))).client();
    let report = probe::run(&client, "keys");
    assert!(report.is_ok() && report.left.is_empty(), "{report:?}");
    assert!(client.is_remote() && client.folder().is_none() && client.tells_absence() && !client.is_append_only());
}

#[test]
fn what_is_not_there_is_not_found_until_it_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("place");
    let host = Host::at(Place::Folder(path.clone()));
    let client = host.client_with(&options());
    let error = client.open().unwrap_err();
    assert_eq!(
        (error.kind(), error.operation()),
        (ErrorKind::NotFound, Operation::Open)
    );
    assert_eq!(
        error.to_string(),
        "cannot open ssh://host/place: there is no such folder"
    );
    assert!(!path.exists());
    // What is asked all the same is refused.
    let refused = client.put(&name("a"), &[b"bytes"]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    client.create().unwrap();
    client.create().unwrap();
    client.open().unwrap();
    client.put(&name("a"), &[b"bytes"]).unwrap();
    assert_eq!(std::fs::read(path.join("a")).unwrap(), b"bytes");
    assert_eq!(client.place(), Some(format!("folder {}", path.display())));
    assert_eq!(host.dials(), 1, "all of it over one connection");
}

#[test]
fn a_list_of_many_names_is_complete_and_tells_what_is_no_object() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("place");
    let client = Host::at(Place::Folder(path.clone())).client();
    std::fs::create_dir_all(path.join("packs/taken")).unwrap();
    for number in 0..3000 {
        std::fs::write(path.join(format!("packs/{number:032x}")), vec![0; number % 7]).unwrap();
    }
    let mut listed = Vec::new();
    client
        .list("packs", &mut |name, size| listed.push((name.to_string(), size)))
        .unwrap();
    listed.sort();
    assert_eq!(listed.len(), 3000);
    for (number, (name, size)) in listed.iter().enumerate() {
        assert_eq!((name, *size), (&format!("packs/{number:032x}"), number as u64 % 7));
    }
    let mut taken = Vec::new();
    client
        .list_taken("packs", &mut |name| taken.push(name.to_string()))
        .unwrap();
    assert_eq!(taken, ["packs/taken"]);
}

#[test]
fn objects_larger_than_any_message_go_whole_and_in_parts_of_any_shape() {
    let (host, stored) = memory();
    let client = host.client();
    let bytes = crate::noise(5 << 20, 1);
    // Parts that end within, at and after pieces.
    let cuts = [0, 1, 65_535, 65_536, 65_537, 131_072, 1 << 20, 5 << 20];
    let mut parts: Vec<&[u8]> = cuts.windows(2).map(|at| &bytes[at[0]..at[1]]).collect();
    parts.insert(3, b"");
    client.put(&name("large"), &parts).unwrap();
    assert!(stored.get(&name("large"), u64::MAX).unwrap() == bytes);
    assert!(client.get(&name("large"), 5 << 20).unwrap() == bytes);
    let too_large = client.get(&name("large"), (5 << 20) - 1).unwrap_err();
    assert_eq!(too_large.kind(), ErrorKind::TooLarge);
    for (offset, length) in [
        (0, 65_536),
        (1, 65_536),
        (70_000, 200_000),
        (5 << 20, 0),
        ((5 << 20) - 1, 1),
    ] {
        let mut buffer = vec![0; length];
        client.read_at(&name("large"), offset as u64, &mut buffer).unwrap();
        assert!(buffer == bytes[offset..offset + length]);
    }
}

#[test]
fn a_large_object_does_not_hold_up_a_small_request() {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
    use std::time::{Duration, Instant};
    let (host, stored) = memory();
    stored.put(&name("large"), &[&vec![7; 40 << 20]]).unwrap();
    let client = Arc::new(host.client_with(&options().download(Some(20 << 20)).upload(Some(20 << 20))));
    client.open().unwrap();
    let (done, small) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                let begun = Instant::now();
                client.size(&name("large")).unwrap();
                assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
                small.fetch_add(1, Relaxed);
            }
        });
        let bytes = client.get(&name("large"), u64::MAX).unwrap();
        assert!(bytes.len() == 40 << 20);
        done.store(true, Relaxed);
    });
    assert!(small.load(Relaxed) >= 5, "{small:?} requests beside one that took 2 s");
}

#[test]
fn requests_and_bytes_are_counted_by_kind() {
    let (host, _) = memory();
    let client = host.client();
    for number in 0..5 {
        client.put(&name(&format!("{number}")), &[&[1; 1000]]).unwrap();
    }
    client.get(&name("0"), 1000).unwrap();
    client.read_at(&name("0"), 500, &mut [0; 100]).unwrap();
    client.size(&name("0")).unwrap();
    client.settle(&name("0")).unwrap();
    client.list("", &mut |_, _| ()).unwrap();
    client.delete(&name("0")).unwrap();
    let requests = client.requests();
    let counted = [
        requests.put,
        requests.get,
        requests.head,
        requests.list,
        requests.delete,
        requests.other,
    ];
    // Beside the settle, opening is another one.
    assert_eq!(counted, [5, 2, 1, 1, 1, 2], "{requests:?}");
    assert_eq!(requests.again, 0);
    assert!((5000..6000).contains(&requests.sent_bytes), "{requests:?}");
    assert!((1100..3000).contains(&requests.received_bytes), "{requests:?}");
}
