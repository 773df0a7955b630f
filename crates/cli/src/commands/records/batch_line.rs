//! A line of `ibid records batch`.
//!
//! A field that is unknown, or null, is an error: a condition that is lost through a misspelt name
//! would let a batch change what it must not.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;

use ibid_format::record::{BODY_BYTES_MAX, INDEX_VALUE_BYTES_MAX, KEY_BYTES_MAX};
use ibid_record::{Condition, Time};
use ibid_terminal::json::bytes_of_hex;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

use super::load::within;
use crate::args::value;

/// What a line does, or demands.
#[derive(Debug, PartialEq)]
pub(super) struct BatchLine {
    /// The namespace, if it names one.
    pub(super) namespace: Option<String>,
    pub(super) key: Vec<u8>,
    pub(super) condition: Option<Condition>,
    pub(super) action: Action,
}

#[derive(Debug, PartialEq)]
pub(super) enum Action {
    Put {
        body: Vec<u8>,
        time: Option<Time>,
        expire_at: Option<Time>,
        /// Values to find it by, each with the name of its index.
        index: Vec<(String, String)>,
    },
    Delete,
    /// All versions, or those from the first to the last.
    Purge(Option<(u32, u32)>),
    /// Only the condition.
    Require,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Do {
    Put,
    Delete,
    Purge,
    Require,
}

/// The fields of a line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(rename = "do")]
    action: Do,
    #[serde(default, deserialize_with = "not_null")]
    namespace: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    key: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    key_bytes: Option<Hex>,
    #[serde(default, deserialize_with = "not_null")]
    body: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    body_bytes: Option<Hex>,
    #[serde(default, deserialize_with = "not_null")]
    if_version: Option<IfVersion>,
    #[serde(default, deserialize_with = "not_null")]
    if_number: Option<NonZeroU64>,
    #[serde(default, deserialize_with = "not_null")]
    time: Option<Moment>,
    #[serde(default, deserialize_with = "not_null")]
    expire_at: Option<Moment>,
    #[serde(default, deserialize_with = "not_null")]
    versions: Option<(u32, u32)>,
    #[serde(default, deserialize_with = "not_null")]
    index: Option<BTreeMap<String, IndexTexts>>,
}

/// One value, or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected text, or an array of texts, for each index")]
enum IndexTexts {
    One(String),
    Several(Vec<String>),
}

fn not_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl BatchLine {
    /// Reads a line.
    ///
    /// # Errors
    /// A description of the fault in the line, without the line number.
    pub(super) fn read(line: &[u8]) -> Result<BatchLine, String> {
        // It would also take an array of the fields' values.
        if !line.trim_ascii_start().starts_with(b"{") {
            return Err("expected a JSON object, which begins with {".to_owned());
        }
        let fields: Fields = serde_json::from_slice(line).map_err(|error| {
            // There is one line.
            error.to_string().replace(" at line 1 column ", ", at column ")
        })?;
        // As `scan` prints them: a key that is not text comes as text, too.
        let key = fields.key_bytes.map(|Hex(bytes)| bytes);
        let key = key.or(fields.key.map(String::into_bytes));
        let key = key.ok_or("there is no field \"key\"")?;
        let body = match (fields.body, fields.body_bytes) {
            (Some(_), Some(_)) => return Err("expected body or body_bytes, found both".to_owned()),
            (Some(text), None) => Some(text.into_bytes()),
            (None, bytes) => bytes.map(|Hex(bytes)| bytes),
        };
        within("the key", key.len(), KEY_BYTES_MAX)?;
        within("the body", body.as_ref().map_or(0, Vec::len), BODY_BYTES_MAX)?;
        let condition = match (fields.if_version, fields.if_number) {
            (Some(_), Some(_)) => return Err("expected if_version or if_number, found both".to_owned()),
            (Some(IfVersion(condition)), None) => Some(condition),
            (None, Some(number)) => Some(Condition::Number(number.get())),
            (None, None) => None,
        };
        let moment = |moment: Option<Moment>| moment.map(|Moment(time)| time);
        let (time, expire_at) = (moment(fields.time), moment(fields.expire_at));
        if fields.action != Do::Put && (time.is_some() || expire_at.is_some()) {
            return Err("there is a time, and nothing to put".to_owned());
        }
        if fields.action != Do::Put && fields.index.is_some() {
            return Err("there are values of indexes, and nothing to put".to_owned());
        }
        if fields.action != Do::Purge && fields.versions.is_some() {
            return Err("there are versions, and nothing to purge".to_owned());
        }
        let action = match (fields.action, body) {
            (Do::Put, Some(body)) => Action::Put {
                body,
                time,
                expire_at,
                index: index_values(fields.index.unwrap_or_default())?,
            },
            (Do::Put, None) => return Err("there is no field \"body\" to put".to_owned()),
            (_, Some(_)) => return Err("there is a body, and nothing to put".to_owned()),
            (Do::Delete, None) => Action::Delete,
            (Do::Purge, None) => Action::Purge(fields.versions),
            (Do::Require, None) if condition.is_none() => {
                return Err("expected if_version or if_number to require, found neither".to_owned());
            }
            (Do::Require, None) => Action::Require,
        };
        Ok(BatchLine {
            namespace: fields.namespace,
            key,
            condition,
            action,
        })
    }

    /// Returns the namespace that it names, or else the `usual` one.
    pub(super) fn namespace_or<'l>(&'l self, usual: &'l str) -> &'l str {
        self.namespace.as_deref().unwrap_or(usual)
    }

    /// Returns the bytes of its key and body.
    pub(super) fn bytes(&self) -> u64 {
        let body = match &self.action {
            Action::Put { body, index, .. } => body.len() + index.iter().map(|(_, value)| value.len()).sum::<usize>(),
            Action::Delete | Action::Purge(_) | Action::Require => 0,
        };
        (self.key.len() + body) as u64
    }

    /// Returns whether it can be done in a namespace without keys.
    pub(super) fn suits_a_new_namespace(&self) -> bool {
        matches!(self.action, Action::Put { .. } | Action::Require)
            && matches!(self.condition, None | Some(Condition::Absent))
    }
}

