//! Messages on standard error, which do not overwrite the progress bar.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::ProgressBar;
use serde::Serialize;

use crate::escape_text;

/// The bar on the terminal, if there is one: messages are printed above it.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

pub(crate) fn set_bar(bar: Option<ProgressBar>) {
    *lock() = bar;
}

fn lock() -> MutexGuard<'static, Option<ProgressBar>> {
    BAR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints a line to standard error, with control characters escaped. Ignores errors of writing,
/// because they cannot be reported anywhere.
pub fn message(text: &str) {
    let write = || {
        let _ = writeln!(std::io::stderr().lock(), "{}", escape_text(text));
    };
    match lock().as_ref() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

#[derive(Serialize)]
struct JsonError<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    code: u8,
    message: &'a str,
}

/// Prints the error of a failed program: as text after the program's name or, if `json`, as an
/// object with the exit code.
pub fn fatal(program: &str, text: &str, code: u8, json: bool) {
    let text = escape_text(text);
    let body = JsonError {
        kind: "error",
        code,
        message: &text,
    };
    match serde_json::to_string(&body) {
        Ok(object) if json => message(&object),
        _ => message(&format!("{program}: {text}")),
    }
}
