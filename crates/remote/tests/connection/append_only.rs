//! What a client can do that can only add, with what an attacker who has its key would try.

use ibid_remote::connection::{AppendOnly, HostStorage};
use ibid_storage::{ErrorKind, Memory, Storage, probe};

use crate::{Cut, Host, memory, name, options};

const ID: &str = "0123456789abcdef0123456789abcdef";

fn append_only() -> (HostStorage, Host, Memory) {
    let (mut host, stored) = memory();
    for there in [
        "config",
        "prune/1",
        "damaged/packs/1",
        "keys/old",
        "packs/old",
        "index/old",
        "snapshots/old",
    ] {
        stored.put(&name(there), &[b"there"]).unwrap();
    }
    for there in [
        "sessions/running",
        "sessions/old",
        "checkpoints/old",
        "sketches/old",
        "forgotten/old",
    ] {
        stored.put(&name(there), &[b"there"]).unwrap();
    }
    host.options = host.options.append_only(true);
    (host.client(), host, stored)
}

fn at(folder: &str) -> String {
    format!("{folder}/{ID}")
}

#[track_caller]
fn denied(result: Result<(), ibid_storage::Error>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(
        error.is_append_only() && error.to_string().contains("served as append-only"),
        "{error}"
    );
}

#[test]
fn a_backup_can_store_and_delete_what_it_has_to() {
    let (client, _, stored) = append_only();
    assert!(client.is_append_only());
    client.put(&name(&at("sessions")), &[b"begins"]).unwrap();
    for folder in ["packs/01", "index", "sketches", "checkpoints"] {
        client.put(&name(&at(folder)), &[b"bytes"]).unwrap();
    }
    client.delete(&name(&at("checkpoints"))).unwrap();
    client.delete(&name("checkpoints/old")).unwrap();
    client.put(&name(&at("snapshots")), &[b"ends"]).unwrap();
    client.delete(&name(&at("sessions"))).unwrap();
    assert_eq!(
        stored.size(&name(&at("sessions"))).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    // A session that ended without a snapshot, and the keys of an `init` that came second.
    for folder in ["sessions", "keys"] {
        client.put(&name(&at(folder)), &[b"own"]).unwrap();
        client.delete(&name(&at(folder))).unwrap();
    }
    let report = probe::run(&client, "keys");
    assert!(report.is_ok() && report.left.is_empty(), "{report:?}");
}

#[test]
fn nothing_that_was_there_can_be_deleted_or_changed() {
    let (client, _, stored) = append_only();
    let before = crate::objects(&stored);
    for (there, _) in &before {
        let there = name(there);
        if there.folder() != "checkpoints" && there.as_str() != "sessions/old" {
            denied(client.delete(&there));
        }
        let put = client.put(&there, &[b"other"]).unwrap_err();
        assert!(
            matches!(put.kind(), ErrorKind::AlreadyExists | ErrorKind::PermissionDenied),
            "{put}"
        );
    }
    // `sessions/old` has ended: there is `snapshots/old`.
    client.delete(&name("sessions/old")).unwrap();
    // What one stored before can't be deleted either.
    for folder in ["packs/01", "index", "snapshots", "sketches"] {
        client.put(&name(&at(folder)), &[b"bytes"]).unwrap();
        denied(client.delete(&name(&at(folder))));
    }
    let mut after = crate::objects(&stored);
    after.retain(|(name, _)| !name.contains(ID));
    let mut expected = before;
    expected.retain(|(name, _)| name != "sessions/old");
    assert_eq!(after, expected);
}

#[test]
fn what_decides_on_deletions_cannot_be_stored() {
    let (client, _, stored) = append_only();
    for place in ["prune", "damaged/packs/01", "damaged/index", "forgotten", "other"] {
        denied(client.put(&name(&at(place)), &[]));
    }
    denied(client.put(&name("other"), &[]));
    let listed = crate::objects(&stored);
    assert!(listed.iter().all(|(name, _)| !name.contains(ID)), "{listed:?}");
}

#[test]
fn the_session_of_a_lost_connection_can_be_deleted_once_it_has_ended() {
    let (mut host, stored) = memory();
    host.options = host.options.append_only(true);
    let client = host.client();
    client.put(&name(&at("sessions")), &[b"begins"]).unwrap();
    drop(client);
    host.cut([Cut::default()]);
    let client = host.client_with(&options());
    client.open().unwrap();
    denied(client.delete(&name(&at("sessions"))));
    client.put(&name(&at("snapshots")), &[b"ends"]).unwrap();
    client.delete(&name(&at("sessions"))).unwrap();
    assert_eq!(crate::objects(&stored).len(), 1);
}

#[test]
fn all_else_is_as_in_the_storage() {
    let memory = Memory::new();
    let place = AppendOnly::new(memory.clone());
    place.put(&name("index/a"), &[b"bytes"]).unwrap();
    let mut part = [0; 2];
    place.read_at(&name("index/a"), 1, &mut part).unwrap();
    assert_eq!(
        (place.get(&name("index/a"), 9).unwrap().as_slice(), &part),
        (&b"bytes"[..], b"yt")
    );
    assert_eq!(place.size(&name("index/a")).unwrap(), 5);
    place.settle(&name("index/a")).unwrap();
    let mut listed = 0;
    place.list("index", &mut |_, size| listed += size).unwrap();
    assert_eq!((listed, place.location()), (5, memory.location()));
}

#[test]
fn the_files_of_writers_are_kept_as_those_of_a_repository() {
    let (client, _, stored) = append_only();
    let of = |place: &str| format!("written/{ID}/{place}");
    stored.put(&name(&of("sessions/running")), &[b"there"]).unwrap();
    stored.put(&name(&of("packs/01/old")), &[b"there"]).unwrap();
    // A backup.
    client.put(&name(&of(&at("sessions"))), &[b"begins"]).unwrap();
    for folder in ["packs/01", "index", "snapshots"] {
        client.put(&name(&of(&at(folder))), &[b"bytes"]).unwrap();
        denied(client.delete(&name(&of(&at(folder)))));
    }
    client.delete(&name(&of(&at("sessions")))).unwrap();
    // What others have, and what decides on deletions.
    denied(client.delete(&name(&of("sessions/running"))));
    denied(client.delete(&name(&of("packs/01/old"))));
    for place in ["prune", "damaged/packs", "forgotten"] {
        denied(client.put(&name(&of(&at(place))), &[]));
    }
    // A snapshot elsewhere ends no session here.
    stored.put(&name("snapshots/running"), &[b"there"]).unwrap();
    denied(client.delete(&name(&of("sessions/running"))));
    stored.put(&name(&of("snapshots/running")), &[b"there"]).unwrap();
    client.delete(&name(&of("sessions/running"))).unwrap();
    // A writer is added, and removed; neither is undone.
    for place in [at("writers"), format!("revoked/{ID}/{ID}"), of("config")] {
        client.put(&name(&place), &[b"bytes"]).unwrap();
        denied(client.delete(&name(&place)));
    }
}
