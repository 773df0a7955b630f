//! Writes: from a caller's change to the tables.
//!
//! Callers send [requests](request) through a [handle](handle) to the one [writer], which commits
//! all waiting requests together. [`execute`] runs one command within a transaction. Committed
//! records go to the [feed], from which the encoder takes them.

pub(crate) mod apply;
pub(crate) mod block;
pub(crate) mod execute;
pub(crate) mod feed;
pub(crate) mod handle;
pub(crate) mod index;
pub(crate) mod namespace;
pub(crate) mod oplog;
pub(crate) mod pieces;
pub(crate) mod places;
pub(crate) mod references;
pub(crate) mod replay;
pub(crate) mod request;
pub(crate) mod rewrite;
pub(crate) mod transfer;
pub(crate) mod truncate;
pub(crate) mod writer;
