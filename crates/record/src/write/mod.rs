//! How does a change get into the tables?
//!
//! Callers send [requests](request) through a [handle](handle) to the one [writer], which commits
//! those that are waiting together. [`execute`] does one command within a transaction; what was
//! committed goes to the [feed], from which the encoder takes it.

pub(crate) mod apply;
pub(crate) mod block;
pub(crate) mod execute;
pub(crate) mod feed;
pub(crate) mod handle;
pub(crate) mod namespace;
pub(crate) mod oplog;
pub(crate) mod places;
pub(crate) mod references;
pub(crate) mod replay;
pub(crate) mod request;
pub(crate) mod rewrite;
pub(crate) mod transfer;
pub(crate) mod truncate;
pub(crate) mod writer;
