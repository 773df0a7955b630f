//! Any bytes as a line of JSON: its record is what `serde_json` reads alone.

#![no_main]

use ibid_terminal::Fields;
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Line<'l> {
    #[serde(borrow)]
    key: &'l RawValue,
    #[serde(borrow)]
    body: &'l RawValue,
}

fn text(value: &str) -> Option<Vec<u8>> {
    serde_json::from_str::<String>(value).ok().map(String::into_bytes)
}

fn key(value: &str) -> Option<Vec<u8>> {
    match value.as_bytes()[0] {
        b'"' => text(value),
        b'{' | b'[' | b'n' => None,
        _ => Some(value.as_bytes().to_vec()),
    }
}

/// Removes the space outside of texts, one character after another.
fn compact(json: &str) -> Vec<u8> {
    let (mut in_text, mut is_escaped) = (false, false);
    let keep = |byte: &u8| {
        let is_kept = in_text || !byte.is_ascii_whitespace();
        in_text ^= *byte == b'"' && !is_escaped;
        is_escaped = in_text && *byte == b'\\' && !is_escaped;
        is_kept
    };
    json.bytes().filter(keep).collect()
}

fn body(value: &str) -> Option<Vec<u8>> {
    match value.starts_with('"') {
        true => text(value),
        false => Some(compact(value)),
    }
}

fuzz_target!(|line: &[u8]| {
    let fields = Fields::Named {
        key: vec!["key".to_owned()],
        body: Some("body".to_owned()),
        time: None,
    };
    let read = fields.record(line).ok();
    // It would also take an array of the fields' values.
    let is_object = line.trim_ascii_start().starts_with(b"{");
    let expected: Option<Line<'_>> = is_object.then(|| serde_json::from_slice(line).ok()).flatten();
    let expected = expected.and_then(|line| Some((key(line.key.get())?, body(line.body.get())?)));
    assert_eq!(read.map(|read| (read.key, read.body.into_owned())), expected);
});
