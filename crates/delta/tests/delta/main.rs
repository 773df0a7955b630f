//! Tests of deltas and sketches, in one program.

mod any_bytes_decode_safely;
mod data;
mod deltas_make_their_target;
mod ranges_cover_a_target;
mod sketches_tell_what_is_similar;
mod the_best_base_is_chosen;
mod the_index_remembers;
mod worked_examples;
