//! Trees: what a snapshot holds, written, walked and compared.

mod diff;
mod recipe;
mod walk;

pub use diff::{Change, Difference};
pub(crate) use recipe::{Entries, Items, ListWriter, ListingWriter, MetadataChunkers, MetadataSink, content_key};
pub(crate) use walk::{Found, TreeStep, TreeWalk, components};
pub use walk::{Visit, kind_name};
