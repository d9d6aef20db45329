//! JSON Schema (draft 2020-12) for answers, options, channels and arguments of tools.
//!
//! Callers supply the schemas and the values, so both are limited: the size of a schema when it is registered, and the
//! work of checking each value. References to other documents are rejected: a schema must be complete.

mod definition;
mod evaluation;
mod graph;
mod parts;
mod pattern;
mod references;

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod resource_limits;

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::limits;
use crate::refusal::json_bytes;
pub(crate) use definition::check_patterns;
use evaluation::{EvaluationError, evaluate};
use graph::{Keyword, SchemaGraph};
use parts::SchemaFault;

/// A compiled schema.
pub(crate) struct Schema(SchemaGraph);

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Schema")
    }
}

impl Schema {
    /// Compiles a schema that was accepted before, possibly by a version with other limits. A value whose check needs
    /// an unsupported pattern is rejected.
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        if !schema.is_object() && !schema.is_boolean() {
            return Err("must be a JSON Schema: an object, true or false".to_owned());
        }
        if let Some(reference) = references::find_external_reference(schema) {
            return Err(format!("refers to {reference}; only references inside the schema are followed"));
        }
        jsonschema::draft202012::meta::validate(schema)
            .map_err(|error| format!("is not a JSON Schema: {error}"))?;
        SchemaGraph::build(schema).map(Self)
    }

    /// Compiles a new schema within the limits for schemas that callers supply.
    pub(crate) fn register(schema: &Value) -> Result<Self, String> {
        let (bytes, max) = (json_bytes(schema), limits::SCHEMA_BYTES_MAX);
        if bytes > max {
            return Err(format!("is {bytes} bytes; at most {max} are accepted"));
        }
        if is_deeper_than(schema, limits::SCHEMA_LEVELS_MAX) {
            return Err(format!("has more than {} levels", limits::SCHEMA_LEVELS_MAX));
        }
        let compiled = Self::compile(schema)?;
        let (size, max) = (compiled.0.unfolded_size(), limits::SCHEMA_UNFOLDED_MAX);
        if size > max {
            return Err(format!(
                "has {size} subschemas with its references unfolded; at most {max} are accepted"
            ));
        }
        let mut bytes = 0;
        for pattern in &compiled.0.patterns {
            bytes += pattern.bytes()?;
            if bytes > limits::SCHEMA_PATTERN_BYTES_MAX {
                return Err("has too many or too large patterns".to_owned());
            }
        }
        Ok(compiled)
    }

    /// Checks a value. The error is a JSON pointer into the value and a message, which does not contain the value.
    pub(crate) fn check(&self, value: &Value) -> Result<(), (String, String)> {
        match evaluate(&self.0, value) {
            Ok(None) => Ok(()),
            Ok(Some(fault)) => Err(self.explain(&fault, value)),
            Err(stop) => Err((String::new(), self.explain_error(stop))),
        }
    }

    fn explain(&self, fault: &SchemaFault, value: &Value) -> (String, String) {
        let mut path = Vec::new();
        let part = find(value, fault.address, &mut path).unwrap_or(value);
        path.reverse();
        let node = &self.0.nodes[fault.node];
        let message = match (fault.keyword.map(|position| &node.keywords[position]), node.assertions) {
            (None, Some(assertions)) => {
                let error = self.0.assertions[assertions].validator.iter_errors(part).next();
                error.map(|error| error.masked_with("the value").to_string()).unwrap_or_default()
            }
            (None, None) => "the schema allows no value here".to_owned(),
            (Some(keyword), _) => self.explain_keyword(keyword),
        };
        (path.concat(), message)
    }

    fn explain_keyword(&self, keyword: &Keyword) -> String {
        match keyword {
            Keyword::Pattern(pattern) => {
                format!("the value does not match {:?}", self.0.patterns[*pattern].text())
            }
            Keyword::UniqueItems => "the value has equal items".to_owned(),
            Keyword::AnyOf(_) => "the value does not match any schema of anyOf".to_owned(),
            Keyword::OneOf(_) => "the value does not match exactly one schema of oneOf".to_owned(),
            Keyword::Not(_) => "the value matches the schema of not".to_owned(),
            Keyword::MemberNames(_) => "a name of a member does not match propertyNames".to_owned(),
            Keyword::Contains { .. } => {
                "the number of items that match contains is too low or too high".to_owned()
            }
            Keyword::Ref(_)
            | Keyword::AllOf(_)
            | Keyword::If { .. }
            | Keyword::Dependent(_)
            | Keyword::Members { .. }
            | Keyword::Items { .. }
            | Keyword::UnevaluatedMembers(_)
            | Keyword::UnevaluatedItems(_) => "the value does not match".to_owned(),
        }
    }

    fn explain_error(&self, stop: EvaluationError) -> String {
        match stop {
            EvaluationError::TooMuchWork => {
                "needs too much work to be checked by its schema; use a smaller value or a simpler schema"
                    .to_owned()
            }
            EvaluationError::TooDeep => "is nested too deeply to be checked by its schema".to_owned(),
            EvaluationError::Unsupported(pattern) => {
                let why = self.0.patterns[pattern].bytes().err().unwrap_or_default();
                format!("cannot be checked: {why}")
            }
        }
    }
}

