//! Prints `cache`.

use ibid_repo::{CacheStats, Result};
use ibid_terminal::number::{counted, size};
use ibid_terminal::path_text;
use serde::Serialize;

use super::{About, Out};

#[derive(Serialize)]
struct JsonCache {
    folder: String,
    files: u64,
    bytes: u64,
    runs: u64,
    chunks: u64,
    run_bytes: u64,
    copy_bytes: u64,
    data_bytes: u64,
}

#[derive(Serialize)]
struct JsonCleared {
    files: u64,
    bytes: u64,
}

/// Prints what the cache holds.
pub(crate) fn cache_stats(out: &mut Out, about: About, stats: &CacheStats) -> Result<()> {
    if out.json {
        let stats = JsonCache {
            folder: stats.folder.display().to_string(),
            files: stats.files,
            bytes: stats.bytes,
            runs: stats.runs,
            chunks: stats.chunks,
            run_bytes: stats.run_bytes,
            copy_bytes: stats.copy_bytes,
            data_bytes: stats.data_bytes,
        };
        return out.document("cache stats", about, &stats);
    }
    out.line(format!("folder  {}", path_text(&stats.folder)))?;
    out.line(format!(
        "size    {} in {}",
        size(stats.bytes),
        counted(stats.files, "file", "files")
    ))?;
    let each = stats.run_bytes as f64 / stats.chunks.max(1) as f64;
    out.line(format!(
        "index   {} in {}, {each:.1} bytes each",
        counted(stats.chunks, "chunk", "chunks"),
        counted(stats.runs, "run", "runs")
    ))?;
    if stats.copy_bytes > 0 {
        out.line(format!("copies  {} of trees and snapshots", size(stats.copy_bytes)))?;
    }
    if stats.data_bytes > 0 {
        out.line(format!("data    {} of what was stored or read", size(stats.data_bytes)))?;
    }
    Ok(())
}

/// Prints what was deleted.
pub(crate) fn cache_cleared(out: &mut Out, about: About, files: u64, bytes: u64) -> Result<()> {
    if out.json {
        return out.document("cache clear", about, &JsonCleared { files, bytes });
    }
    if !out.quiet {
        out.line(format!("deleted {}, {}", counted(files, "file", "files"), size(bytes)))?;
    }
    Ok(())
}
