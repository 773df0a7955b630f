//! Reads: from a key to its record, and from a record to its body.

mod cache;
pub(crate) mod chain;
pub(crate) mod frames;
pub(crate) mod indexes;
pub(crate) mod lookup;
mod many;
pub(crate) mod namespaces;
mod pages;
pub(crate) mod pieces;
pub(crate) mod places;
pub(crate) mod records;
pub(crate) mod view;
