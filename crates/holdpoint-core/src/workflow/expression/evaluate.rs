//! Evaluates expressions. Every combination of operand types has a value or an error message.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::{Arithmetic, Comparison, EvalError, ExpressionNode, ExpressionScope};
use crate::limits::EXPRESSION_STRING_BYTES_MAX;

/// Returns whether a value is truthy, as in JavaScript: all values except null, false, 0 and the empty string.
pub(in super::super) fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// Compares JSON values. Numbers are equal if their values are equal (1 and 1.0), at every depth.
pub(in super::super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => order(left, right) == Some(Ordering::Equal),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| equal(left, right)))
        }
        _ => left == right,
    }
}

/// Returns whether an array has the element, an object has the key, or a string has the substring. Null contains no
/// value, because a missing value is null.
pub(in super::super) fn contains(container: &Value, item: &Value) -> Result<bool, EvalError> {
    match (container, item) {
        (Value::Null, _) => Ok(false),
        (Value::Array(elements), _) => Ok(elements.iter().any(|element| equal(element, item))),
        (Value::Object(members), Value::String(key)) => Ok(members.contains_key(key)),
        (Value::String(text), Value::String(part)) => Ok(text.contains(part)),
        _ => failed(format!("{} cannot contain {}", kind(container), kind(item))),
    }
}

impl ExpressionNode {
    pub(super) fn evaluate<'v>(&'v self, scope: &ExpressionScope<'v>) -> Result<Cow<'v, Value>, EvalError> {
        match self {
            ExpressionNode::Literal(value) => Ok(Cow::Borrowed(value)),
            ExpressionNode::Path(path) => Ok(Cow::Borrowed(scope.lookup(path).unwrap_or(&Value::Null))),
            ExpressionNode::Any(nodes) => evaluate_until(truthy, nodes, scope),
            ExpressionNode::All(nodes) => evaluate_until(|value| !truthy(value), nodes, scope),
            ExpressionNode::Not(node) => Ok(Cow::Owned(Value::Bool(!truthy(&*node.evaluate(scope)?)))),
            ExpressionNode::Negative(node) => negative(&*node.evaluate(scope)?).map(Cow::Owned),
            ExpressionNode::Comparison(left, operator, right) => {
                let (left, right) = (left.evaluate(scope)?, right.evaluate(scope)?);
                compare(&left, *operator, &right).map(|holds| Cow::Owned(Value::Bool(holds)))
            }
            ExpressionNode::Arithmetic(first, rest) => {
                let mut total = first.evaluate(scope)?;
                for (operator, node) in rest {
                    total = Cow::Owned(calculate(total, *operator, &*node.evaluate(scope)?)?);
                }
                Ok(total)
            }
        }
    }
}

/// Evaluates a chain as in JavaScript: `a || b` is the first truthy value, `a && b` the first falsy value. `decides`
/// tests for such a value. If there is none, the chain is its last value. Operands after it are not evaluated, so
/// `list != null && list[0] > 3` is safe.
fn evaluate_until<'v>(
    decides: fn(&Value) -> bool,
    nodes: &'v [ExpressionNode],
    scope: &ExpressionScope<'v>,
) -> Result<Cow<'v, Value>, EvalError> {
    let mut value = Cow::Owned(Value::Null);
    for node in nodes {
        value = node.evaluate(scope)?;
        if decides(&value) {
            break;
        }
    }
    Ok(value)
}

fn compare(left: &Value, operator: Comparison, right: &Value) -> Result<bool, EvalError> {
    match operator {
        Comparison::Equal => Ok(equal(left, right)),
        Comparison::NotEqual => Ok(!equal(left, right)),
        Comparison::In => contains(right, left),
        Comparison::Less => ordered(left, right).map(Ordering::is_lt),
        Comparison::LessOrEqual => ordered(left, right).map(Ordering::is_le),
        Comparison::Greater => ordered(left, right).map(Ordering::is_gt),
        Comparison::GreaterOrEqual => ordered(left, right).map(Ordering::is_ge),
    }
}

