//! The gate before tool calls: patterns, arguments, precedence, flaws, and what holds whatever is written and called.

mod arguments;
mod document;
mod flaws;
mod patterns;
mod precedence;
mod properties;
mod texts;

use holdpoint_core::permission::{Behaviour, PermissionSet, Rule};
use serde_json::{Value, json};

/// A set of rules in their short form.
fn set(rules: &[&str]) -> PermissionSet {
    PermissionSet::parse(&json!(rules)).unwrap_or_else(|flaws| panic!("{rules:?}: {flaws:?}"))
}

fn rule(text: &str) -> Rule {
    text.parse().unwrap_or_else(|flaw| panic!("{text}: {flaw}"))
}

/// What becomes of a call without a declared primary argument.
fn judged(rules: &[&str], tool: &str, arguments: &Value) -> Behaviour {
    set(rules).judge(tool, None, arguments).behaviour
}
