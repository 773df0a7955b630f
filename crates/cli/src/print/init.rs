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
    lock: Option<JsonLock>,
}

#[derive(Serialize)]
struct JsonLock {
    days: u32,
    mode: String,
}

/// Says that a repository was created.
pub(crate) fn init(out: &mut Out, repository: &Repository, path: &Path) -> Result<()> {
    let chunker = repository.chunker();
    let body = JsonInit {
        chunker: chunker.name(),
        average: chunker.size_average() as u64,
        frame: repository.frame_size().into(),
        lock: repository.lock().map(|lock| JsonLock {
            days: lock.days(),
            mode: lock.mode().to_string(),
        }),
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
    if let Some(lock) = repository.lock() {
        out.line(format!(
            "  locks   files are kept for {lock}; `ibid prune` renews that for those that are needed"
        ))?;
    }
    if repository.is_encrypted() {
        out.line("Without the password, the data cannot be read: keep a copy of it in another place.")?;
    }
    Ok(())
}
