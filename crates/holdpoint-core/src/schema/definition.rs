//! The limit on the patterns of all schemas of one definition. Each schema has a limit of its own; without this one, a
//! definition with many schemas takes minutes to compile.

use std::collections::HashMap;

use regex::Regex;
use serde_json::Value;

use super::pattern::SchemaPattern;
use crate::limits;

/// Members that hold a schema, in workflows and in tools of agents. Other names end in `Schema`.
const SCHEMAS: [&str; 2] = ["schema", "parameters"];

/// Rejects a definition if the compiled patterns of all its schemas together are too large. A pattern that is too large
/// counts as the largest allowed one, because trying to compile it costs as much. A pattern that cannot be parsed
/// counts as 0; its schema is rejected when it is registered.
pub(crate) fn check_patterns(definition: &Value) -> Result<(), String> {
    let mut total = PatternTotal { bytes: 0, sizes: HashMap::new() };
    if total.add_schemas(definition) {
        return Ok(());
    }
    let max = limits::DEFINITION_PATTERN_BYTES_MAX / (1024 * 1024);
    Err(format!(
        "the patterns of its schemas need more than {max} MiB compiled; use fewer patterns, or maxLength instead of \
         counted repetition"
    ))
}

/// The total size of all patterns. The functions that add to it return false when the limit is exceeded; then no
/// further pattern is compiled.
struct PatternTotal<'d> {
    bytes: usize,
    sizes: HashMap<&'d str, usize>,
}

impl<'d> PatternTotal<'d> {
    fn add_schemas(&mut self, part: &'d Value) -> bool {
        match part {
            Value::Array(items) => items.iter().all(|item| self.add_schemas(item)),
            Value::Object(members) => members.iter().all(|(name, member)| {
                if SCHEMAS.contains(&name.as_str()) || name.ends_with("Schema") {
                    self.add_patterns(member)
                } else {
                    self.add_schemas(member)
                }
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }

    fn add_patterns(&mut self, schema: &'d Value) -> bool {
        match schema {
            Value::Array(items) => items.iter().all(|item| self.add_patterns(item)),
            Value::Object(members) => members.iter().all(|(name, member)| match (name.as_str(), member) {
                ("pattern", Value::String(text)) => self.add(text),
                ("patternProperties", Value::Object(by_pattern)) => {
                    by_pattern.iter().all(|(text, inner)| self.add(text) && self.add_patterns(inner))
                }
                _ => self.add_patterns(member),
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }

    fn add(&mut self, text: &'d str) -> bool {
        self.bytes += *self.sizes.entry(text).or_insert_with(|| measure(text));
        self.bytes <= limits::DEFINITION_PATTERN_BYTES_MAX
    }
}

fn measure(text: &str) -> usize {
    let is_parsed = || matches!(Regex::new(text), Ok(_) | Err(regex::Error::CompiledTooBig(_)));
    let unusable = || if is_parsed() { limits::SCHEMA_PATTERN_BYTES_MAX } else { 0 };
    SchemaPattern::new(text).bytes().unwrap_or_else(|_| unusable())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nodes(count: usize, schema: &Value) -> Value {
        let node = json!({"config": {"data": {"questions": [{"schema": schema}]}, "resumeSchema": schema}});
        json!({ "nodes": vec![node; count] })
    }

    #[test]
    fn patterns_of_all_schemas_of_a_definition_are_counted_together() {
        let large = json!({"properties": {"a": {"pattern": r"^\w{900}$"}}});
        assert_eq!(check_patterns(&nodes(1, &large)), Ok(()));
        let refused = check_patterns(&nodes(400, &large)).unwrap_err();
        assert!(refused.contains("MiB"), "{refused}");
        let by_name = json!({"patternProperties": {r"^\w{900}$": {"type": "string"}}});
        assert!(check_patterns(&nodes(400, &by_name)).is_err());
        let small = json!({"pattern": "^[a-z]+$"});
        assert_eq!(check_patterns(&nodes(500, &small)), Ok(()), "ordinary definitions pass");
    }

    #[test]
    fn members_outside_of_schemas_are_not_patterns() {
        let rule = json!({"pattern": r"^\w{100000}$"});
        assert_eq!(check_patterns(&json!({"rules": vec![rule.clone(); 100]})), Ok(()));
        assert!(check_patterns(&json!({"parameters": {"items": vec![rule; 100]}})).is_err());
        let look_around = json!({"pattern": "(?=a)"});
        let left_to_each_schema = check_patterns(&json!({"parameters": {"items": vec![look_around; 100]}}));
        assert_eq!(left_to_each_schema, Ok(()));
    }
}
