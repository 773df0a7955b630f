//! TLS 1.3 between two programs of ibid, by rustls: certificates, and why two ends can't use TLS together.
//!
//! [`Server`] and [`Client`] are settings. What they make of a TCP connection is [`Encrypted`], which can be
//! [split](Encrypted::split). Each end trusts only the authorities that it is given. A [`Fault`] does not pass by
//! itself: trying again does not help.
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc, clippy::unwrap_used)]

mod certificates;
mod encrypted;
mod fault;
mod named;
mod split;

pub use certificates::{CertificateError, Client, Identity, Server};
pub use encrypted::{Encrypted, NoTls};
pub use fault::Fault;
pub use named::NamedAuthorities;
pub use split::{Ending, Reader, Writer};