/// Returns the values of all indexes.
fn index_values(given: BTreeMap<String, IndexTexts>) -> Result<Vec<(String, String)>, String> {
    let mut all = Vec::new();
    for (index, texts) in given {
        let texts = match texts {
            IndexTexts::One(text) => vec![text],
            IndexTexts::Several(texts) => texts,
        };
        for text in texts {
            within(
                &format!("the value of index {index:?}"),
                text.len(),
                INDEX_VALUE_BYTES_MAX,
            )?;
            all.push((index.clone(), text));
        }
    }
    Ok(all)
}

/// Bytes from hexadecimal digits.
struct Hex(Vec<u8>);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hex, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let bytes = bytes_of_hex(&digits);
        bytes
            .map(Hex)
            .ok_or_else(|| D::Error::custom("expected two hexadecimal digits for each byte"))
    }
}

/// A time as in RFC 3339.
struct Moment(Time);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Moment, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time = value::record_time_in_json(&text);
        time.map(Moment).map_err(D::Error::custom)
    }
}

/// A number, 0 for none, or `deleted`.
struct IfVersion(Condition);

impl<'de> Deserialize<'de> for IfVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IfVersion, D::Error> {
        struct Version;

        impl Visitor<'_> for Version {
            type Value = IfVersion;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a version from 0 to {}, or \"deleted\"", u32::MAX)
            }

            fn visit_u64<E: Error>(self, version: u64) -> Result<IfVersion, E> {
                match u32::try_from(version) {
                    Ok(0) => Ok(IfVersion(Condition::Absent)),
                    Ok(version) => Ok(IfVersion(Condition::Version(version))),
                    Err(_) => Err(E::invalid_value(Unexpected::Unsigned(version), &self)),
                }
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<IfVersion, E> {
                match text {
                    "deleted" => Ok(IfVersion(Condition::Deleted)),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }
        }

        deserializer.deserialize_any(Version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<BatchLine, String> {
        BatchLine::read(line.as_bytes())
    }

    #[test]
    fn a_line_is_read_as_it_is_documented() {
        let line = |key: &[u8], condition, action| {
            Ok(BatchLine {
                namespace: None,
                key: key.to_vec(),
                condition,
                action,
            })
        };
        let put = |body: &[u8]| Action::Put {
            body: body.to_vec(),
            time: None,
            expire_at: None,
            index: Vec::new(),
        };
        for (text, expected) in [
            (
                r#"{"do": "put", "key": "a", "body": "é\n"}"#,
                line(b"a", None, put("é\n".as_bytes())),
            ),
            (
                r#"{"if_version": 3, "do": "put", "key": "\ufffd", "key_bytes": "ff", "body_bytes": "00Ff"}"#,
                line(b"\xff", Some(Condition::Version(3)), put(b"\0\xff")),
            ),
            (
                r#"{"do": "delete", "key": "", "if_version": 0}"#,
                line(b"", Some(Condition::Absent), Action::Delete),
            ),
            (
                r#"{"do": "purge", "key": "a", "if_version": "deleted"}"#,
                line(b"a", Some(Condition::Deleted), Action::Purge(None)),
            ),
            (
                r#"{"do": "purge", "key": "a", "versions": [3, 7]}"#,
                line(b"a", None, Action::Purge(Some((3, 7)))),
            ),
            (
                concat!(
                    r#"{"do": "put", "key": "a", "body": "", "time": "1970-01-01T00:00:01Z", "#,
                    r#""expire_at": "1970-01-01T00:00:02Z"}"#
                ),
                line(
                    b"a",
                    None,
                    Action::Put {
                        body: Vec::new(),
                        time: Time::from_millis(1000).ok(),
                        expire_at: Time::from_millis(2000).ok(),
                        index: Vec::new(),
                    },
                ),
            ),
            (
                r#"{"do": "put", "key": "a", "body": "", "index": {"tags": ["b", "c"], "by": "anna", "none": []}}"#,
                line(
                    b"a",
                    None,
                    Action::Put {
                        body: Vec::new(),
                        time: None,
                        expire_at: None,
                        index: [("by", "anna"), ("tags", "b"), ("tags", "c")]
                            .map(|(index, value)| (index.to_owned(), value.to_owned()))
                            .into(),
                    },
                ),
            ),
            (
                r#"{"do": "require", "key": "a", "if_number": 18446744073709551615}"#,
                line(b"a", Some(Condition::Number(u64::MAX)), Action::Require),
            ),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        let named = read(r#"{"do": "put", "namespace": "n", "key": "a", "body": ""}"#).unwrap();
        assert_eq!(named.namespace.as_deref(), Some("n"));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (text, said) in [
            ("{", "EOF"),
            ("17", "begins with {"),
            (r#"["delete", "n", "a"]"#, "begins with {"),
            (r#"{"key": "a", "body": ""}"#, "missing field `do`"),
            (
                r#"{"do": "insert", "key": "a", "body": ""}"#,
                "expected one of `put`, `delete`, `purge`, `require`",
            ),
            (r#"{"do": "put", "body": ""}"#, "no field \"key\""),
            (r#"{"do": "put", "key": "a"}"#, "no field \"body\""),
            (r#"{"do": "put", "key": "a", "body": null}"#, "null"),
            (r#"{"do": "put", "key": "a", "body": {}}"#, "expected a string"),
            (
                r#"{"do": "put", "key": "a", "body": "", "body_bytes": ""}"#,
                "found both",
            ),
            (
                r#"{"do": "put", "key": "a", "body_bytes": "0"}"#,
                "two hexadecimal digits",
            ),
            (
                r#"{"do": "put", "key_bytes": "+1", "body": ""}"#,
                "two hexadecimal digits",
            ),
            (
                r#"{"do": "put", "key": "a", "key": "b", "body": ""}"#,
                "duplicate field",
            ),
            (r#"{"do": "delete", "key": "a", "body": ""}"#, "nothing to put"),
            (r#"{"do": "delete", "key": "a", "index": {}}"#, "nothing to put"),
            (
                r#"{"do": "put", "key": "a", "body": "", "index": {"by": 1}}"#,
                "expected text, or an array of texts",
            ),
            (r#"{"do": "require", "key": "a"}"#, "found neither"),
            (
                r#"{"do": "delete", "key": "a", "time": "1970-01-01T00:00:01Z"}"#,
                "nothing to put",
            ),
            (
                r#"{"do": "delete", "key": "a", "versions": [1, 2]}"#,
                "nothing to purge",
            ),
            (
                r#"{"do": "put", "key": "a", "body": "", "time": "yesterday"}"#,
                "expected a time",
            ),
            (
                r#"{"do": "delete", "key": "a", "if_versoin": 1}"#,
                "unknown field `if_versoin`",
            ),
            (r#"{"do": "delete", "key": "a", "if_version": null}"#, "null"),
            (
                r#"{"do": "delete", "key": "a", "if_version": -1}"#,
                "expected a version from 0 to 4294967295",
            ),
            (
                r#"{"do": "delete", "key": "a", "if_version": 4294967296}"#,
                "expected a version from 0",
            ),
            (r#"{"do": "delete", "key": "a", "if_version": "1"}"#, "or \"deleted\""),
            (r#"{"do": "delete", "key": "a", "if_number": 0}"#, "nonzero u64"),
            (
                r#"{"do": "delete", "key": "a", "if_number": 1, "if_version": 1}"#,
                "found both",
            ),
            (
                r#"{"do": "delete", "key": "a"} {}"#,
                "trailing characters, at column 30",
            ),
            (
                &format!(r#"{{"do": "delete", "key": "{}"}}"#, "k".repeat(4097)),
                "at most 4096 bytes, found 4097",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said) && !error.contains("line 1"), "{text}: {error}");
        }
    }
}
