//! The output of `generate versions`.

use std::io::Result;
use std::os::unix::ffi::OsStrExt;

use ibid_bench::Version;
use ibid_terminal::json::JsonPath;
use ibid_terminal::number::count;
use ibid_terminal::path_text;
use ibid_terminal::{Align, Table};
use serde::Serialize;

use crate::output::Out;

#[derive(Serialize)]
struct JsonVersion {
    #[serde(flatten)]
    path: JsonPath,
    bytes: u64,
    inserts: u64,
    deletes: u64,
    overwrites: u64,
    blake3: String,
}

#[derive(Serialize)]
struct JsonVersions {
    versions: Vec<JsonVersion>,
}

/// Prints the versions that were written.
pub(crate) fn versions(out: &mut Out, quiet: bool, versions: &[Version]) -> Result<()> {
    let hex = |version: &Version| blake3::Hash::from_bytes(version.blake3).to_hex().to_string();
    if out.json {
        let json = |version: &Version| JsonVersion {
            path: JsonPath::new(version.path.as_os_str().as_bytes()),
            bytes: version.bytes,
            inserts: version.edits.inserts,
            deletes: version.edits.deletes,
            overwrites: version.edits.overwrites,
            blake3: hex(version),
        };
        let versions = versions.iter().map(json).collect();
        return out.document("generate versions", &JsonVersions { versions });
    }
    if quiet {
        return Ok(());
    }
    let mut table = Table::new(&[
        ("version", Align::Left),
        ("bytes", Align::Right),
        ("inserts", Align::Right),
        ("deletes", Align::Right),
        ("overwrites", Align::Right),
        ("BLAKE3", Align::Left),
    ]);
    for version in versions {
        table.row(vec![
            path_text(&version.path),
            count(version.bytes),
            count(version.edits.inserts),
            count(version.edits.deletes),
            count(version.edits.overwrites),
            hex(version)[..16].to_owned(),
        ]);
    }
    table.lines().try_for_each(|line| out.line(line))
}
