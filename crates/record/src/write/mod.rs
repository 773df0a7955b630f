//! The one thread that writes, and all that it is asked to do.

pub(crate) mod apply;
pub(crate) mod block;
pub(crate) mod feed;
pub(crate) mod references;
pub(crate) mod replay;
pub(crate) mod rewrite;
pub(crate) mod writer;
