//! Converts documents of the API to JSON values.

use serde::Serialize;
use serde_json::Value;

/// Returns a document as a value. It keeps the order of the members.
pub(crate) fn to_json(document: &impl Serialize) -> Value {
    serde_json::to_value(document).expect("a document has text keys and no number that JSON lacks")
}
