//! Keys and bodies from lines of JSON.
//!
//! Only the selected fields are read. Nothing of the others is kept, however deep they are nested.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::json::bytes_of_hex;
use crate::json_text;

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
                    None => bytes_of(name, present(name, text)?),
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
    let texts = |(name, value): (&&str, Option<&str>)| {
        let Some(value) = value.filter(|value| *value != "null") else {
            return Ok(Vec::new());
        };
        if !value.starts_with('[') {
            return scalar_text(name, value).map(|text| vec![text]);
        }
        let elements: Vec<&RawValue> = serde_json::from_str(value).map_err(|error| told(&error).0)?;
        elements
            .into_iter()
            .map(|element| scalar_text(name, element.get()))
            .collect()
    };
    names.iter().zip(values).map(texts).collect()
}

fn scalar_text(name: &str, value: &str) -> Result<String, String> {
    match value.as_bytes() {
        [b'"', ..] => text_of(name, value),
        [b'{' | b'[' | b'n', ..] => Err(format!(
            "field {name:?}: expected text, a number, or an array of these to find it by, found {}",
            match value.as_bytes()[0] {
                b'{' => "an object",
                b'[' => "an array",
                _ => "null",
            }
        )),
        _ => Ok(value.to_owned()),
    }
}

/// Returns the values of the fields with these names, as they are written.
fn values<'l>(line: &'l [u8], names: &[&str]) -> Result<Vec<Option<&'l str>>, String> {
    match values_of_usual(line, names) {
        Some(values) => Ok(values),
        None => values_of_any(line, names),
    }
}

/// Returns the values of the fields with these names in a line where `serde_json` need not look at selected texts: it
/// would take much longer. [`None`] if it has to: if something is wrong, and in rare lines.
fn values_of_usual<'l>(line: &'l [u8], names: &[&str]) -> Option<Vec<Option<&'l str>>> {
    let mut values = vec![None; names.len()];
    let mut rest = after(str::from_utf8(line).ok()?, '{')?;
    loop {
        let (name, behind) = text(rest)?;
        rest = next(after(behind, ':')?);
        // A name with escapes is rare.
        let name = &name.as_bytes()[1..name.len() - 1];
        let position = match name.contains(&b'\\') {
            false => names.iter().position(|wanted| wanted.as_bytes() == name),
            true => return None,
        };
        let value;
        (value, rest) = match position {
            Some(_) if rest.starts_with('"') => text(rest)?,
            _ => {
                let mut of_rest = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
                let value = of_rest.next()?.ok()?;
                (value.get(), &rest[of_rest.byte_offset()..])
            }
        };
        if let Some(position) = position {
            if values[position].is_some() {
                return None;
            }
            set(&mut values, names, position, value);
        }
        match after(rest, ',') {
            Some(behind) => rest = behind,
            None => break,
        }
    }
    next(after(rest, '}')?).is_empty().then_some(values)
}

/// Returns what comes next but for space.
fn next(json: &str) -> &str {
    json.trim_start_matches(json_text::SPACES.map(char::from))
}

/// Returns what is behind this character, if it comes next but for space.
fn after(json: &str, character: char) -> Option<&str> {
    next(json).strip_prefix(character)
}

/// Returns the text that comes next but for space, with its quotation marks, and what is behind it. Whether its escapes
/// are valid is not known.
fn text(json: &str) -> Option<(&str, &str)> {
    let json = next(json);
    json.starts_with('"').then_some(())?;
    let end = json_text::end(json.as_bytes(), 1)?;
    json.split_at_checked(end + 1)
}

/// Returns the values of the fields with these names, or says what is wrong with the line.
fn values_of_any<'l>(line: &'l [u8], names: &[&str]) -> Result<Vec<Option<&'l str>>, String> {
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

fn present<'l>(name: &str, value: Option<&'l str>) -> Result<&'l str, String> {
    value.ok_or_else(|| format!("there is no field {name:?}"))
}

fn key_text(name: &str, value: Option<&str>) -> Result<String, String> {
    let value = present(name, value)?;
    match value.as_bytes() {
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
        _ => Ok(value.to_owned()),
    }
}

