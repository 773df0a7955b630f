//! Trees: what a snapshot holds, written, walked and compared.

mod diff;
mod recipe;
mod visit;
mod walk;

pub use diff::{Change, Difference};
pub(crate) use recipe::{Entries, Items, ListWriter, ListingWriter, MetadataChunkers, MetadataSink, content_key};
pub(crate) use visit::{Found, components};
pub use visit::{Visit, kind_name};
pub(crate) use walk::{TreeStep, TreeWalk};
