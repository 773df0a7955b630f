//! The options and arguments that select snapshots, and paths in them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, TypedValueParser};

use crate::complete;

/// The options that select snapshots, and the snapshots among which `latest` is chosen.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Selecting snapshots")]
pub(crate) struct SelectArgs {
    /// Use only snapshots of this machine; repeated: of any of these
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), add = complete::hosts())]
    pub(crate) host: Vec<String>,
    /// Use only snapshots with this tag; repeated: with all of these
    #[arg(long, value_name = "TAG", value_delimiter = ',', add = complete::tags())]
    pub(crate) tag: Vec<String>,
    /// Use only snapshots of this file or folder; repeated: of any of these
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<PathBuf>,
}

/// `SNAP[:PATH]`. The path need not be UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) snapshot: String,
    pub(crate) path: PathBuf,
}

/// Returns the parser of an [`Address`].
pub(crate) fn address() -> impl TypedValueParser<Value = Address> {
    OsStringValueParser::new().map(|text: OsString| parse(text.as_bytes()))
}

/// Splits `SNAP:path/inside` into the snapshot and the path; without a colon, the path is the root.
fn parse(address: &[u8]) -> Address {
    let at = address.iter().position(|&byte| byte == b':');
    let (snapshot, path) = at.map_or((address, &b""[..]), |at| (&address[..at], &address[at + 1..]));
    Address {
        snapshot: String::from_utf8_lossy(snapshot).into_owned(),
        path: PathBuf::from(OsStr::from_bytes(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_split_at_its_first_colon() {
        let expected = |snapshot: &str, path: &str| Address {
            snapshot: snapshot.to_owned(),
            path: path.into(),
        };
        assert_eq!(parse(b"latest~1:home/me"), expected("latest~1", "home/me"));
        assert_eq!(parse(b"latest:a:b"), expected("latest", "a:b"));
        assert_eq!(parse(b"4f1a"), expected("4f1a", ""));
    }
}
