//! The program, run as people and scripts run it.

mod asking;
mod chunking;
mod documents;
mod json;
mod locality;
mod output;
mod passwords;
#[path = "../../../record/tests/replication_over_nats/ports.rs"]
mod ports;
mod publishing;
mod records;
mod restoring;
mod selecting;
mod support;
mod trouble;
mod walk;
