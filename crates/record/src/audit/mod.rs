//! Verifying, counting and compacting a store.

mod compact;
mod count;
mod fault;
mod rebase;
mod sizes;
mod statistics;
mod verify;
mod window;

pub use compact::Compaction;
pub(crate) use compact::{BlockNumbers, compact};
pub(crate) use count::count;
pub use fault::{FAULTS_MAX, Fault, NamespaceCounts, Problem, Verification};
pub use sizes::{BodySizes, SizeClass};
pub use statistics::{Amount, Bucket, NamespaceStatistics, Retrievals, Statistics};
pub(crate) use verify::verify;
