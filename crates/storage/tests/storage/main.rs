//! Tests of the storages, in one program.

mod careless;
mod concurrency;
mod conformance;
mod crash;
mod errors;
mod flaky;
mod local;
mod model;
mod names;
mod probe;
mod sweep;
