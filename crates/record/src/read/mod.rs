//! From a key to a record's body.

pub(crate) mod bodies;
pub(crate) mod frames;
pub(crate) mod lookup;
