//! A minimal client for PostgreSQL's protocol (version 3): prepared statements with parameters and
//! results as bytes, over a socket in a folder. A client library would need fifty crates.

use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use ibid_format::wire::Reader;

/// Version 3.0.
const PROTOCOL: u32 = 3 << 16;
/// The format of binary values.
const BINARY: u16 = 1;
/// The longest accepted answer: a body in its stored form, and its row.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// The first column of each row of a result.
pub(crate) type Column = Vec<Vec<u8>>;

/// A connection.
pub(crate) struct Client {
    socket: BufReader<UnixStream>,
    /// Messages that are not sent yet.
    requests: Vec<u8>,
}

impl Client {
    /// Connects to a database as `user`, without a password.
    pub(crate) fn connect(socket: &Path, user: &str, database: &str) -> Result<Client> {
        let stream = UnixStream::connect(socket).with_context(|| format!("connecting to {}", socket.display()))?;
        let mut client = Client {
            socket: BufReader::new(stream),
            requests: Vec::new(),
        };
        // The first message has no type byte.
        client.message(None, |out| {
            out.extend(PROTOCOL.to_be_bytes());
            for word in ["user", user, "database", database, ""] {
                put_string(out, word);
            }
        });
        client.answers()?;
        Ok(client)
    }

    /// Prepares a statement under a name, at once.
    pub(crate) fn prepare(&mut self, name: &str, statement: &str) -> Result<()> {
        self.parse(name, statement);
        self.commit().with_context(|| statement.to_owned())?;
        Ok(())
    }

    /// Runs a statement at once.
    pub(crate) fn run(&mut self, statement: &str) -> Result<Column> {
        self.parse("", statement);
        self.execute("", &[]);
        self.commit().with_context(|| statement.to_owned())
    }

    /// Queues a prepared statement for the next [`commit`](Self::commit).
    pub(crate) fn execute(&mut self, name: &str, parameters: &[&[u8]]) {
        self.message(Some(b'B'), |out| {
            put_string(out, "");
            put_string(out, name);
            // One format for all parameters, and one for all results.
            out.extend([1, BINARY, parameters.len() as u16].map(u16::to_be_bytes).concat());
            for parameter in parameters {
                out.extend((parameter.len() as u32).to_be_bytes());
                out.extend_from_slice(parameter);
            }
            out.extend([1, BINARY].map(u16::to_be_bytes).concat());
        });
        self.message(Some(b'E'), |out| {
            put_string(out, "");
            // A limit of 0 returns all rows.
            out.extend(0u32.to_be_bytes());
        });
    }

    /// Runs all queued statements in one transaction.
    pub(crate) fn commit(&mut self) -> Result<Column> {
        self.message(Some(b'S'), |_| ());
        self.answers()
    }

    fn parse(&mut self, name: &str, statement: &str) {
        self.message(Some(b'P'), |out| {
            put_string(out, name);
            put_string(out, statement);
            // The server infers the types of parameters.
            out.extend(0u16.to_be_bytes());
        });
    }

    fn message(&mut self, kind: Option<u8>, content: impl FnOnce(&mut Vec<u8>)) {
        self.requests.extend(kind);
        let start = self.requests.len();
        self.requests.extend([0; 4]);
        content(&mut self.requests);
        let length = (self.requests.len() - start) as u32;
        self.requests[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Sends all messages, and reads answers until the server is ready for more.
    fn answers(&mut self) -> Result<Column> {
        self.socket.get_mut().write_all(&self.requests)?;
        self.requests.clear();
        let (mut column, mut failure) = (Column::new(), None);
        loop {
            // After some failures it ends the connection.
            let (kind, content) = match self.answer() {
                Ok(answer) => answer,
                Err(error) => return Err(failure.unwrap_or(error)),
            };
            match kind {
                b'D' => column.extend(first_value(&content)?),
                b'E' => failure = Some(error_of(&content)),
                b'R' => ensure!(content == [0; 4], "PostgreSQL asks for a password"),
                b'Z' => return failure.map_or(Ok(column), Err),
                // Settings, notices and completions are ignored.
                _ => {}
            }
        }
    }

    /// Returns one message: its kind and content.
    fn answer(&mut self) -> Result<(u8, Vec<u8>)> {
        let (mut kind, mut length) = ([0], [0; 4]);
        self.socket
            .read_exact(&mut kind)
            .context("PostgreSQL answers no more")?;
        self.socket.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        ensure!(
            (4..ANSWER_BYTES_MAX).contains(&length),
            "PostgreSQL sends {length} bytes"
        );
        let mut content = vec![0; length - 4];
        self.socket.read_exact(&mut content)?;
        Ok((kind[0], content))
    }
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Returns the first value of a row; [`None`] if there is none or it is null.
fn first_value(row: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut reader = Reader::new(row);
    if u16::from_be_bytes(reader.array("columns")?) == 0 {
        return Ok(None);
    }
    let length = i32::from_be_bytes(reader.array("length")?);
    let length = usize::try_from(length).ok();
    Ok(length
        .map(|length| reader.take("value", length))
        .transpose()?
        .map(<[u8]>::to_vec))
}

/// Returns the message for people in an error, which is a list of fields with a letter and a text
/// each.
fn error_of(content: &[u8]) -> anyhow::Error {
    let message = content
        .split(|byte| *byte == 0)
        .find_map(|field| field.strip_prefix(b"M"));
    anyhow!("PostgreSQL: {}", String::from_utf8_lossy(message.unwrap_or(content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_errors_are_read() {
        assert_eq!(first_value(b"\0\x01\0\0\0\x02ab").unwrap(), Some(b"ab".to_vec()));
        assert_eq!(first_value(b"\0\x01\xff\xff\xff\xff").unwrap(), None);
        assert_eq!(first_value(b"\0\0").unwrap(), None);
        assert!(first_value(b"\0\x01\0\0\0\x03ab").is_err());
        let error = error_of(b"SFATAL\0C57P03\0Mthe database system is starting up\0\0");
        assert_eq!(error.to_string(), "PostgreSQL: the database system is starting up");
    }
}
