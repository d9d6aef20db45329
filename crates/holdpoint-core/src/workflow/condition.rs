//! The `condition` of an edge, parsed and compiled once when a workflow is registered.

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};
use thiserror::Error;

use super::expression::{self, EvalError, Expression, ExpressionScope, ValuePath};
use crate::limits::PATTERN_BYTES_MAX;

/// A condition that decides whether an edge is taken.
#[derive(Clone, Debug)]
pub enum EdgeCondition {
    /// The expression is truthy.
    Expression(Expression),
    /// The value equals `right`.
    Equals {
        /// The path of the value.
        left: ValuePath,
        /// The expected value.
        right: Value,
    },
    /// The value does not equal `right`.
    NotEquals {
        /// The path of the value.
        left: ValuePath,
        /// The excluded value.
        right: Value,
    },
    /// The value contains `right`.
    Contains {
        /// The path of the value.
        left: ValuePath,
        /// The contained value.
        right: Value,
    },
    /// The value matches the pattern `right`.
    Regex {
        /// The path of the value.
        left: ValuePath,
        /// The pattern.
        right: Regex,
    },
    /// The value is truthy.
    Truthy {
        /// The path of the value.
        left: ValuePath,
    },
    /// The value is falsy.
    Falsy {
        /// The path of the value.
        left: ValuePath,
    },
}

/// A flaw of a condition.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {message}")]
pub struct ConditionFlaw {
    /// The member with the flaw.
    pub field: String,
    /// The message.
    pub message: String,
}

impl EdgeCondition {
    /// Parses a condition.
    pub fn parse(json: &Value) -> Result<EdgeCondition, ConditionFlaw> {
        let Value::Object(members) = json else {
            return flaw("type", "a condition must be an object with a `type`");
        };
        let members = ConditionMembers(members);
        members.check_known()?;
        match members.text("type")? {
            "expression" => {
                members.check_unused(&["left", "right"])?;
                Ok(EdgeCondition::Expression(members.expression()?))
            }
            "equals" => Ok(EdgeCondition::Equals { left: members.left()?, right: members.right()?.clone() }),
            "notEquals" => {
                Ok(EdgeCondition::NotEquals { left: members.left()?, right: members.right()?.clone() })
            }
            "contains" => {
                Ok(EdgeCondition::Contains { left: members.left()?, right: members.right()?.clone() })
            }
            "regex" => Ok(EdgeCondition::Regex { left: members.left()?, right: members.pattern()? }),
            "truthy" => Ok(EdgeCondition::Truthy { left: members.only_left()? }),
            "falsy" => Ok(EdgeCondition::Falsy { left: members.only_left()? }),
            other => flaw("type", format!("`{other}` is not one of {}", TYPES.join(", "))),
        }
    }

    /// Evaluates the condition. A missing value equals only null, contains no value, matches no pattern and is falsy.
    pub fn holds(&self, scope: &ExpressionScope<'_>) -> Result<bool, EvalError> {
        let value = |left: &ValuePath| scope.lookup(left).unwrap_or(&Value::Null);
        match self {
            EdgeCondition::Expression(expression) => expression.holds(scope),
            EdgeCondition::Equals { left, right } => Ok(expression::equal(value(left), right)),
            EdgeCondition::NotEquals { left, right } => Ok(!expression::equal(value(left), right)),
            EdgeCondition::Contains { left, right } => expression::contains(value(left), right),
            EdgeCondition::Regex { left, right } => matches(value(left), right),
            EdgeCondition::Truthy { left } => Ok(expression::truthy(value(left))),
            EdgeCondition::Falsy { left } => Ok(!expression::truthy(value(left))),
        }
    }
}

fn matches(value: &Value, pattern: &Regex) -> Result<bool, EvalError> {
    match value {
        Value::Null => Ok(false),
        Value::String(text) => Ok(pattern.is_match(text)),
        _ => Err(EvalError { message: format!("the pattern `{pattern}` matches strings only") }),
    }
}

const TYPES: [&str; 7] = ["expression", "equals", "notEquals", "contains", "regex", "truthy", "falsy"];
const MEMBERS: [&str; 4] = ["type", "left", "right", "expression"];

/// The members of a condition in a definition.
struct ConditionMembers<'a>(&'a Map<String, Value>);

