//! Trees of snapshots: written, walked and compared.

mod diff;
mod find;
mod planned;
mod reach;
mod recipe;
mod visit;
mod walk;

pub(crate) use diff::changes;
pub use diff::{Change, Difference};
pub use find::Search;
pub(crate) use planned::{PLANNED_BYTES, PLANNED_CHUNKS, PlannedFrames, PlannedItems, chunks_of};
pub(crate) use reach::{Each, Reach};
pub(crate) use recipe::{Entries, Items, ListWriter, ListingWriter, MetadataChunkers, MetadataSink, content_key};
pub use visit::{FilePart, Visit};
pub(crate) use visit::{Found, clean};
pub(crate) use walk::{TreeStep, TreeWalk};
