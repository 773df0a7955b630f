//! Keys and bodies from lines of JSON.
//!
//! Only the selected fields are read. Nothing of the others is kept, however deep they are nested.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::json::bytes_of_hex;

/// Bytes to show of a line that is not a JSON object.
const SHOWN: usize = 24;

/// The fields of a line that make a record.
#[derive(Clone, Debug)]
pub enum Fields {
    /// The fields of these names.
    Named {
        /// The fields whose texts, joined by slashes, are the key.
        key: Vec<String>,
        /// The field that is the body; [`None`] for the whole line.
        body: Option<String>,
        /// The field that is the time; [`None`] for none.
        time: Option<String>,
    },
    /// The fields that `ibid records scan --json` prints.
    Scanned,
}

/// The names of the fields that `ibid records scan --json` prints.
const SCANNED: [&str; 5] = ["key", "key_bytes", "body", "body_bytes", "time"];

/// The record of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineRecord<'l> {
    /// The key.
    pub key: Vec<u8>,
    /// The body.
    pub body: Cow<'l, [u8]>,
    /// The time as it is written, if one was selected and is there: text as it is, a number after `@`.
    pub time: Option<String>,
}

impl Fields {
    /// Returns the record of a line.
    ///
    /// # Errors
    /// A description of the fault in the line, without the line number.
    pub fn record<'l>(&self, line: &'l [u8]) -> Result<LineRecord<'l>, String> {
        match self {
            Fields::Named { key, body, time } => {
                let names: Vec<&str> = key.iter().chain(body).chain(time).map(String::as_str).collect();
                let values = values(line, &names)?;
                let mut joined = String::new();
                for (at, (name, value)) in names.iter().zip(&values).take(key.len()).enumerate() {
                    let separator = if at > 0 { "/" } else { "" };
                    joined.extend([separator, &key_text(name, *value)?]);
                }
                let body = match body {
                    None => Cow::Borrowed(line),
                    Some(name) => Cow::Owned(body_text(name, values[key.len()])?),
                };
                let time = match time {
                    None => None,
                    Some(name) => Some(time_text(name, present(name, values[names.len() - 1])?)?),
                };
                let key = joined.into_bytes();
                Ok(LineRecord { key, body, time })
            }
            Fields::Scanned => {
                let [key, key_bytes, body, body_bytes, time] = values(line, &SCANNED)?[..] else {
                    unreachable!("as many values as names")
                };
                let exact = |name, text, bytes| match bytes {
                    Some(bytes) => digits(name, bytes),
                    None => text_of(name, present(name, text)?).map(String::into_bytes),
                };
                Ok(LineRecord {
                    key: exact(SCANNED[0], key, key_bytes)?,
                    body: exact(SCANNED[2], body, body_bytes)?.into(),
                    time: time.map(|time| time_text(SCANNED[4], time)).transpose()?,
                })
            }
        }
    }
}

/// Returns the texts of each of the fields with these names, as values by which a record is found: of text, a number,
/// true or false one; of an array of these several; of null, or if there is no such field, none.
///
/// # Errors
/// A description of the fault in the line, without the line number.
///
/// ```
/// let names = ["by".to_owned(), "tags".to_owned(), "to".to_owned()];
/// let texts = ibid_terminal::field_texts(br#"{"by": "anna", "tags": ["a", 17], "to": null}"#, &names)?;
/// assert_eq!(texts, [vec!["anna".to_owned()], vec!["a".to_owned(), "17".to_owned()], vec![]]);
/// # Ok::<(), String>(())
/// ```
pub fn field_texts(line: &[u8], names: &[String]) -> Result<Vec<Vec<String>>, String> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let values = values(line, &names)?;
    let texts = |(name, value): (&&str, Option<&RawValue>)| {
        let Some(value) = value.filter(|value| value.get() != "null") else {
            return Ok(Vec::new());
        };
        if !value.get().starts_with('[') {
            return scalar_text(name, value).map(|text| vec![text]);
        }
        let elements: Vec<&RawValue> = serde_json::from_str(value.get()).map_err(|error| told(&error).0)?;
        elements.into_iter().map(|element| scalar_text(name, element)).collect()
    };
    names.iter().zip(values).map(texts).collect()
}

fn scalar_text(name: &str, value: &RawValue) -> Result<String, String> {
    match value.get().as_bytes() {
        [b'"', ..] => text_of(name, value),
        [b'{' | b'[' | b'n', ..] => Err(format!(
            "field {name:?}: expected text, a number, or an array of these to find it by, found {}",
            match value.get().as_bytes()[0] {
                b'{' => "an object",
                b'[' => "an array",
                _ => "null",
            }
        )),
        _ => Ok(value.get().to_owned()),
    }
}

