//! Tests of the store as its users see it, in one program: linking one for each file took as long as running them.
//! Not those that start processes: until such a process runs its program, it holds the locks of all stores that are
//! open here.

mod a_batch_is_done_if_its_conditions_hold;
mod a_damaged_replica;
mod a_reader_sees_what_was_synced;
mod a_store_stays_small;
mod an_encrypted_store_needs_its_password;
mod any_history_is_as_in_a_map;
mod any_power_failure_keeps_what_was_synced;
mod caches_never_change_a_result;
mod common;
mod content;
mod damage_is_an_error;
mod faults_are_found;
mod keys_are_found_by_values;
mod long_bodies;
mod long_records;
mod many_records_at_once;
mod purged_bytes_are_gone;
mod readers_and_writers;
mod replication_by_seed;
mod replication_is_private;
mod similar_records_take_little_space;
mod statistics;
mod stores_of_earlier_formats_are_read;
mod the_same_bytes_are_stored_once;
mod versions_have_times;
mod work_in_the_background_is_in_small_pieces;