/// Returns the part of a value at an address. Adds the tokens of the pointer to it to `path`, last one first.
fn find<'v>(value: &'v Value, wanted: usize, path: &mut Vec<String>) -> Option<&'v Value> {
    if references::address(value) == wanted {
        return Some(value);
    }
    match value {
        Value::Array(items) => items.iter().enumerate().find_map(|(position, item)| {
            let found = find(item, wanted, path)?;
            path.push(format!("/{position}"));
            Some(found)
        }),
        Value::Object(members) => members.iter().find_map(|(name, member)| {
            let found = find(member, wanted, path)?;
            path.push(format!("/{}", name.replace('~', "~0").replace('/', "~1")));
            Some(found)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Returns true if a text is a timestamp of RFC 3339.
pub(crate) fn is_instant(text: &str) -> bool {
    static INSTANT: LazyLock<Option<Validator>> = LazyLock::new(|| {
        let format = json!({"format": "date-time"});
        jsonschema::draft202012::options().should_validate_formats(true).build(&format).ok()
    });
    INSTANT.as_ref().is_some_and(|validator| validator.is_valid(&Value::String(text.to_owned())))
}

/// Checks a schema that a caller supplies against the limits for all such schemas.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    Schema::register(schema).map(drop)
}

/// Compiles a schema and returns a function that checks values. Its error is the path in the value and a message.
pub fn compile_checker(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_an_invalid_value_has_its_path() {
        let schema = json!({"type": "object", "properties": {"amount": {"type": "integer"}}});
        let schema = Schema::compile(&schema).unwrap();
        assert_eq!(schema.check(&json!({"amount": 3})), Ok(()));
        let (path, message) = schema.check(&json!({"amount": "x"})).unwrap_err();
        assert_eq!(path, "/amount");
        assert!(message.contains("integer"), "{message}");
    }

    #[test]
    fn the_error_of_a_compiled_checker_begins_with_the_path() {
        let check = compile_checker(
            &json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}),
        );
        let check = check.unwrap();
        assert_eq!(check(&json!({"a": "x"})), Ok(()));
        assert!(check(&json!({"a": 1})).unwrap_err().starts_with("/a: "));
        assert!(check(&json!({})).unwrap_err().contains("required"));
        assert!(compile_checker(&json!({"type": 5})).is_err());
    }

    #[test]
    fn a_reference_out_of_the_schema_is_rejected() {
        let compile = |schema: Value| Schema::compile(&schema);
        let error = compile(json!({"allOf": [{"$ref": "https://example.org/x.json"}]})).unwrap_err();
        assert!(error.contains("https://example.org/x.json"), "{error}");
        assert!(compile(json!({"$ref": "#/$defs/a", "$defs": {"a": true}})).is_ok());
        assert!(compile(json!({"$ref": "#/$defs/b", "$defs": {"a": true}})).is_err());
        assert!(compile(json!({"$ref": "#b"})).is_err());
        assert!(
            compile(json!({"const": {"$ref": "#/nowhere", "$id": "x"}, "enum": [{"$anchor": 1}]})).is_ok()
        );
        assert!(compile(json!({"type": 5})).is_err());
        assert!(compile(json!({"items": {"pattern": 5}})).is_err());
        assert!(compile(json!("string")).is_err());
    }

    #[test]
    fn references_are_resolved_relative_to_the_nearest_id_and_to_anchors() {
        let schema = json!({
            "$id": "https://example.org/root.json",
            "properties": {"a b": {"$ref": "#/$defs/a%20b"}, "inner": {"$ref": "#/$defs/inner"}},
            "$defs": {
                "a b": {"$anchor": "number", "type": "number"},
                "inner": {
                    "$id": "inner.json",
                    "properties": {"text": {"$ref": "#text"}, "own": {"$ref": "#/$defs/own"}},
                    "$defs": {"text": {"$anchor": "text", "type": "string"}, "own": {"type": "null"}},
                },
            },
        });
        let schema = Schema::compile(&schema).unwrap();
        assert_eq!(schema.check(&json!({"a b": 1, "inner": {"text": "x", "own": null}})), Ok(()));
        let path = |value: Value| schema.check(&value).unwrap_err().0;
        assert_eq!(path(json!({"a b": "x"})), "/a b");
        assert_eq!(path(json!({"inner": {"text": 1}})), "/inner/text");
        assert_eq!(path(json!({"inner": {"own": 1}})), "/inner/own");
    }

    #[test]
    fn a_new_schema_that_is_too_large_or_too_deep_is_rejected() {
        let nested = |levels: usize| (0..levels).fold(json!(true), |inner, _| json!({"not": inner}));
        assert!(Schema::register(&nested(limits::SCHEMA_LEVELS_MAX)).is_ok());
        assert!(Schema::register(&nested(limits::SCHEMA_LEVELS_MAX + 1)).is_err());
        assert!(Schema::compile(&nested(limits::SCHEMA_LEVELS_MAX + 1)).is_ok());
        let sized = |bytes: usize| json!({"const": "x".repeat(bytes - r#"{"const":""}"#.len())});
        assert!(Schema::register(&sized(limits::SCHEMA_BYTES_MAX)).is_ok());
        assert!(Schema::register(&sized(limits::SCHEMA_BYTES_MAX + 1)).is_err());
        assert!(Schema::compile(&sized(limits::SCHEMA_BYTES_MAX + 1)).is_ok());
    }

    #[test]
    fn the_evaluation_of_a_circular_schema_ends() {
        for circle in [
            json!({"$ref": "#"}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        ] {
            assert!(Schema::compile(&circle).unwrap().check(&json!({"a": 1})).is_err());
        }
        let circle = Schema::compile(&json!({"allOf": [{"$ref": "#"}], "type": "object"})).unwrap();
        assert_eq!(circle.check(&json!({"a": 1})), Ok(()));
    }
}
