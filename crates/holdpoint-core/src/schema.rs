//! JSON Schema (draft 2020-12) for answers, options, channels and arguments of tools.
//!
//! Callers supply the schemas and the values, so both are limited: a schema when it is registered, and the work of
//! judging each value. References to other documents are refused: a schema must be complete.

mod definition;
mod evaluation;
mod graph;
mod parts;
mod pattern;
mod references;

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod bombs;

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::limits;
use crate::refusal::json_bytes;
pub(crate) use definition::check_patterns;
use evaluation::{Stop, evaluate};
use graph::{Graph, Keyword};
use parts::Fault;

/// A schema that was compiled once.
pub(crate) struct Schema(Graph);

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Schema")
    }
}

impl Schema {
    /// Compiles a schema that was accepted before, perhaps by a version with other limits. Values are refused if only
    /// a pattern that is not supported could judge them.
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        if !schema.is_object() && !schema.is_boolean() {
            return Err("must be a JSON Schema: an object, true or false".to_owned());
        }
        if let Some(reference) = references::foreign(schema) {
            return Err(format!("refers to {reference}; only references inside the schema are followed"));
        }
        jsonschema::draft202012::meta::validate(schema)
            .map_err(|error| format!("is not a JSON Schema: {error}"))?;
        Graph::build(schema).map(Self)
    }

    /// Compiles a schema that is new here, within the limits for schemas that callers supply.
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

    /// Judges a value. The error is a JSON pointer into the value and a message, which does not contain the value.
    pub(crate) fn check(&self, value: &Value) -> Result<(), (String, String)> {
        match evaluate(&self.0, value) {
            Ok(None) => Ok(()),
            Ok(Some(fault)) => Err(self.explain(&fault, value)),
            Err(stop) => Err((String::new(), self.reason(stop))),
        }
    }

    fn explain(&self, fault: &Fault, value: &Value) -> (String, String) {
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

    fn reason(&self, stop: Stop) -> String {
        match stop {
            Stop::TooMuchWork => {
                "needs too much work to be checked by its schema; use a smaller value or a simpler schema"
                    .to_owned()
            }
            Stop::TooDeep => "is nested too deeply to be checked by its schema".to_owned(),
            Stop::Unsupported(pattern) => {
                let why = self.0.patterns[pattern].bytes().err().unwrap_or_default();
                format!("cannot be checked: {why}")
            }
        }
    }
}

/// Returns the part of a value at an address, and the tokens of the pointer to it, last one first.
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

/// Returns whether a text is an instant of RFC 3339.
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

/// Returns a function that judges values by a schema. Its error says where and what.
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
    fn references_are_relative_to_the_nearest_id_and_lead_to_anchors() {
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
    fn a_new_schema_is_neither_large_nor_deep() {
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
    fn a_schema_that_leads_to_itself_still_comes_to_an_end() {
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