fn time_text(name: &str, value: &str) -> Result<String, String> {
    match value.as_bytes() {
        [b'"', ..] => text_of(name, value),
        [b'-' | b'0'..=b'9', ..] => Ok(format!("@{value}")),
        _ => Err(format!("field {name:?}: expected text or a number for the time")),
    }
}

fn body_text(name: &str, value: Option<&str>) -> Result<Vec<u8>, String> {
    let value = present(name, value)?;
    if value.starts_with('"') {
        return bytes_of(name, value);
    }
    Ok(json_text::compact(value))
}

fn text_of(name: &str, value: &str) -> Result<String, String> {
    let bytes = bytes_of(name, value)?;
    String::from_utf8(bytes).map_err(|error| format!("field {name:?}: {error}"))
}

/// Returns the UTF-8 of a text.
fn bytes_of(name: &str, value: &str) -> Result<Vec<u8>, String> {
    let inner = value.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    if let Some(bytes) = inner.and_then(json_text::unescaped) {
        return Ok(bytes);
    }
    let text: Result<String, _> = serde_json::from_str(value);
    // A column within the value would look like a column of the line.
    text.map(String::into_bytes)
        .map_err(|error| format!("field {name:?}: {}", told(&error).0))
}

/// Returns the bytes that a value has as hexadecimal digits.
fn digits(name: &str, value: &str) -> Result<Vec<u8>, String> {
    let bytes = bytes_of_hex(&text_of(name, value)?);
    bytes.ok_or_else(|| format!("field \"{name}_bytes\": expected two hexadecimal digits for each byte"))
}

/// Sets the value at this position, and at those that have the same name: a field can be selected more than once.
fn set<'l>(values: &mut [Option<&'l str>], names: &[&str], position: usize, value: &'l str) {
    for (name, place) in names.iter().zip(values).skip(position) {
        if *name == names[position] {
            *place = Some(value);
        }
    }
}

/// Reads the fields of these names from an object.
struct Values<'n>(&'n [&'n str]);

impl<'l> Visitor<'l> for Values<'_> {
    type Value = Vec<Option<&'l str>>;

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
            let value: &RawValue = map.next_value()?;
            if values[position].is_some() {
                return Err(A::Error::custom(format_args!(
                    "field {:?} is there twice",
                    self.0[position]
                )));
            }
            set(&mut values, self.0, position, value.get());
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

    /// Valid lines, and all that one byte more, less or other makes of them.
    #[test]
    fn usual_lines_are_read_as_serde_json_reads_them() {
        let names = ["k", "body", "k"];
        let long = "a \\n".repeat(70);
        let (mut usual, mut wrong) = (0, 0);
        for line in [
            r#"{"k": "1", "body": "a\"b \\\\", "x": [1, {"k": "\\\""}], "y": "\\n"}"#,
            "{\"k\":17 ,\t\"é\":-0.5e1, \"body\":{\"k\": null}}",
            r#" { "body" : "é\u00e9" , "k" : true } "#,
            "{}",
            &format!(r#"{{"k": "{long}", "body": "{long}"}}"#),
        ] {
            let line = line.as_bytes();
            assert!(values_of_usual(line, &names).is_some() || line == b"{}");
            for at in 0..=line.len() {
                for byte in *b"\"\\{}[],:u1nk \n\x1f\x7f\x80\xc3" {
                    for to in [at, at + 1, at + 2].into_iter().filter(|to| *to <= line.len()) {
                        let other = [&line[..at], &[byte], &line[to..]].concat();
                        let read = values_of_any(&other, &names);
                        wrong += usize::from(read.is_err());
                        let Some(values) = values_of_usual(&other, &names) else {
                            continue;
                        };
                        usual += 1;
                        // Escapes of selected texts are looked at when these are unescaped.
                        let texts = |values: &[Option<&str>]| -> Result<Vec<_>, String> {
                            let text =
                                |value: &Option<&str>| value.map(|value| body_text("k", Some(value))).transpose();
                            values.iter().map(text).collect()
                        };
                        let found = texts(&values);
                        let shown = String::from_utf8_lossy(&other);
                        match read {
                            Ok(read) => assert_eq!(found, texts(&read), "{shown}"),
                            Err(_) => assert!(found.is_err(), "{shown}"),
                        }
                    }
                }
            }
        }
        assert!(usual > 1000 && wrong > 1000, "{usual}, {wrong}");
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
