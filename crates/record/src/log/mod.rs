//! The log: the changes of a store, in a form that its replicas can repeat.
//!
//! Every entry of the log is written in the commit that it describes. It names records and does not
//! contain them. A record that an entry names is therefore kept until the entry is removed, as an
//! obsolete record if no key has it any more. Record numbers ascend with log positions, so the log
//! names the records from one number on.
//!
//! This module reads the log; [`write::oplog`](crate::write::oplog) writes it.

mod completeness;
pub(crate) mod entries;
pub(crate) mod state;

pub(crate) use completeness::Completeness;
pub use state::Log;
