//! JSON Schema for answers, options and channels. References to other documents are refused: a schema must say
//! everything itself.

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::limits;
use crate::refusal::json_bytes;

/// A schema that was compiled once.
pub(crate) struct Schema(Validator);

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Schema")
    }
}

impl Schema {
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        if !schema.is_object() && !schema.is_boolean() {
            return Err("must be a JSON Schema: an object, true or false".to_owned());
        }
        if let Some(reference) = foreign_reference(schema) {
            return Err(format!("refers to {reference}; only references inside the schema are followed"));
        }
        jsonschema::draft202012::new(schema)
            .map(Self)
            .map_err(|error| format!("is not a JSON Schema: {error}"))
    }

    /// For schemas that come with a question: answers are checked while everybody waits, so they must be small.
    pub(crate) fn compile_small(schema: &Value) -> Result<Self, String> {
        let (bytes, max) = (json_bytes(schema), limits::INTERRUPT_SCHEMA_BYTES_MAX);
        if bytes > max {
            return Err(format!("is {bytes} bytes; at most {max} are accepted"));
        }
        if is_deeper_than(schema, limits::INTERRUPT_SCHEMA_LEVELS_MAX) {
            return Err(format!("has more than {} levels", limits::INTERRUPT_SCHEMA_LEVELS_MAX));
        }
        Self::compile(schema)
    }

    /// The error is a JSON pointer into the value and a message.
    pub(crate) fn check(&self, value: &Value) -> Result<(), (String, String)> {
        self.0.validate(value).map_err(|error| (error.instance_path().to_string(), error.to_string()))
    }
}

/// Returns whether a text is an instant of RFC 3339.
pub(crate) fn is_instant(text: &str) -> bool {
    static INSTANT: LazyLock<Option<Validator>> = LazyLock::new(|| {
        let format = json!({"format": "date-time"});
        jsonschema::draft202012::options().should_validate_formats(true).build(&format).ok()
    });
    INSTANT.as_ref().is_some_and(|validator| validator.is_valid(&Value::String(text.to_owned())))
}

/// What judges values by a schema, for those who have other uses for it than answers. The error says where and what.
pub fn checker(
    schema: &Value,
) -> Result<impl Fn(&Value) -> Result<(), String> + Send + Sync + use<>, String> {
    let schema = Schema::compile(schema)?;
    Ok(move |value: &Value| {
        schema.check(value).map_err(|(path, message)| match path.as_str() {
            "" => message,
            path => format!("{path}: {message}"),
        })
    })
}

fn is_deeper_than(value: &Value, levels: usize) -> bool {
    let deeper = |inner: &Value| levels == 0 || is_deeper_than(inner, levels - 1);
    match value {
        Value::Array(items) => items.iter().any(deeper),
        Value::Object(members) => members.values().any(deeper),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
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

    #[test]
    fn a_value_is_checked_and_the_error_says_where() {
        let schema = json!({"type": "object", "properties": {"amount": {"type": "integer"}}});
        let schema = Schema::compile(&schema).unwrap();
        assert_eq!(schema.check(&json!({"amount": 3})), Ok(()));
        let (path, message) = schema.check(&json!({"amount": "x"})).unwrap_err();
        assert_eq!(path, "/amount");
        assert!(message.contains("integer"), "{message}");
    }

    #[test]
    fn a_checker_says_where_a_value_is_wrong() {
        let check =
            checker(&json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}));
        let check = check.unwrap();
        assert_eq!(check(&json!({"a": "x"})), Ok(()));
        assert!(check(&json!({"a": 1})).unwrap_err().starts_with("/a: "));
        assert!(check(&json!({})).unwrap_err().contains("required"));
        assert!(checker(&json!({"type": 5})).is_err());
    }

    #[test]
    fn a_schema_that_points_elsewhere_is_refused() {
        let compile = |schema: Value| Schema::compile(&schema);
        let error = compile(json!({"allOf": [{"$ref": "https://example.org/x.json"}]})).unwrap_err();
        assert!(error.contains("https://example.org/x.json"), "{error}");
        assert!(compile(json!({"$ref": "#/$defs/a", "$defs": {"a": true}})).is_ok());
        assert!(compile(json!({"type": 5})).is_err());
        assert!(compile(json!("string")).is_err());
    }

    #[test]
    fn a_schema_of_a_question_is_neither_large_nor_deep() {
        let nested = |levels: usize| (0..levels).fold(json!(true), |inner, _| json!({"not": inner}));
        assert!(Schema::compile_small(&nested(limits::INTERRUPT_SCHEMA_LEVELS_MAX)).is_ok());
        assert!(Schema::compile_small(&nested(limits::INTERRUPT_SCHEMA_LEVELS_MAX + 1)).is_err());
        let sized = |bytes: usize| json!({"const": "x".repeat(bytes - r#"{"const":""}"#.len())});
        assert!(Schema::compile_small(&sized(limits::INTERRUPT_SCHEMA_BYTES_MAX)).is_ok());
        assert!(Schema::compile_small(&sized(limits::INTERRUPT_SCHEMA_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn a_schema_that_leads_to_itself_still_comes_to_an_end() {
        for circle in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        ] {
            if let Ok(schema) = Schema::compile(&circle) {
                let _ = schema.check(&json!({"a": 1}));
            }
        }
    }

    #[test]
    fn a_pattern_that_could_take_for_ever_does_not() {
        let schema = Schema::compile(&json!({"type": "string", "pattern": "^(a+)+$"})).unwrap();
        assert!(schema.check(&json!(format!("{}!", "a".repeat(10_000)))).is_err());
    }
}