impl<'a> ConditionMembers<'a> {
    fn check_known(&self) -> Result<(), ConditionFlaw> {
        match self.0.keys().find(|key| !MEMBERS.contains(&key.as_str())) {
            Some(key) => flaw(key, "is not a member of a condition"),
            None => Ok(()),
        }
    }

    // A member that the type does not use is probably a mistake. Many clients send null for an absent member.
    fn check_unused(&self, fields: &[&str]) -> Result<(), ConditionFlaw> {
        match fields.iter().find(|field| self.0.get(**field).is_some_and(|value| !value.is_null())) {
            Some(field) => flaw(*field, "is not used by this type of condition"),
            None => Ok(()),
        }
    }

    fn left(&self) -> Result<ValuePath, ConditionFlaw> {
        self.check_unused(&["expression"])?;
        ValuePath::parse(self.text("left")?).or_else(|error| flaw("left", error.to_string()))
    }

    fn only_left(&self) -> Result<ValuePath, ConditionFlaw> {
        self.check_unused(&["right"])?;
        self.left()
    }

    fn right(&self) -> Result<&'a Value, ConditionFlaw> {
        self.0.get("right").map_or_else(|| flaw("right", "is missing; use null to compare with null"), Ok)
    }

    fn pattern(&self) -> Result<Regex, ConditionFlaw> {
        RegexBuilder::new(self.text("right")?).size_limit(PATTERN_BYTES_MAX).build().or_else(|error| {
            match error {
                // The usual cause is a class such as `\w`, which contains all Unicode letters.
                regex::Error::CompiledTooBig(_) => flaw(
                    "right",
                    format!(
                        "the compiled pattern is larger than {PATTERN_BYTES_MAX} bytes; \
                         `(?-u)` in front makes classes such as `\\w` and `\\d` ASCII and small"
                    ),
                ),
                error => flaw("right", error.to_string()),
            }
        })
    }

    fn expression(&self) -> Result<Expression, ConditionFlaw> {
        Expression::parse(self.text("expression")?).or_else(|error| flaw("expression", error.to_string()))
    }

    fn text(&self, field: &'static str) -> Result<&'a str, ConditionFlaw> {
        match self.0.get(field) {
            Some(Value::String(text)) => Ok(text),
            Some(Value::Null) | None => flaw(field, "is missing"),
            Some(_) => flaw(field, "must be a string"),
        }
    }
}

