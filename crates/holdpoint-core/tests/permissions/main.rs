//! Permission rules for tool calls: patterns, arguments, precedence, validation and properties.

mod arguments;
mod document;
mod flaws;
mod patterns;
mod precedence;
mod properties;
mod short_form;

use holdpoint_core::permission::{Behaviour, PermissionSet, Rule};
use serde_json::{Value, json};

/// Parses a set of rules in their short form.
fn set(rules: &[&str]) -> PermissionSet {
    PermissionSet::parse(&json!(rules)).unwrap_or_else(|flaws| panic!("{rules:?}: {flaws:?}"))
}

fn rule(text: &str) -> Rule {
    text.parse().unwrap_or_else(|flaw| panic!("{text}: {flaw}"))
}

/// Returns the behaviour for a call of a tool without a declared primary argument.
fn behaviour_of(rules: &[&str], tool: &str, arguments: &Value) -> Behaviour {
    set(rules).evaluate(tool, None, arguments).behaviour
}
