//! Runs the program as people and scripts do.

mod archives;
mod asking;
mod blocks;
mod caching;
mod copying;
mod costs;
mod documents;
mod hosts;
mod images;
mod interrupted;
mod json;
mod killed_replicas;
mod listening;
mod locking;
mod memory;
#[path = "../../../record/tests/replication_over_nats/servers.rs"]
mod nats_servers;
mod output;
mod passwords;
#[path = "../../../record/tests/replication_over_nats/ports.rs"]
mod ports;
mod profiles;
mod pruning;
mod publishing;
mod records;
mod replicas;
mod restoring;
mod selecting;
mod servers;
mod sources;
mod sshd;
mod support;
mod tables;
mod thawing;
mod trouble;
mod walk;
mod writers;

/// Path of the program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ibid");
