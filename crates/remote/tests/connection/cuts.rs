//! Connections that are lost after every number of bytes, in each direction: before, while and after anything is done.

use ibid_storage::{Error, ErrorKind, Memory, Storage};

use crate::{Cut, Host, memory, name, objects};

type Outcome = Result<String, ErrorKind>;

fn outcome<T: std::fmt::Debug>(result: Result<T, Error>) -> Outcome {
    result.map(|found| format!("{found:?}")).map_err(|error| error.kind())
}

/// Calls each method; returns what came of it.
fn script(client: &dyn Storage) -> Vec<Outcome> {
    let mut part = [0; 3];
    let mut names = Vec::new();
    let mut outcomes = vec![
        outcome(client.put(&name("folder/a"), &[b"first ", b"object"])),
        outcome(client.put(&name("folder/a"), &[b"another"])),
        outcome(client.put(&name("empty"), &[])),
        outcome(client.get(&name("folder/a"), 100)),
        outcome(client.get(&name("folder/a"), 3)),
        outcome(client.read_at(&name("folder/a"), 6, &mut part)),
        outcome(client.read_at(&name("folder/a"), 10, &mut part)),
        outcome(client.size(&name("folder/a"))),
        outcome(client.settle(&name("folder/a"))),
        outcome(client.delete(&name("empty"))),
        outcome(client.get(&name("empty"), 1)),
        outcome(client.put(&name("folder/b"), &[&[3; 40]])),
        outcome(client.list("folder", &mut |name, size| names.push((name.to_string(), size)))),
    ];
    names.sort();
    outcomes.push(Ok(format!("{part:?} {names:?}")));
    outcomes
}

/// Runs the script over connections that are lost so; returns how many there were.
#[track_caller]
fn cut(expected: &(Vec<Outcome>, Vec<(String, Vec<u8>)>), cuts: &[Cut]) -> u64 {
    let (host, stored) = memory();
    let client = host.client();
    // The first connection is whole until here, so that the number of bytes is that of the script.
    host.cut(cuts.iter().copied());
    drop(client);
    let client = host.client();
    assert_eq!(script(&client), expected.0, "{cuts:?}");
    assert_eq!(objects(&stored), expected.1, "{cuts:?}");
    host.dials() - 1
}

#[test]
fn nothing_is_lost_wherever_a_connection_is() {
    let plain = Memory::new();
    let expected = (script(&plain), objects(&plain));
    let (host, _) = memory();
    let client = host.client();
    script(&client);
    let up = client.requests().sent_bytes;
    let down = client.requests().received_bytes;
    assert!((300..2000).contains(&up) && (200..2000).contains(&down), "{up} {down}");
    let mut lost = 0;
    for at in 0..up {
        lost += cut(&expected, &[Cut::up(at)]) - 1;
    }
    assert_eq!(lost, up, "each was lost once");
    lost = 0;
    for at in 0..down {
        lost += cut(&expected, &[Cut::down(at)]) - 1;
    }
    assert!(
        lost >= down - 60,
        "each was lost once, but for what came after the last answer: {lost} of {down}"
    );
}

#[test]
fn nothing_is_lost_with_connections_that_are_lost_again_and_again() {
    let plain = Memory::new();
    let expected = (script(&plain), objects(&plain));
    for at in [60, 90, 130, 200, 280] {
        // The second one in its first answer after the opening.
        let cuts = [Cut::up(at), Cut::down(53)];
        assert!(cut(&expected, &cuts) >= 3);
    }
}

#[test]
fn an_object_that_is_on_its_way_is_sent_again() {
    let bytes = crate::noise(300_000, 1);
    for at in [100, 65_000, 66_000, 150_000, 299_000, 300_050] {
        for cut in [Cut::up(at), Cut::down(at)] {
            let (host, stored) = memory();
            host.cut([cut]);
            let client = host.client();
            client.put(&name("large"), &[&bytes]).unwrap();
            assert!(client.get(&name("large"), 300_000).unwrap() == bytes);
            assert!(stored.get(&name("large"), 300_000).unwrap() == bytes);
            assert_eq!(host.dials(), 2, "{cut:?}");
            assert!(client.requests().again >= 1);
        }
    }
}

#[test]
fn another_object_is_not_taken_for_one_whose_answer_was_lost() {
    let (host, stored) = memory();
    let client = host.client();
    client.put(&name("a"), &[b"first"]).unwrap();
    drop(client);
    // The put of other bytes is refused, and this answer lost: after greeting and opening.
    let opened = {
        let client = host.client();
        client.requests().received_bytes
    };
    host.cut([Cut::down(opened + 3)]);
    let client = host.client();
    let error = client.put(&name("a"), &[b"other"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(client.requests().again, 1, "{:?}", client.requests());
    assert_eq!(stored.get(&name("a"), 10).unwrap(), b"first");
}

#[test]
fn a_host_that_is_never_reached_is_given_up_soon_and_one_that_was_is_not() {
    let (host, _) = memory();
    let nothing = Cut::down(0);
    host.cut([nothing; 10]);
    let client = host.client_with(&crate::options());
    let error = client.open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(
        error.to_string(),
        "cannot open ssh://host/place: the connection was cut; tried 3 times"
    );
    assert_eq!(host.dials(), 3);

    let (host, _) = memory();
    host.cut([Cut::down(52), nothing, nothing, nothing, nothing]);
    let client = host.client();
    client.put(&name("a"), &[b"bytes"]).unwrap();
    assert_eq!(host.dials(), 6);
}

#[test]
fn what_fails_on_the_other_machine_is_told_as_there() {
    use ibid_storage::Operation;
    use ibid_storage::fault::{Flaky, ObjectFault};
    let flaky = Flaky::new(Memory::new());
    flaky.fail_always(Operation::Put, ObjectFault::Before(ErrorKind::NoSpace));
    let client = Host::new(flaky).client();
    let error = client.put(&name("a/b"), &[b"bytes"]).unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::NoSpace, Operation::Put));
    assert_eq!(error.name(), Some(&name("a/b")));
    let text = error.to_string();
    assert!(text.starts_with("cannot store a/b in ssh://host/place: "), "{text}");
}
