//! The parts of the command line that the programs `ibid` and `ibid-bench` share.
//!
//! The crate is made for these two programs; others are better served by the crates that it builds
//! on.
//!
//! | task | module or item |
//! |---|---|
//! | Read and show sizes, counts, times | [`value`], [`number`] |
//! | Show a name without letting it control the terminal | [`escape()`], [`path_text`] |
//! | Print results to standard output, as text or JSON | [`Output`], [`Table`], [`json`] |
//! | Print messages to standard error, above the progress bar | [`message()`] |
//! | Show progress, stop on Ctrl-C | [`Progress`], [`on_stop_signal`] |
//! | Read files, standard input, and records from JSON Lines | [`input`], [`Lines`], [`Fields`], [`field_texts`] |
//!
//! ```
//! use ibid_terminal::{number, value};
//!
//! assert_eq!(value::size("64KiB"), Ok(65_536));
//! assert_eq!(number::size(65_536), "64.0 KiB");
//! ```
#![forbid(unsafe_code)]

mod error;
mod escape;
mod fields;
pub mod input;
pub mod json;
mod json_text;
mod lines;
mod message;
pub mod number;
mod output;
mod progress;
mod signals;
mod table;
pub mod value;

pub use error::{FileError, reason, with_causes};
pub use escape::{escape, escape_text, path_text};
pub use fields::{Fields, LineRecord, field_texts};
pub use lines::{Line, Lines};
pub use message::{fatal, message};
pub use output::Output;
pub use progress::{Progress, State, Unit};
pub use signals::on_stop_signal;
pub use table::{Align, Table};
