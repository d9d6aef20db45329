//! Generates the file with the JSON Schemas of all documents.

use serde_json::{Map, Value};

const DESCRIPTION: &str = "The documents of the HTTP API, the payloads of events, the bodies of webhooks and callbacks, and \
    the answers to interrupts. Generated: cargo run -- reference docs";

/// Returns the bundle. Every reference points to another schema of the bundle.
pub(super) fn bundle(schemas: &Map<String, Value>) -> String {
    let text = |text: &str| Value::from(text);
    let bundle = Map::from_iter([
        ("$schema".to_owned(), text("https://json-schema.org/draft/2020-12/schema")),
        ("title".to_owned(), text("Holdpoint")),
        ("description".to_owned(), text(DESCRIPTION)),
        ("$defs".to_owned(), Value::Object(schemas.clone())),
    ]);
    format!("{:#}\n", Value::Object(bundle)).replace("#/components/schemas/", "#/$defs/")
}