fn ordered(left: &Value, right: &Value) -> Result<Ordering, EvalError> {
    let order = match (left, right) {
        (Value::Number(left), Value::Number(right)) => order(left, right),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => None,
    };
    let (left, right) = (kind(left), kind(right));
    order.map_or_else(
        || failed(format!("only two numbers or two strings can be ordered, not {left} and {right}")),
        Ok,
    )
}

fn calculate(left: Cow<'_, Value>, operator: Arithmetic, right: &Value) -> Result<Value, EvalError> {
    match (left.into_owned(), operator, right) {
        (Value::Number(left), _, Value::Number(right)) => calculate_numbers(&left, operator, right),
        (Value::String(left), Arithmetic::Add, Value::String(right)) => {
            // Without a limit, `a + a + a …` could build hundreds of megabytes from one large variable.
            if left.len() + right.len() > EXPRESSION_STRING_BYTES_MAX {
                return failed(format!(
                    "the joined string is longer than {EXPRESSION_STRING_BYTES_MAX} bytes"
                ));
            }
            Ok(Value::String(left + right))
        }
        (left, Arithmetic::Add, right) => {
            let (left, right) = (kind(&left), kind(right));
            failed(format!("`+` needs two numbers or two strings, not {left} and {right}"))
        }
        (left, _, right) => {
            let (symbol, left, right) = (symbol(operator), kind(&left), kind(right));
            failed(format!("`{symbol}` needs two numbers, not {left} and {right}"))
        }
    }
}

fn calculate_numbers(left: &Number, operator: Arithmetic, right: &Number) -> Result<Value, EvalError> {
    if operator == Arithmetic::Divide && right.as_f64() == Some(0.0) {
        return failed("division by zero");
    }
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) if operator != Arithmetic::Divide || left % right == 0 => {
            whole(match operator {
                Arithmetic::Add => left.checked_add(right),
                Arithmetic::Subtract => left.checked_sub(right),
                Arithmetic::Multiply => left.checked_mul(right),
                Arithmetic::Divide => left.checked_div(right),
            })
        }
        _ => {
            let (left, right) = (double(left), double(right));
            fraction(match operator {
                Arithmetic::Add => left + right,
                Arithmetic::Subtract => left - right,
                Arithmetic::Multiply => left * right,
                Arithmetic::Divide => left / right,
            })
        }
    }
}

fn symbol(operator: Arithmetic) -> &'static str {
    match operator {
        Arithmetic::Add => "+",
        Arithmetic::Subtract => "-",
        Arithmetic::Multiply => "*",
        Arithmetic::Divide => "/",
    }
}

fn negative(value: &Value) -> Result<Value, EvalError> {
    let Value::Number(number) = value else {
        return failed(format!("`-` needs a number, not {}", kind(value)));
    };
    match integer(number) {
        Some(integer) => whole(integer.checked_neg()),
        None => fraction(-double(number)),
    }
}

/// Compares numbers. Integers are compared exactly, even if they are equal as doubles.
fn order(left: &Number, right: &Number) -> Option<Ordering> {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => double(left).partial_cmp(&double(right)),
    }
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn double(number: &Number) -> f64 {
    // A JSON number is an i64, a u64 or a double. NaN would make the comparison fail instead of giving a wrong result.
    number.as_f64().unwrap_or(f64::NAN)
}

fn whole(result: Option<i128>) -> Result<Value, EvalError> {
    match result.and_then(Number::from_i128) {
        Some(number) => Ok(Value::Number(number)),
        None => failed("the result does not fit in a 64-bit integer"),
    }
}

fn fraction(result: f64) -> Result<Value, EvalError> {
    match Number::from_f64(result) {
        Some(number) => Ok(Value::Number(number)),
        None => failed("the result is too large for a number"),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn failed<T>(message: impl Into<String>) -> Result<T, EvalError> {
    Err(EvalError { message: message.into() })
}
