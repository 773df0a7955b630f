//! What did a store do, so that its replicas can do the same?
//!
//! Every entry of the log is written in the commit that it describes. It names records and does not
//! contain them, so a record that an entry names is kept, if need be as an obsolete one, until the
//! entry is removed. Record numbers ascend with log positions, so these are the records from one
//! number on.
//!
//! This module reads the log; [`write::oplog`](crate::write::oplog) writes it.

mod completeness;
pub(crate) mod entries;
pub(crate) mod state;

pub(crate) use completeness::Completeness;
pub use state::Log;
