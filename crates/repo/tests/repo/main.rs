//! What a repository does, in one program of tests: it takes less time to build than one for each file.
//!
//! `memory.rs` and `pattern_memory.rs` beside this folder measure a whole process: each is a program of its own.

mod archive_formats;
mod archives;
mod at_once;
mod cache;
mod changed_blocks;
mod checkpoints;
mod concurrency;
mod config;
mod copies;
mod copying;
mod damage;
mod deltas;
mod durability;
mod durability_far;
mod failures;
mod fixture;
mod forgotten_meanwhile;
mod full_disk;
mod healing;
mod hints;
mod hostile_restore;
mod images;
mod inode_flags;
mod kept_data;
mod keys;
mod limits;
mod one_file;
mod overwriting;
mod pack_lengths;
mod patterns;
mod prune;
mod prune_alone;
mod prune_simulation;
mod recipes;
mod repair;
mod requests;
mod rewriting;
mod round_trip;
mod searching;
mod similar;
mod sources;
#[path = "../support/mod.rs"]
mod support;
mod tags;
mod temporary_files;
mod thawing;
mod unfinished;
mod writers;
mod writers_forgotten;
mod writers_pruned;
mod writers_repaired;
