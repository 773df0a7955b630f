//! A chunker with all its parameters.

use ibid_chunk::Settings;
use serde::Serialize;
use serde_json::{Map, Value};

#[derive(Serialize)]
pub(crate) struct JsonChunker {
    algorithm: &'static str,
    number: u16,
    parameters: Map<String, Value>,
}

impl JsonChunker {
    pub(crate) fn new(settings: &Settings) -> JsonChunker {
        // Numbers stay numbers in JSON, other values become strings.
        let value = |text: String| text.parse::<u32>().map_or_else(|_| text.into(), Value::from);
        let values = settings.parameter_values();
        JsonChunker {
            algorithm: settings.name(),
            number: settings.number(),
            parameters: values
                .into_iter()
                .map(|(name, text)| (name.to_owned(), value(text)))
                .collect(),
        }
    }
}
