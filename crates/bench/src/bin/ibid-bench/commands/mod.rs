//! The commands, one file each.

pub(crate) mod chunk;
pub(crate) mod chunkers;
pub(crate) mod generate;
pub(crate) mod locality;
pub(crate) mod measured;
pub(crate) mod records;
pub(crate) mod tune;
