//! The options and arguments that select snapshots, and paths in them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, TypedValueParser};

/// The options that select snapshots. They also decide what `latest` is.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Selecting snapshots")]
pub(crate) struct SelectArgs {
    /// Use only snapshots of this machine; repeated: of any of these
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) host: Vec<String>,
    /// Use only snapshots with this tag; repeated: with all of these
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    pub(crate) tag: Vec<String>,
    /// Use only snapshots of this file or folder; repeated: of any of these
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<PathBuf>,
}

/// `SNAP[:PATH]`. The path need not be UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) snapshot: String,
    pub(crate) path: Vec<u8>,
}

/// Returns the parser of an [`Address`].
pub(crate) fn address() -> impl TypedValueParser<Value = Address> {
    OsStringValueParser::new().map(|text: OsString| {
        let (snapshot, path) = ibid_repo::split_address(&text.into_vec());
        Address { snapshot, path }
    })
}