/// Returns the values of the fields with these names.
fn values<'l>(line: &'l [u8], names: &[&str]) -> Result<Vec<Option<&'l RawValue>>, String> {
    let start = line.trim_ascii_start();
    if !start.starts_with(b"{") {
        // serde_json would show the whole line.
        let shown = String::from_utf8_lossy(&start[..start.len().min(SHOWN)]);
        return Err(format!("expected a JSON object, which begins with {{, found {shown:?}"));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let values = deserializer
        .deserialize_map(Values(names))
        .map_err(|error| told(&error).1)?;
    deserializer.end().map_err(|error| told(&error).1)?;
    Ok(values)
}

/// Returns the message of `serde_json` without and with the column. The line number in it is always
/// 1.
fn told(error: &serde_json::Error) -> (String, String) {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text).to_owned();
    let placed = format!("{text}, at column {}", error.column());
    (text, placed)
}

fn present<'l>(name: &str, value: Option<&'l RawValue>) -> Result<&'l RawValue, String> {
    value.ok_or_else(|| format!("there is no field {name:?}"))
}

fn key_text(name: &str, value: Option<&RawValue>) -> Result<String, String> {
    let value = present(name, value)?;
    match value.get().as_bytes() {
        [b'"', ..] => text_of(name, value),
        [b'{', ..] => Err(format!(
            "field {name:?}: expected text or a number for the key, found an object"
        )),
        [b'[', ..] => Err(format!(
            "field {name:?}: expected text or a number for the key, found an array"
        )),
        b"null" => Err(format!(
            "field {name:?}: expected text or a number for the key, found null"
        )),
        _ => Ok(value.get().to_owned()),
    }
}

fn time_text(name: &str, value: &RawValue) -> Result<String, String> {
    match value.get().as_bytes() {
        [b'"', ..] => text_of(name, value),
        [b'-' | b'0'..=b'9', ..] => Ok(format!("@{}", value.get())),
        _ => Err(format!("field {name:?}: expected text or a number for the time")),
    }
}

fn body_text(name: &str, value: Option<&RawValue>) -> Result<Vec<u8>, String> {
    let value = present(name, value)?;
    if value.get().starts_with('"') {
        return text_of(name, value).map(String::into_bytes);
    }
    Ok(compact(value.get()).into_bytes())
}

fn text_of(name: &str, value: &RawValue) -> Result<String, String> {
    let inner = value.get().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    if let Some(text) = inner.and_then(unescaped) {
        return Ok(text);
    }
    let text = serde_json::from_str(value.get());
    // A column within the value would look like a column of the line.
    text.map_err(|error| format!("field {name:?}: {}", told(&error).0))
}

/// Returns what is between the quotation marks of a valid JSON text without escapes; [`None`] if one stands for half a
/// character, without the other half. For long texts `serde_json` takes nearly twice the time: it makes room as it
/// goes, and looks for escapes eight bytes at a time.
fn unescaped(inner: &str) -> Option<String> {
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        text.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (escaped, length) = match after.as_bytes().first()? {
            b'n' => ('\n', 1),
            b'"' => ('"', 1),
            b'\\' => ('\\', 1),
            b'/' => ('/', 1),
            b't' => ('\t', 1),
            b'r' => ('\r', 1),
            b'b' => ('\u{8}', 1),
            b'f' => ('\u{c}', 1),
            b'u' => utf16_escape(after)?,
            _ => return None,
        };
        text.push(escaped);
        rest = &after[length..];
    }
    text.push_str(rest);
    // Six bytes of an escape are three of text at most.
    if text.len() < text.capacity() / 4 * 3 {
        text.shrink_to_fit();
    }
    Some(text)
}

/// Returns the character of an escape that begins with `u`, or of two for one character, and their length without the
/// first backslash.
fn utf16_escape(escape: &str) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = escape.get(at..at + 4)?;
        let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_number.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
    };
    let first = unit(1)?;
    if let Some(character) = char::from_u32(first.into()) {
        return Some((character, 5));
    }
    let second = escape.get(5..7).filter(|next| *next == "\\u").and_then(|_| unit(7))?;
    let character = char::decode_utf16([first, second]).next()?.ok()?;
    Some((character, 11))
}

/// Removes the white space between the tokens of valid JSON. Numbers and the order of fields stay
/// as they are, which `serde_json::Value` would not keep.
fn compact(json: &str) -> String {
    let (mut in_text, mut escaped) = (false, false);
    let keep = |c: &char| {
        let kept = in_text || !c.is_ascii_whitespace();
        in_text ^= *c == '"' && !escaped;
        escaped = in_text && *c == '\\' && !escaped;
        kept
    };
    json.chars().filter(keep).collect()
}

/// Returns the bytes that a value has as hexadecimal digits.
fn digits(name: &str, value: &RawValue) -> Result<Vec<u8>, String> {
    let bytes = bytes_of_hex(&text_of(name, value)?);
    bytes.ok_or_else(|| format!("field \"{name}_bytes\": expected two hexadecimal digits for each byte"))
}

