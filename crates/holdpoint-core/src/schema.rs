//! JSON Schema for answers, options and channels. References to other documents are refused: a schema must say
//! everything itself.

use jsonschema::Validator;
use serde_json::Value;

/// A schema that was compiled once.
pub(crate) struct Schema(Validator);

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Schema")
    }
}

impl Schema {
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        compile(schema).map(Self)
    }

    /// The error is a JSON pointer into the value and a message.
    pub(crate) fn check(&self, value: &Value) -> Result<(), (String, String)> {
        self.0.validate(value).map_err(|error| (error.instance_path().to_string(), error.to_string()))
    }
}

pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
    if !schema.is_object() && !schema.is_boolean() {
        return Err("must be a JSON Schema: an object, true or false".to_owned());
    }
    if let Some(reference) = foreign_reference(schema) {
        return Err(format!("refers to {reference}; only references inside the schema are followed"));
    }
    jsonschema::draft202012::new(schema).map_err(|error| format!("is not a JSON Schema: {error}"))
}

/// Checks a value; the error is a JSON pointer into the value and a message.
pub(crate) fn check(schema: &Value, value: &Value) -> Result<(), (String, String)> {
    Schema::compile(schema).map_err(|why| (String::new(), why))?.check(value)
}

fn foreign_reference(schema: &Value) -> Option<&str> {
    match schema {
        Value::Object(map) => map.iter().find_map(|(name, value)| match (name.as_str(), value) {
            ("$ref" | "$dynamicRef", Value::String(target)) if !target.starts_with('#') => {
                Some(target.as_str())
            }
            _ => foreign_reference(value),
        }),
        Value::Array(items) => items.iter().find_map(foreign_reference),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_checked_and_the_error_says_where() {
        let schema = json!({"type": "object", "properties": {"amount": {"type": "integer"}}});
        assert_eq!(check(&schema, &json!({"amount": 3})), Ok(()));
        let (path, message) = check(&schema, &json!({"amount": "x"})).unwrap_err();
        assert_eq!(path, "/amount");
        assert!(message.contains("integer"), "{message}");
    }

    #[test]
    fn a_schema_that_points_elsewhere_is_refused() {
        let error = compile(&json!({"allOf": [{"$ref": "https://example.org/x.json"}]})).unwrap_err();
        assert!(error.contains("https://example.org/x.json"), "{error}");
        assert!(compile(&json!({"$ref": "#/$defs/a", "$defs": {"a": true}})).is_ok());
        assert!(compile(&json!({"type": 5})).is_err());
        assert!(compile(&json!("string")).is_err());
    }
}
