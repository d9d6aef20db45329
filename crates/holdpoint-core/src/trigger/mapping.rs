//! The input mapping of a trigger: a template whose references are replaced by parts of the occurrence. It has no code.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::limits;
use crate::refusal::{Refusal, check_size, json_bytes};

/// The member that makes an object of the template a reference. Its value is a JSON Pointer into the occurrence.
pub const REFERENCE: &str = "$from";
/// The member with the value for a pointer that leads nowhere.
const DEFAULT: &str = "default";

/// The inputs of the runs of a trigger. `{"$from": "/payload/id"}` is replaced by a part of the occurrence, and
/// `{"$from": …, "default": …}` has a value for a missing part. All other values are used as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InputMapping(pub Map<String, Value>);

/// An occurrence that the template cannot be applied to. The message has no part of the occurrence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// A reference leads nowhere.
    #[error("inputMapping.{input}: the occurrence has no {pointer:?}, and the reference has no default")]
    Missing {
        /// The input.
        input: String,
        /// The pointer of the reference.
        pointer: String,
    },
    /// The parts of the occurrence are too large together.
    #[error("inputMapping: the inputs have more than {0} bytes; refer to smaller parts of the occurrence")]
    TooLarge(usize),
}

impl InputMapping {
    /// Rejects an invalid template.
    pub fn check(&self) -> Result<(), Refusal> {
        let max = limits::TRIGGER_MAPPING_BYTES_MAX;
        check_size("it", &self.0, max).map_err(|why| Refusal::invalid("inputMapping", why.to_string()))?;
        for (input, value) in &self.0 {
            check_value(value, 0)
                .map_err(|message| Refusal::invalid(format!("inputMapping.{input}"), message))?;
        }
        Ok(())
    }

    /// Returns the inputs for an occurrence.
    pub fn inputs(&self, occurrence: &Value) -> Result<Map<String, Value>, MappingError> {
        let mut room = limits::TRIGGER_INPUTS_BYTES_MAX;
        let one = |(input, value): (&String, &Value)| match resolve(value, occurrence, &mut room) {
            Ok(value) => Ok((input.clone(), value)),
            Err(Unresolved::Missing(pointer)) => {
                Err(MappingError::Missing { input: input.clone(), pointer: pointer.to_owned() })
            }
            Err(Unresolved::TooLarge) => Err(MappingError::TooLarge(limits::TRIGGER_INPUTS_BYTES_MAX)),
        };
        self.0.iter().map(one).collect()
    }
}

/// Returns whether a text is a JSON Pointer.
pub(super) fn is_pointer(text: &str) -> bool {
    text.is_empty() || text.starts_with('/')
}

