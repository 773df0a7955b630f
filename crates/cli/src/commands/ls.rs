//! `ibid ls`.

use std::os::unix::ffi::OsStrExt;

use ibid_format::tree::EntryKind;
use ibid_repo::Visit;

use super::open::Context;
use super::watch::Watch;
use crate::args::LsArgs;
use crate::failure::{Outcome, Result};
use crate::print::{LsPrinter, Verb};

pub(crate) fn run(context: &mut Context, args: &LsArgs) -> Result<Outcome> {
    let opened = context.open()?;
    let info = opened.snapshot(&args.address.snapshot, &args.select)?;
    let watch = Watch::silent(Verb::Look)?;
    let mut printer = LsPrinter::begin(&mut context.out, opened.about, &info, args.long)?;
    let base = args
        .address
        .path
        .split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".");
    let base = base.collect::<Vec<_>>().join(&b'/');
    opened
        .repository
        .visit(&info, &args.address.path, &watch.monitor, &mut |path, entry| {
            // The folder that was asked for is not in itself.
            let is_base = path.as_os_str().as_bytes() == base;
            if is_base && matches!(entry.kind, EntryKind::Directory(_)) {
                return Ok(Visit::Descend);
            }
            printer.entry(path, entry)?;
            Ok(if args.recursive { Visit::Descend } else { Visit::Skip })
        })?;
    printer.end()?;
    Ok(Outcome::Done)
}
