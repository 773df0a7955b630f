//! Tests of the storages, in one program. Those of sweeping start processes, which hold the locks of this one for a
//! moment.

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
