//! Any bytes as what the other side of a connection sends: they are decoded, and encoded as the same bytes, or refused,
//! and a server survives them.
//!
//! The modules are taken by their paths: what else is in `ibid-remote` needs a hundred crates.

#![no_main]
#![allow(dead_code, reason = "a client needs more of these modules")]

#[path = "../../crates/remote/src/connection/answer.rs"]
mod answer;
#[path = "../../crates/remote/src/connection/append_only.rs"]
mod append_only;
#[path = "../../crates/remote/src/connection/budget.rs"]
mod budget;
#[path = "../../crates/remote/src/connection/decode.rs"]
mod decode;
#[path = "../../crates/remote/src/connection/execute.rs"]
mod execute;
#[path = "../../crates/remote/src/connection/frame.rs"]
mod frame;
#[path = "../../crates/remote/src/connection/fuzzing.rs"]
mod fuzzing;
#[path = "../../crates/remote/src/connection/greeting.rs"]
mod greeting;
#[path = "../../crates/remote/src/connection/line.rs"]
mod line;
#[path = "../../crates/remote/src/connection/request.rs"]
mod request;
#[path = "../../crates/remote/src/connection/server.rs"]
mod server;
#[path = "../../crates/remote/src/connection/serving.rs"]
mod serving;

use std::io;
use std::sync::Arc;

use fuzzing::{decode_answers, decode_requests};
use ibid_storage::{Memory, Name, Storage};
use libfuzzer_sys::fuzz_target;
use server::serve;
use serving::{Opened, ServeOptions};

fuzz_target!(|bytes: &[u8]| {
    let _ = (decode_requests(bytes), decode_answers(bytes));
    let greeted = [b"ibidcon\x01\x00", bytes].concat();
    for append_only in [false, true] {
        let memory = Arc::new(Memory::new());
        let config = Name::new("config").expect("a name");
        memory.put(&config, &[b"bytes"]).expect("memory has room");
        let open = |_| Ok(Opened::new(memory.clone()));
        let options = ServeOptions::default().append_only(append_only);
        let _ = serve(&open, &greeted[..], io::sink(), &options);
        if append_only {
            assert_eq!(memory.get(&config, 5).expect("it can't be deleted"), b"bytes");
        }
    }
});
