//! Slow lines, and lines on which nothing comes.

use std::time::{Duration, Instant};

use ibid_remote::connection::ServeOptions;
use ibid_storage::fault::Flaky;
use ibid_storage::{ErrorKind, Memory, Operation, Storage};

use crate::{Host, memory, name, options};

#[test]
fn a_server_that_says_nothing_is_given_up_and_one_that_is_slow_is_not() {
    let flaky = Flaky::new(Memory::new());
    flaky.delay(Operation::Put, Duration::from_millis(700));
    let mut host = Host::new(flaky);
    let quick = options().stall(Duration::from_millis(300)).patience(Duration::ZERO);
    let client = host.client_with(&quick);
    client.open().unwrap();
    client.put(&name("a"), &[b"slow"]).unwrap();
    assert_eq!(host.dials(), 1, "it said that it is alive");

    host.options = ServeOptions::default().alive(Duration::from_secs(60));
    let client = host.client_with(&quick);
    client.open().unwrap();
    let begun = Instant::now();
    let error = client.put(&name("b"), &[b"stalls"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(
        error.to_string().contains("nothing came for 0 s; tried 3 times"),
        "{error}"
    );
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[test]
fn a_connection_that_stalled_while_it_was_idle_is_made_again() {
    let (mut host, _) = memory();
    host.options = ServeOptions::default().alive(Duration::from_secs(60));
    let client = host.client_with(&options().stall(Duration::from_millis(100)));
    client.open().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    client.put(&name("a"), &[b"bytes"]).unwrap();
    assert_eq!(host.dials(), 2);
}

#[test]
fn no_more_is_sent_and_received_than_is_allowed() {
    let (host, _) = memory();
    let client = host.client_with(&options().upload(Some(1 << 20)).download(Some(2 << 20)));
    client.create().unwrap();
    let bytes = vec![1; 400 << 10];
    let begun = Instant::now();
    client.put(&name("a"), &[&bytes]).unwrap();
    let up = begun.elapsed();
    let begun = Instant::now();
    client.get(&name("a"), 1 << 20).unwrap();
    let down = begun.elapsed();
    assert!((0.3..1.5).contains(&up.as_secs_f64()), "{up:?}");
    assert!((0.15..0.8).contains(&down.as_secs_f64()), "{down:?}");
}

#[test]
fn many_threads_share_one_connection() {
    let (host, stored) = memory();
    let client = host.client();
    // More at once than the server takes, in requests and in bytes: the client waits.
    std::thread::scope(|scope| {
        for thread in 0..300 {
            let client = &client;
            scope.spawn(move || client.put(&name(&format!("small/{thread}")), &[&[1; 100]]).unwrap());
        }
        for thread in 0..5 {
            let client = &client;
            scope.spawn(move || {
                client
                    .put(&name(&format!("large/{thread}")), &[&vec![1; 40 << 20]])
                    .unwrap()
            });
        }
    });
    assert_eq!(crate::objects(&stored).len(), 305);
    assert_eq!(host.dials(), 1);
}
