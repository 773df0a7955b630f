//! Verifying and counting what is in a store.

mod count;
mod fault;
mod long_bodies;
mod sizes;
mod statistics;
mod verify;

pub(crate) use count::count;
pub use fault::{FAULTS_MAX, Fault, NamespaceCounts, Problem, Verification};
pub use sizes::{BodySizes, SizeClass};
pub use statistics::{Amount, Bucket, IndexStatistics, NamespaceStatistics, Retrievals, Statistics};
pub(crate) use verify::verify;
