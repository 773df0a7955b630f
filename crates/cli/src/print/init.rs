//! Prints `init`.

use std::path::Path;

use ibid_repo::{Repository, Result};
use ibid_terminal::number::size;
use ibid_terminal::path_text;
use serde::Serialize;

use super::{About, Out};

#[derive(Serialize)]
struct JsonInit {
    chunker: &'static str,
    average: u64,
    frame: u64,
}

/// Says that a repository was created.
pub(crate) fn init(out: &mut Out, repository: &Repository, path: &Path) -> Result<()> {
    let chunker = repository.chunker();
    let body = JsonInit {
        chunker: chunker.name(),
        average: chunker.size_average() as u64,
        frame: repository.frame_size().into(),
    };
    if out.json {
        return out.document("init", About::of(repository), &body);
    }
    if out.quiet {
        return Ok(());
    }
    let kind = if repository.is_encrypted() {
        "an encrypted"
    } else {
        "an UNENCRYPTED"
    };
    out.line(format!("created {kind} repository in {}", path_text(path)))?;
    out.line(format!("  id      {}", repository.id()))?;
    out.line(format!(
        "  chunks  {}, {} on average; compressed {} at a time",
        body.chunker,
        size(body.average),
        size(body.frame)
    ))?;
    if repository.is_encrypted() {
        out.line("Without the password, the data cannot be read: keep a copy of it in another place.")?;
    }
    Ok(())
}