fn check_value(value: &Value, level: usize) -> Result<(), String> {
    if level >= limits::TRIGGER_MAPPING_LEVELS_MAX {
        return Err(format!("is nested deeper than {} levels", limits::TRIGGER_MAPPING_LEVELS_MAX));
    }
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| check_value(item, level + 1)),
        Value::Object(members) => match members.get(REFERENCE) {
            Some(pointer) => check_reference(pointer, members),
            None => match members.keys().find(|name| name.starts_with('$')) {
                Some(name) => {
                    Err(format!("has the member {name:?}; the only one with a dollar sign is {REFERENCE}"))
                }
                None => members.values().try_for_each(|member| check_value(member, level + 1)),
            },
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn check_reference(pointer: &Value, members: &Map<String, Value>) -> Result<(), String> {
    if !pointer.as_str().is_some_and(is_pointer) {
        return Err(format!("{REFERENCE} must be a JSON Pointer such as \"/payload/id\""));
    }
    match members.keys().find(|name| ![REFERENCE, DEFAULT].contains(&name.as_str())) {
        Some(name) => Err(format!("has the member {name:?} beside {REFERENCE}; only {DEFAULT} is allowed")),
        None => Ok(()),
    }
}

/// The reason why a template has no value.
enum Unresolved<'t> {
    /// The pointer leads nowhere.
    Missing(&'t str),
    TooLarge,
}

/// Returns the value of a template. `room` is the number of bytes that parts of the occurrence may still have: a part is
/// counted before it is copied, because a short template can name a large part many times.
fn resolve<'t>(template: &'t Value, occurrence: &Value, room: &mut usize) -> Result<Value, Unresolved<'t>> {
    match template {
        Value::Array(items) => items.iter().map(|item| resolve(item, occurrence, room)).collect(),
        Value::Object(members) => {
            if let Some(pointer) = members.get(REFERENCE).and_then(Value::as_str) {
                let found = occurrence.pointer(pointer).or_else(|| members.get(DEFAULT));
                let found = found.ok_or(Unresolved::Missing(pointer))?;
                *room = room.checked_sub(json_bytes(found)).ok_or(Unresolved::TooLarge)?;
                return Ok(found.clone());
            }
            let one = |(name, member)| Ok((String::clone(name), resolve(member, occurrence, room)?));
            members.iter().map(one).collect::<Result<Map<_, _>, _>>().map(Value::Object)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(template.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mapping(value: Value) -> InputMapping {
        serde_json::from_value(value).expect("a mapping")
    }

    #[test]
    fn references_are_replaced_at_every_level() {
        let template = mapping(json!({
            "order": {"$from": "/payload/order"},
            "list": [{"id": {"$from": "/payload/order/id"}}, 7],
            "note": {"$from": "/payload/note", "default": null},
            "text": "{{payload.order}} ${payload} $from",
            "all": {"$from": ""},
        }));
        template.check().unwrap();
        let occurrence = json!({"payload": {"order": {"id": 1, "$from": "/x"}}});
        let inputs = template.inputs(&occurrence).unwrap();
        let expected = json!({
            // A value of the occurrence is never a template.
            "order": {"id": 1, "$from": "/x"},
            "list": [{"id": 1}, 7],
            "note": null,
            "text": "{{payload.order}} ${payload} $from",
            "all": occurrence,
        });
        assert_eq!(Value::Object(inputs), expected);
    }

    #[test]
    fn a_missing_part_without_default_is_an_error_without_content() {
        let template = mapping(json!({"id": {"$from": "/payload/secret"}}));
        let error = template.inputs(&json!({"payload": {"other": "s3cret"}})).unwrap_err();
        let expected =
            "inputMapping.id: the occurrence has no \"/payload/secret\", and the reference has no default";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_template_cannot_multiply_an_occurrence_beyond_the_limit() {
        let template = mapping(json!({"all": vec![json!({"$from": ""}); 1000]}));
        template.check().unwrap();
        let small = json!({"payload": "x".repeat(200)});
        assert!(template.inputs(&small).is_ok());
        let large = json!({"payload": "x".repeat(60_000)});
        let error = template.inputs(&large).unwrap_err();
        assert_eq!(error, MappingError::TooLarge(limits::TRIGGER_INPUTS_BYTES_MAX));
    }

    #[test]
    fn invalid_templates_are_refused() {
        let mut deep = json!(1);
        for _ in 0..limits::TRIGGER_MAPPING_LEVELS_MAX {
            deep = json!([deep]);
        }
        for (value, message) in [
            (json!({"$from": 1}), "inputMapping.a: $from must be a JSON Pointer"),
            (json!({"$from": "payload"}), "inputMapping.a: $from must be a JSON Pointer"),
            (json!({"$from": "/a", "then": 1}), "inputMapping.a: has the member \"then\" beside $from"),
            (json!([{"$eval": "1"}]), "inputMapping.a: has the member \"$eval\""),
            (deep, "inputMapping.a: is nested deeper than 16 levels"),
        ] {
            let refused = mapping(json!({"a": value})).check().unwrap_err().to_string();
            assert!(refused.contains(message), "{refused}");
        }
        let large = mapping(json!({"a": "x".repeat(limits::TRIGGER_MAPPING_BYTES_MAX)})).check();
        assert!(large.unwrap_err().to_string().contains("at most 16384"));
    }
}
