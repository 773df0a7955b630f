//! Tests of measurements, in one program.

mod a_comparison_counts_right;
mod a_series_can_be_repeated;
mod charts;
mod databases;
mod duplicates_follow_one_another;
mod end_to_end;
mod hours;
mod locality;
mod parts_and_pieces_are_measured;
mod the_search_finds_the_average;
