//! The program, run as people and scripts run it.

mod asking;
mod chunking;
mod documents;
mod json;
mod locality;
mod output;
mod passwords;
mod publishing;
mod records;
mod restoring;
mod selecting;
mod support;
mod trouble;
mod walk;
