//! Tests of the chunkers, in one program.

mod a_cut_depends_on_its_chunk;
mod a_shorter_cut_is_final;
mod archives_are_cut_at_their_members;
mod averages_are_realised;
mod cuts_never_move;
mod data;
mod data_without_content;
mod fast_equals_spec;
mod fastcdc_equals_the_crate;
mod golden;
mod hashless_equals_spec;
#[cfg(feature = "std")]
mod hints_are_advice;
mod parameters_have_names;
mod places_are_tested;
mod settings_are_checked;
#[cfg(feature = "std")]
mod splitting_changes_nothing;
#[cfg(feature = "std")]
mod threads_change_nothing;
mod windowed_equals_spec;
