//! Does what a client asks of a storage, and answers.

use std::io::Write;
use std::sync::PoisonError;

use ibid_storage::{Error, ErrorKind, Name, Operation, Storage};

use super::answer::{BEGUN, BYTES, DONE, FAILED, Failed, NAMES, SIZED};
use super::budget::{Budget, Share};
use super::frame::{PIECE, put_name};
use super::request::Request;
use super::server::{Job, Room, Server};

/// Bytes of names that are sent together.
const NAMES_MAX: usize = 32 << 10;

impl<W: Write + Send> Server<'_, W> {
    pub(super) fn fail(&self, number: u32, error: &Error) {
        let _ = self.line.send(number, FAILED, &[&Failed::of(error).encode()]);
    }

    /// Does what is asked, and answers. Where the answer can't be sent, the client is gone.
    pub(super) fn answer(&self, job: Job) {
        let number = job.number;
        let opened = self.storage.read().unwrap_or_else(PoisonError::into_inner);
        let storage = opened.as_ref().map(|(storage, _)| storage.clone());
        drop(opened);
        let done = match storage {
            Some(storage) => self.execute(&*storage, job),
            None => {
                let (request, found) = (&job.request, "it was not opened");
                let (kind, operation) = (ErrorKind::Unsupported, request.operation());
                let error = Error::new(kind, operation, request.name(), "the server").with_found(found);
                if let Request::Put { size, .. } = job.request {
                    self.coming.give(size);
                }
                Err(error)
            }
        };
        self.asked.give(0);
        match done {
            Ok(End::Done) => drop(self.line.send(number, DONE, &[])),
            Ok(End::Sized(size)) => drop(self.line.send(number, SIZED, &[&size.to_le_bytes()])),
            Err(error) => self.fail(number, &error),
        }
    }

    fn execute(&self, storage: &dyn Storage, job: Job) -> Result<End, Error> {
        let number = job.number;
        match job.request {
            Request::Put { name, size } => {
                let parts: Vec<&[u8]> = job.pieces.iter().map(Vec::as_slice).collect();
                let put = storage.put(&name, &parts);
                drop(parts);
                drop((job.pieces, job.room));
                self.coming.give(size);
                put?;
            }
            Request::Get { name, limit } => {
                let size = storage.size(&name).map_err(|error| as_get(error, &name))?;
                if size > limit {
                    return Err(Error::too_large(size, limit, &name, storage.location()));
                }
                let _shares = self.room_to_read(size);
                let bytes = storage.get(&name, limit)?;
                let _ = self.line.send(number, BEGUN, &[&(bytes.len() as u64).to_le_bytes()]);
                self.send_bytes(number, &bytes);
            }
            Request::Read { name, offset, length } => {
                let _shares = self.room_to_read(length);
                let mut bytes = vec![0; length as usize];
                storage.read_at(&name, offset, &mut bytes)?;
                self.send_bytes(number, &bytes);
            }
            Request::Size { name } => return Ok(End::Sized(storage.size(&name)?)),
            Request::List { folder } => {
                let mut names = Names::new(self, number);
                storage.list(&folder, &mut |name, size| names.add(&name, size))?;
                names.send();
            }
            Request::ListTaken { folder } => {
                let mut names = Names::new(self, number);
                storage.list_taken(&folder, &mut |name| names.add(&name, 0))?;
                names.send();
            }
            Request::Settle { name } => storage.settle(&name)?,
            Request::Delete { name } => storage.delete(&name)?,
            Request::Open { .. } => {} // done where requests are read
        }
        Ok(End::Done)
    }

    /// Waits until there is room for bytes of an answer.
    fn room_to_read(&self, bytes: u64) -> (Share<&Budget>, Option<Room>) {
        let own = self.reading.take(bytes);
        let of_all = self
            .neighbours
            .reading
            .as_ref()
            .filter(|_| bytes > self.neighbours.window);
        (own, of_all.map(|room| room.take_shared(bytes)))
    }

    fn send_bytes(&self, number: u32, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE) {
            if self.line.send(number, BYTES, &[piece]).is_err() {
                return;
            }
        }
    }
}

/// How the answer to a request ends.
enum End {
    Done,
    Sized(u64),
}

/// Returns an error of a size as one of the read that it prepared.
fn as_get(error: Error, name: &Name) -> Error {
    let found = Failed::of(&error).found;
    Error::new(error.kind(), Operation::Get, Some(name), error.location()).with_found(found)
}

/// Names on their way to the client.
struct Names<'s, 'o, W> {
    server: &'s Server<'o, W>,
    number: u32,
    fields: Vec<u8>,
}

impl<'s, 'o, W: Write + Send> Names<'s, 'o, W> {
    fn new(server: &'s Server<'o, W>, number: u32) -> Self {
        Names {
            server,
            number,
            fields: Vec::new(),
        }
    }

    fn add(&mut self, name: &Name, size: u64) {
        put_name(&mut self.fields, name.as_str());
        self.fields.extend(size.to_le_bytes());
        if self.fields.len() > NAMES_MAX {
            self.send();
        }
    }

    fn send(&mut self) {
        if !self.fields.is_empty() {
            let _ = self.server.line.send(self.number, NAMES, &[&self.fields]);
            self.fields.clear();
        }
    }
}
