//! All messages of a stream, decoded and encoded again.

use super::answer::{ALIVE, BEGUN, BUSY, BYTES, DONE, FAILED, Failed, NAMES, OPENED, REFUSED, SIZED, Told};
use super::decode::Fields;
use super::frame::{Header, Unread, Violation, violation};
use super::request::{MORE, Request};

/// Decodes bytes as what a client sends after its greeting, for fuzzing. Returns how many messages there are; each was
/// encoded again, as the same bytes.
///
/// # Errors
/// The first thing that the protocol does not have.
///
/// # Panics
/// If a message is encoded as other bytes than it was decoded from.
#[doc(hidden)]
pub fn decode_requests(bytes: &[u8]) -> Result<usize, Violation> {
    each_message(bytes, |header, fields| {
        if header.kind == MORE {
            return Ok(());
        }
        let (request, at) = Request::decode(header.kind, fields)?;
        assert_eq!((request.kind(), &request.fields()[..]), (header.kind, &fields[..at]));
        Ok(())
    })
}

/// Decodes bytes as what a server sends after its greeting, for fuzzing. Returns how many messages there are; each was
/// encoded again, as the same bytes.
///
/// # Errors
/// The first thing that the protocol does not have.
///
/// # Panics
/// If a message is encoded as other bytes than it was decoded from.
#[doc(hidden)]
pub fn decode_answers(bytes: &[u8]) -> Result<usize, Violation> {
    each_message(bytes, |header, fields| {
        let mut of = Fields::new(fields);
        match header.kind {
            OPENED => assert_eq!(Told::decode(fields)?.encode(), fields),
            FAILED => assert_eq!(Failed::decode(fields)?.encode(), fields),
            SIZED | BEGUN => {
                of.u64()?;
                of.end()?;
            }
            NAMES => {
                while of.left() > 0 {
                    of.name()?;
                    of.u64()?;
                }
            }
            DONE | ALIVE => of.end()?,
            REFUSED | BUSY => {
                of.text()?;
                of.end()?;
            }
            BYTES => {}
            kind => return Err(violation(format!("an answer of the unknown kind {kind}"))),
        }
        Ok(())
    })
}

fn each_message(bytes: &[u8], each: impl Fn(Header, &[u8]) -> Result<(), Violation>) -> Result<usize, Violation> {
    let (mut reader, mut fields, mut count) = (bytes, Vec::new(), 0);
    let cut = || violation("the stream ends within a message");
    loop {
        match Header::read(&mut reader) {
            Ok(None) => return Ok(count),
            Ok(Some(header)) => {
                header.read_fields(&mut reader, &mut fields).map_err(|_| cut())?;
                each(header, &fields)?;
                count += 1;
            }
            Err(Unread::Violation(violation)) => return Err(violation),
            Err(Unread::Io(_)) => return Err(cut()),
        }
    }
}