fn flaw<T>(field: impl Into<String>, message: impl Into<String>) -> Result<T, ConditionFlaw> {
    Err(ConditionFlaw { field: field.into(), message: message.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn holds(condition: &Value) -> Result<bool, String> {
        let output =
            json!({"state": "open", "count": 1, "tags": ["a", 2], "owner": {"name": "Ada"}, "gone": null});
        let condition = EdgeCondition::parse(condition).expect("a valid condition");
        condition.holds(&ExpressionScope::new().root("output", &output)).map_err(|error| error.to_string())
    }

    fn flaw_of(condition: &Value) -> (String, String) {
        let flaw = EdgeCondition::parse(condition).expect_err("a flaw");
        (flaw.field, flaw.message)
    }

    #[test]
    fn equals_compares_json_values_and_1_equals_1_0() {
        for (left, right, expected) in [
            ("output.state", json!("open"), true),
            ("output.state", json!("shut"), false),
            ("output.count", json!(1.0), true),
            ("output.count", json!("1"), false),
            ("output.tags", json!(["a", 2.0]), true),
            ("output.tags", json!(["a"]), false),
            ("output.owner", json!({"name": "Ada"}), true),
            ("output.missing", json!(null), true),
            ("output.gone", json!(null), true),
            ("output.missing", json!(false), false),
            ("missing.deeply[3]", json!(""), false),
        ] {
            let condition = json!({"type": "equals", "left": left, "right": right});
            assert_eq!(holds(&condition), Ok(expected), "{condition}");
            let opposite = json!({"type": "notEquals", "left": left, "right": right});
            assert_eq!(holds(&opposite), Ok(!expected), "{opposite}");
        }
    }

    #[test]
    fn contains_searches_strings_arrays_and_objects() {
        for (left, right, expected) in [
            ("output.state", json!("pe"), true),
            ("output.state", json!("x"), false),
            ("output.tags", json!(2.0), true),
            ("output.tags", json!("b"), false),
            ("output.owner", json!("name"), true),
            ("output.owner", json!("Ada"), false),
            ("output.missing", json!("a"), false),
            ("output.gone", json!("a"), false),
        ] {
            let condition = json!({"type": "contains", "left": left, "right": right});
            assert_eq!(holds(&condition), Ok(expected), "{condition}");
        }
        let number = holds(&json!({"type": "contains", "left": "output.count", "right": "1"}));
        assert_eq!(number, Err("a number cannot contain a string".to_owned()));
    }

    #[test]
    fn regex_matches_strings_and_never_a_missing_value() {
        for (left, right, expected) in [
            ("output.state", "^o.*n$", true),
            ("output.state", "^p", false),
            ("output.missing", ".*", false),
            ("output.gone", ".*", false),
        ] {
            let condition = json!({"type": "regex", "left": left, "right": right});
            assert_eq!(holds(&condition), Ok(expected), "{condition}");
        }
        let number = holds(&json!({"type": "regex", "left": "output.count", "right": "1"}));
        assert_eq!(number, Err("the pattern `1` matches strings only".to_owned()));
    }

    #[test]
    fn a_pattern_that_is_too_large_is_rejected_with_a_hint() {
        let pattern = |text: &str| json!({"type": "regex", "left": "output.state", "right": text});
        let (field, message) = flaw_of(&pattern("(a{1000}){1000}"));
        assert_eq!(field, "right");
        assert!(message.contains("larger than 1048576 bytes; `(?-u)` in front"), "{message}");
        for small in [
            r"^\w+@[\w.]+\.\w+$",
            r"(?-u)^\w+@[\w.]+\.\w+$",
            r"^\d{4}-\d{2}-\d{2}$",
            "(?i)^(approve|reject)",
            r"^\w+$",
        ] {
            assert!(holds(&pattern(small)).is_ok(), "{small}");
        }
    }

    #[test]
    fn truthy_and_falsy_are_opposites() {
        for (left, expected) in [("output.state", true), ("output.gone", false), ("x", false)] {
            assert_eq!(holds(&json!({"type": "truthy", "left": left})), Ok(expected), "{left}");
            assert_eq!(holds(&json!({"type": "falsy", "left": left})), Ok(!expected), "{left}");
        }
    }

    #[test]
    fn an_expression_holds_when_it_is_truthy() {
        let expression = |text: &str| holds(&json!({"type": "expression", "expression": text}));
        assert_eq!(expression("output.count == 1 && 'a' in output.tags"), Ok(true));
        assert_eq!(expression("output.gone"), Ok(false));
        assert_eq!(expression("output.tags"), Ok(true));
        assert!(expression("output.state < 1").is_err());
    }

    #[test]
    fn a_flaw_names_its_member() {
        for (condition, field, message) in [
            (json!("equals"), "type", "a condition must be an object with a `type`"),
            (json!({}), "type", "is missing"),
            (json!({"type": 1}), "type", "must be a string"),
            (json!({"type": "like"}), "type", "`like` is not one of expression, equals"),
            (json!({"type": "truthy", "left": "a", "rigth": 1}), "rigth", "is not a member"),
            (json!({"type": "equals", "right": 1}), "left", "is missing"),
            (json!({"type": "equals", "left": "a..b", "right": 1}), "left", "expected a name after `.`"),
            (json!({"type": "equals", "left": "", "right": 1}), "left", "expected a name at position 0"),
            (json!({"type": "equals", "left": "a"}), "right", "is missing"),
            (json!({"type": "equals", "left": "a", "right": 1, "expression": "a"}), "expression", "not used"),
            (json!({"type": "regex", "left": "a", "right": "("}), "right", "unclosed group"),
            (json!({"type": "regex", "left": "a", "right": 7}), "right", "must be a string"),
            (json!({"type": "truthy", "left": "a", "right": 7}), "right", "not used"),
            (json!({"type": "expression"}), "expression", "is missing"),
            (
                json!({"type": "expression", "expression": "a =="}),
                "expression",
                "expected a value after `==`",
            ),
            (json!({"type": "expression", "expression": "a", "left": "a"}), "left", "not used"),
        ] {
            let (found, text) = flaw_of(&condition);
            assert_eq!(found, field, "{condition}");
            assert!(text.contains(message), "{condition}: {text}");
        }
    }

    #[test]
    fn a_null_member_counts_as_absent() {
        let condition = json!({"type": "truthy", "left": "output.state", "right": null, "expression": null});
        assert_eq!(holds(&condition), Ok(true));
    }
}
