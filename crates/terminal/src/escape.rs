//! Names as text that is safe to print on a terminal.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Escapes control characters, characters that change the direction of text, and bytes that are not
/// UTF-8. Backslashes are doubled, so that the original can be restored.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c => push_visible(&mut out, c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// Escapes text of our own that contains names, which may be escaped already: backslashes stay.
pub fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| push_visible(&mut out, c));
    out
}

fn push_visible(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if (c as u32) < 0x100 && c.is_control() => {
            let _ = write!(out, "\\x{:02x}", c as u32);
        }
        c if is_invisible(c) => {
            let _ = write!(out, "\\u{{{:x}}}", c as u32);
        }
        c => out.push(c),
    }
}

/// Returns whether a character is a line or paragraph separator, a direction mark, or has no width.
fn is_invisible(c: char) -> bool {
    let invisible = [
        0x61C..=0x61C,
        0x180E..=0x180E,
        0x200B..=0x200F,
        0x2028..=0x202E,
        0x2060..=0x206F,
        0xFEFF..=0xFEFF,
        0xFFF9..=0xFFFB,
        0xE0000..=0xE007F,
    ];
    c.is_control() || invisible.iter().any(|range| range.contains(&(c as u32)))
}

/// Returns a path as text that is safe to print on a terminal.
pub fn path_text(path: &Path) -> String {
    escape(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_cursor_gets_through() {
        assert_eq!(escape(b"plain name.txt"), "plain name.txt");
        assert_eq!(escape("Größe 漢字".as_bytes()), "Größe 漢字");
        assert_eq!(escape(b"a\nb\tc\x1b[2Jd\x7f"), "a\\nb\\tc\\x1b[2Jd\\x7f");
        assert_eq!(escape(b"bad \xff\xfe utf8"), "bad \\xff\\xfe utf8");
        assert_eq!(escape("exe\u{202e}txt.\u{9b}".as_bytes()), "exe\\u{202e}txt.\\x9b");
        assert_eq!(escape(b"a\\nb"), "a\\\\nb");
        for byte in 0..=255u8 {
            assert!(escape(&[byte]).chars().all(|c| !c.is_control()), "{byte}");
        }
    }
}
