//! Which versions has a record? Values under keys, in namespaces, on an embedded transactional engine.

#![forbid(unsafe_code)]

pub mod conformance;
pub mod engine;