/// Reads the fields of these names from an object.
struct Values<'n>(&'n [&'n str]);

impl<'l> Visitor<'l> for Values<'_> {
    type Value = Vec<Option<&'l RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'l>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = vec![None; self.0.len()];
        while let Some(position) = map.next_key_seed(Name(self.0))? {
            let Some(position) = position else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let value = map.next_value()?;
            if values[position].replace(value).is_some() {
                return Err(A::Error::custom(format_args!(
                    "field {:?} is there twice",
                    self.0[position]
                )));
            }
            // A field can be selected more than once.
            let name = self.0[position];
            for (other, place) in self.0.iter().zip(&mut values).skip(position + 1) {
                if *other == name {
                    *place = Some(value);
                }
            }
        }
        Ok(values)
    }
}

/// Finds which of the names a field has, the first if several are equal.
struct Name<'n>(&'n [&'n str]);

impl<'l> DeserializeSeed<'l> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|wanted| *wanted == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(line: &str, key: &[&str], body: Option<&str>) -> Result<(String, String), String> {
        let shape = Fields::Named {
            key: key.iter().map(|name| (*name).to_owned()).collect(),
            body: body.map(str::to_owned),
            time: None,
        };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        shape
            .record(line.as_bytes())
            .map(|record| (text(&record.key), text(&record.body)))
    }

    #[test]
    fn times_are_texts_or_numbers() {
        let fields = |time: Option<&str>| Fields::Named {
            key: vec!["k".into()],
            body: Some("k".into()),
            time: time.map(str::to_owned),
        };
        let line = r#"{"k": "k", "text": "2026-11-21T12:00:00Z", "seconds": 1795262400.5, "null": null}"#;
        let time = |name| fields(name).record(line.as_bytes()).map(|record| record.time);
        assert_eq!(time(None), Ok(None));
        assert_eq!(time(Some("text")), Ok(Some("2026-11-21T12:00:00Z".into())));
        assert_eq!(time(Some("seconds")), Ok(Some("@1795262400.5".into())));
        assert_eq!(time(Some("absent")), Err("there is no field \"absent\"".into()));
        assert!(
            time(Some("null"))
                .unwrap_err()
                .contains("expected text or a number for the time")
        );
        let scanned = Fields::Scanned.record(br#"{"key": "k", "body": "b", "time": "2026-11-21T12:00:00.500Z"}"#);
        assert_eq!(scanned.unwrap().time.as_deref(), Some("2026-11-21T12:00:00.500Z"));
    }

    #[test]
    fn values_to_find_by_are_texts_numbers_and_arrays_of_these() {
        let texts = |line: &str| {
            let texts = field_texts(line.as_bytes(), &["a".to_owned(), "b".to_owned()])?;
            Ok::<_, String>(texts.iter().map(|texts| texts.join("|")).collect::<Vec<_>>().join(";"))
        };
        assert_eq!(texts(r#"{"b": 1.50, "a": "x\ny"}"#).unwrap(), "x\ny;1.50");
        assert_eq!(texts(r#"{"a": ["é", true, "é"], "b": []}"#).unwrap(), "é|true|é;");
        assert_eq!(texts(r#"{"a": null}"#).unwrap(), ";");
        for (line, found) in [
            (r#"{"a": {}}"#, "an object"),
            (r#"{"a": [[1]]}"#, "an array"),
            (r#"{"a": [1, null]}"#, "null"),
        ] {
            let error = texts(line).unwrap_err();
            assert!(error.ends_with(&format!("found {found}")), "{error}");
        }
        assert!(texts("17").is_err());
    }

    #[test]
    fn keys_are_texts_and_numbers() {
        let line = r#"{"a": "x\ny", "b": 17, "c": 1.50, "d": true, "é\u0041": "é", "body": ""}"#;
        let key = |names: &[&str]| record(line, names, Some("body")).map(|(key, _)| key);
        assert_eq!(key(&["a"]), Ok("x\ny".into()));
        assert_eq!(key(&["b", "c", "d"]), Ok("17/1.50/true".into()), "as they are written");
        assert_eq!(key(&["éA", "b", "éA"]), Ok("é/17/é".into()));
        assert_eq!(key(&["e"]), Err("there is no field \"e\"".into()));
        for (value, found) in [("{}", "an object"), ("[1]", "an array"), ("null", "null")] {
            let error = record(&format!(r#"{{"a": {value}}}"#), &["a"], None).unwrap_err();
            assert!(error.ends_with(&format!("found {found}")), "{error}");
        }
    }

    #[test]
    fn bodies_are_texts_compact_json_or_the_line() {
        let line = concat!(
            r#" {"k": 1, "text": "a\"b \u00e9\ud83d\ude00", "#,
            r#""json": { "z" : [1.0, 1e400 , "a  \" b\\" ], "a": null } } "#
        );
        let body = |body| record(line, &["k"], body).map(|(_, body)| body);
        assert_eq!(body(Some("text")), Ok("a\"b é😀".into()));
        assert_eq!(
            body(Some("json")),
            Ok(r#"{"z":[1.0,1e400,"a  \" b\\"],"a":null}"#.into())
        );
        assert_eq!(body(Some("k")), Ok("1".into()));
        assert_eq!(body(None), Ok(line.into()));
    }

    #[test]
    fn escapes_are_read_as_serde_json_reads_them() {
        let is_read_alike = |json: &str| {
            let expected = serde_json::from_str::<String>(json).ok();
            assert_eq!(unescaped(&json[1..json.len() - 1]), expected, "{json}");
            expected.is_some()
        };
        for text in [
            "",
            "\0\u{1f}\u{7f}\u{80}",
            "\"\\/\u{8}\u{c}\n\r\t",
            "é\\😀\\\\\"é",
            "\u{ffff}\u{10ffff}",
        ] {
            assert!(is_read_alike(&serde_json::to_string(text).unwrap()));
        }
        for escape in [
            "\\/",
            "\\b",
            "\\u00e9",
            "\\ud83d\\uDE00",
            "\\ud83d\\ude00é",
            "a\\u0000b",
        ] {
            assert!(is_read_alike(&format!("\"{escape}\"")));
        }
        let mut halves = 0;
        for first in 0..=u16::MAX {
            for after in [
                "", "é", "\\n", "\\u0041", "\\ud800", "\\udbff", "\\udc00", "\\udfff", "dc00",
            ] {
                halves += usize::from(!is_read_alike(&format!("\"\\u{first:04x}{after}\"")));
            }
        }
        assert!(halves > 10_000);
        for wrong in [
            "\\",
            "\\x",
            "\\u",
            "\\u12",
            "\\u12é",
            "\\u+123",
            "\\ud83d\\u",
            "\\ud83d\\ué000",
        ] {
            assert_eq!(unescaped(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_text_of_escapes_takes_no_more_memory_than_it_needs() {
        let text = unescaped(&"\\u00e9".repeat(1000)).unwrap();
        assert_eq!((text.len(), text.capacity()), (2000, 2000));
    }

    #[test]
    fn output_of_scan_is_read() {
        let record = |line: &str| {
            Fields::Scanned
                .record(line.as_bytes())
                .map(|record| (record.key, record.body.into_owned()))
        };
        let expected = (b"k".to_vec(), b"b".to_vec());
        assert_eq!(
            record(r#"{"key": "k", "version": 1, "body": "b"}"#),
            Ok(expected.clone())
        );
        assert_eq!(
            record(r#"{"key": "?", "key_bytes": "6b", "body_bytes": "62"}"#),
            Ok(expected)
        );
        for line in [
            r#"{"key": "k"}"#,
            r#"{"body": "b"}"#,
            r#"{"key": 1, "body": "b"}"#,
            r#"{"key": "k", "body_bytes": "6"}"#,
            r#"{"key": "k", "body_bytes": "zz"}"#,
            r#"{"key": "k", "body_bytes": "+1"}"#,
        ] {
            assert!(record(line).is_err(), "{line}");
        }
    }

    #[test]
    fn lines_that_are_no_records_are_told_what_is_wrong() {
        let deep = "[".repeat(1_000_000);
        let nested = format!(r#"{{"k": "1", "x": {deep}"#);
        for (line, said) in [
            ("17", "expected a JSON object, which begins with {, found \"17\""),
            (" []", "found \"[]\""),
            (
                &format!("\"{}\"", "x".repeat(1000)),
                "found \"\\\"xxxxxxxxxxxxxxxxxxxxxxx\"",
            ),
            ("{]", "key must be a string, at column 2"),
            (r#"{"k": "1""#, "EOF"),
            (r#"{"k": "1"} {}"#, "trailing characters, at column 12"),
            (r#"{"k": "1", "k": "2"}"#, "field \"k\" is there twice"),
            (r#"{"k": "\ud800"}"#, "field \"k\": unexpected end of hex escape"),
            (nested.as_str(), "EOF"),
            (deep.as_str(), "found \"[[[[["),
        ] {
            let error = record(line, &["k"], None).unwrap_err();
            assert!(error.contains(said) && !error.contains("line"), "{error}");
        }
        let error = Fields::Named {
            key: vec!["k".into()],
            body: None,
            time: None,
        }
        .record(b"{\"k\": \"\xff\"}")
        .unwrap_err();
        assert!(error.contains("unicode") || error.contains("UTF-8"), "{error}");
    }
}
