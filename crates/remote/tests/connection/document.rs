//! The example of `docs/format/connection.md` is what the code sends.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::{io, thread};

use ibid_remote::connection::{
    Dial, Ended, Ending, HostStorage, Opened, ServeOptions, Streams, decode_answers, decode_requests, serve,
};
use ibid_storage::{ErrorKind, Memory, Storage};

use crate::{name, options};

const DOCUMENT: &str = include_str!("../../../../docs/format/connection.md");

/// Returns the bytes of an example. A line is hexadecimal pairs, then two spaces and a comment.
fn example(side: &str) -> Vec<u8> {
    let (_, block) = DOCUMENT.split_once(&format!("```hex {side}\n")).unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let pairs = block
        .lines()
        .flat_map(|line| line.split("  ").next().unwrap().split(' '));
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Returns the greeting with the version of the program left out, and each message.
fn messages(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (greeting, mut rest) = bytes.split_at(9 + usize::from(bytes[8]));
    let mut found = vec![greeting[..8].to_vec()];
    while !rest.is_empty() {
        let length = 4 + u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
        found.push(rest[..length].to_vec());
        rest = &rest[length..];
    }
    found
}

/// The storage of the example.
fn stored() -> Memory {
    let memory = Memory::new();
    memory.put(&name("config"), &[b"conf!"]).unwrap();
    memory
}

#[test]
fn a_server_answers_as_the_document_says() {
    let (requests, answers) = (example("client"), example("server"));
    assert_eq!(decode_requests(&requests[15..]), Ok(5));
    assert_eq!(decode_answers(&answers[15..]), Ok(5));
    let memory = Memory::new();
    memory.put(&name("config"), &[b"-onf-"]).unwrap();
    let open = |_| Ok(Opened::new(Arc::new(memory.clone())));
    let mut found = Vec::new();
    // All is answered before the stream ends.
    let (here, there) = UnixStream::pair().unwrap();
    let writer = thread::spawn(move || {
        let mut here = here;
        here.write_all(&requests).unwrap();
        thread::sleep(std::time::Duration::from_millis(200));
    });
    serve(&open, &there, &mut found, &ServeOptions::default()).unwrap();
    writer.join().unwrap();
    let (mut found, mut expected) = (messages(&found), messages(&answers));
    // Answers come in any order, but the greeting and what is opened come first.
    assert_eq!(found[..2], expected[..2]);
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(memory.get(&name("a/b"), 10).unwrap(), b"hall");
}

/// Takes what a client sends, and answers as the document says.
#[derive(Clone)]
struct Recorded(Arc<std::sync::Mutex<Vec<u8>>>);

struct Nothing;

impl Ending for Nothing {
    fn end(&mut self, _by_itself: bool) -> Ended {
        Ended::new("the end")
    }
}

struct Recorder {
    to: UnixStream,
    recorded: Recorded,
}

impl Write for Recorder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.recorded.0.lock().unwrap().extend_from_slice(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Dial for Recorded {
    fn dial(&self) -> Result<Streams, Ended> {
        let (here, there) = UnixStream::pair().unwrap();
        let to = here.try_clone().unwrap();
        thread::spawn(move || {
            let open = |_| Ok(Opened::new(Arc::new(stored())));
            let _ = serve(&open, &there, &there, &ServeOptions::default());
        });
        Ok(Streams {
            answers: Box::new(here),
            requests: Box::new(Recorder {
                to,
                recorded: self.clone(),
            }),
            ending: Box::new(Nothing),
        })
    }
}

#[test]
fn a_client_asks_as_the_document_says() {
    let recorded = Recorded(Arc::default());
    let client = HostStorage::new(recorded.clone(), "ssh://host/place", &options());
    client.open().unwrap();
    client.read_at(&name("config"), 1, &mut [0; 3]).unwrap();
    client.put(&name("a/b"), &[b"hall"]).unwrap();
    assert_eq!(client.size(&name("c")).unwrap_err().kind(), ErrorKind::NotFound);
    let mut expected = messages(&example("client"));
    // The client sends an object as small as this with its request.
    let more = expected.remove(4);
    expected[3].extend_from_slice(&more[9..]);
    expected[3][0] += 2;
    assert_eq!(messages(&recorded.0.lock().unwrap()), expected);
}
