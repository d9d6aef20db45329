//! Equality of JSON values.

use serde_json::{Number, Value};

/// Returns true if two values are equal as JSON: 1 equals 1.0, two different integers are never equal, and the order of
/// members does not count. Recurses as deep as `expected`.
pub(crate) fn json_equal(value: &Value, expected: &Value) -> bool {
    match (value, expected) {
        (Value::Number(value), Value::Number(expected)) => numbers_equal(value, expected),
        (Value::Array(values), Value::Array(expected)) => {
            values.len() == expected.len()
                && values.iter().zip(expected).all(|(value, expected)| json_equal(value, expected))
        }
        (Value::Object(values), Value::Object(expected)) => {
            let member = |(name, expected)| values.get(name).is_some_and(|value| json_equal(value, expected));
            values.len() == expected.len() && expected.iter().all(member)
        }
        (Value::String(value), Value::String(expected)) => value == expected,
        (Value::Bool(value), Value::Bool(expected)) => value == expected,
        (Value::Null, Value::Null) => true,
        _ => false,
    }
}

fn numbers_equal(one: &Number, other: &Number) -> bool {
    match (integer(one), integer(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.as_f64() == other.as_f64(),
        _ => false,
    }
}

/// Returns the number as an exact integer. A double without a fraction is an integer.
fn integer(number: &Number) -> Option<i128> {
    let exact = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    exact.or_else(|| {
        let value = number.as_f64().filter(|value| value.fract() == 0.0 && value.abs() < 1e30)?;
        Some(value as i128)
    })
}
