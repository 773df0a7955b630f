//! Compares the JSON output of a program with the tables of the documentation.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Name and type of every field, by heading.
pub(crate) struct Tables(BTreeMap<String, Vec<(String, String)>>);

impl Tables {
    /// Reads the tables of pages.
    pub(crate) fn read(pages: &[&str]) -> Tables {
        let mut tables: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        let mut heading = String::new();
        for line in pages.iter().flat_map(|page| page.lines()) {
            if let Some(title) = line.strip_prefix("## ") {
                heading = title.to_owned();
            }
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            if let ["", name, kind, _, ""] = cells.as_slice()
                && !["field", "---"].contains(name)
            {
                let field = (name.trim_matches('`').to_owned(), (*kind).to_owned());
                tables.entry(heading.clone()).or_default().push(field);
            }
        }
        Tables(tables)
    }

    fn fields(&self, heading: &str) -> Vec<(String, String)> {
        let table = self.0.get(heading).unwrap_or_else(|| panic!("no table of {heading}"));
        let expand = |(name, kind): &(String, String)| match name.as_str() {
            "…" => self.fields(kind),
            _ => vec![(name.clone(), kind.clone())],
        };
        table.iter().flat_map(expand).collect()
    }

    #[track_caller]
    pub(crate) fn hold(&self, heading: &str, value: &Value) {
        let object = value.as_object().unwrap_or_else(|| panic!("{heading}: {value}"));
        let mut left: BTreeSet<&str> = object.keys().map(String::as_str).collect();
        for (name, kind) in self.fields(heading) {
            let (name, is_optional) = name
                .strip_suffix('?')
                .map_or((name.as_str(), false), |name| (name, true));
            match object.get(name) {
                Some(value) => self.hold_type(&format!("{heading}.{name}"), &kind, value),
                None => assert!(is_optional, "{heading} has no {name}: {value}"),
            }
            left.remove(name);
        }
        assert!(left.is_empty(), "{heading} does not document {left:?}");
    }

    #[track_caller]
    fn hold_type(&self, place: &str, kind: &str, value: &Value) {
        if let Some(kind) = kind.strip_suffix(" or null") {
            return if value.is_null() {
            } else {
                self.hold_type(place, kind, value)
            };
        }
        if let Some(kind) = kind.strip_prefix("array of ") {
            let items = value.as_array().unwrap_or_else(|| panic!("{place}: {value}"));
            return items.iter().for_each(|item| self.hold_type(place, kind, item));
        }
        match kind {
            "string" => assert!(value.is_string(), "{place}: {value}"),
            "number" => assert!(value.is_number(), "{place}: {value}"),
            "bool" => assert!(value.is_boolean(), "{place}: {value}"),
            "object" => assert!(value.is_object(), "{place}: {value}"),
            heading => self.hold(heading, value),
        }
    }

    /// Checks one document.
    #[track_caller]
    pub(crate) fn document(&self, heading: &str, text: &str) -> Value {
        let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{heading}: {error}: {text}"));
        self.hold(heading, &value);
        assert_eq!((&value["version"], text.lines().count()), (&Value::from(1), 1));
        value
    }

    /// Checks one object per line, from `begin` to `end`.
    #[track_caller]
    pub(crate) fn stream(&self, command: &str, text: &str) -> Vec<Value> {
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let types: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
        assert_eq!((types[0], *types.last().unwrap()), ("begin", "end"));
        assert_eq!(lines[0]["command"], command);
        for (line, kind) in lines.iter().zip(types) {
            let own = format!("{command}: {kind}");
            let heading = if kind == "begin" && !self.0.contains_key(&own) {
                kind
            } else {
                &own
            };
            self.hold(heading, line);
        }
        lines
    }
}
