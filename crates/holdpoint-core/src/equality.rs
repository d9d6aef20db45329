//! Equality of JSON values.

use serde_json::{Number, Value};

/// Returns whether two values are equal as JSON: 1 equals 1.0, two different integers are never equal, and the order of
/// members does not count. Recurses as deep as `wanted`.
pub(crate) fn same(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Number(value), Value::Number(wanted)) => same_number(value, wanted),
        (Value::Array(values), Value::Array(wanted)) => {
            values.len() == wanted.len()
                && values.iter().zip(wanted).all(|(value, wanted)| same(value, wanted))
        }
        (Value::Object(values), Value::Object(wanted)) => {
            let member = |(name, wanted)| values.get(name).is_some_and(|value| same(value, wanted));
            values.len() == wanted.len() && wanted.iter().all(member)
        }
        (Value::String(value), Value::String(wanted)) => value == wanted,
        (Value::Bool(value), Value::Bool(wanted)) => value == wanted,
        (Value::Null, Value::Null) => true,
        _ => false,
    }
}

fn same_number(one: &Number, other: &Number) -> bool {
    match (integer(one), integer(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.as_f64() == other.as_f64(),
        _ => false,
    }
}

/// Returns the exact integer. A double without a fraction is an integer, too.
fn integer(number: &Number) -> Option<i128> {
    let exact = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    exact.or_else(|| {
        let value = number.as_f64().filter(|value| value.fract() == 0.0 && value.abs() < 1e30)?;
        Some(value as i128)
    })
}
