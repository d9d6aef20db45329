//! The digest that binds an approval to a call: its tool and its exact arguments.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Returns the digest of `{"tool": name, "arguments": arguments}`. RFC 8785 treats every number as a double, so two
/// large integers can have the same canonical form. Each integer that a double cannot represent exactly is therefore
/// added as text, by its JSON pointer, in a third member `exact`.
pub fn call_digest(name: &str, arguments: &Value) -> String {
    let mut call = json!({"tool": name, "arguments": arguments});
    let exact = large_integers(arguments);
    if !exact.is_empty() {
        call["exact"] = json!(exact);
    }
    crate::digest(&call)
}

fn large_integers(arguments: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![(String::new(), arguments)];
    while let Some((pointer, value)) = open.pop() {
        match value {
            Value::Number(number) => {
                let bits = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
                if bits.is_some_and(|bits| bits > 1 << f64::MANTISSA_DIGITS) {
                    found.insert(pointer, number.to_string());
                }
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                open.extend(items.map(|(place, item)| (format!("{pointer}/{place}"), item)));
            }
            Value::Object(members) => open.extend(members.iter().map(|(name, member)| {
                (format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1")), member)
            })),
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }
    found
}
