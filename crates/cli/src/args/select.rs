//! Which snapshots are meant, and what in them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, TypedValueParser};

/// Among which snapshots to look, also for `latest`.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Among which snapshots")]
pub(crate) struct SelectArgs {
    /// Those of this machine; can be repeated: of any of them
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) host: Vec<String>,
    /// Those with this label; can be repeated: with all of them
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    pub(crate) tag: Vec<String>,
    /// Those of this file or folder; can be repeated: of any of them
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<PathBuf>,
}

/// `SNAP[:PATH]`. The path need not be UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) snapshot: String,
    pub(crate) path: Vec<u8>,
}

/// Reads an [`Address`].
pub(crate) fn address() -> impl TypedValueParser<Value = Address> {
    OsStringValueParser::new().map(|text: OsString| {
        let (snapshot, path) = ibid_repo::split_address(&text.into_vec());
        Address { snapshot, path }
    })
}
