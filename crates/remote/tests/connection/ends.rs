//! Servers end with their clients.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use ibid_storage::Storage;

use crate::{Cut, memory, name};

#[test]
fn a_client_that_is_dropped_and_a_connection_that_is_lost_end_their_servers() {
    let (host, _) = memory();
    let still_open = host.client();
    host.cut([Cut::up(60), Cut::down(53)]);
    let client = host.client();
    client.put(&name("a"), &[b"bytes"]).unwrap();
    client.size(&name("a")).unwrap();
    drop(client);
    let begun = Instant::now();
    while host.line.ended.load(Relaxed) + 1 < host.dials() {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?} of {}",
            host.line.ended,
            host.dials()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(host.dials() >= 4);
    still_open.put(&name("b"), &[b"bytes"]).unwrap();
}
