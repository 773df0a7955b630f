//! Looking at all that is stored: is it whole, how much is it, could it take less?

mod compact;
mod sizes;
mod statistics;
mod verify;

pub(crate) use compact::Blocks;
pub use compact::Compaction;
pub use sizes::{BodySizes, SizeClass};
pub use statistics::{Amount, Bucket, NamespaceStatistics, Retrievals, Statistics};
pub use verify::{FAULTS_MAX, Fault, NamespaceCounts, Problem, Verification};
