//! Parts of a value during an evaluation, and helpers to count and compare them.

use std::collections::HashSet;

use holdpoint_ids::canonical;
use serde_json::Value;

use super::graph::NodeIndex;

/// The first mismatch of a value: a part of the value, a subschema and one of its keywords.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchemaFault {
    pub(super) node: NodeIndex,
    /// None if the value does not pass the assertions, or if the subschema is `false`.
    pub(super) keyword: Option<usize>,
    /// The address of the part of the value.
    pub(super) address: usize,
    /// The nesting level of the part.
    pub(super) level: usize,
}

/// A part of the value.
#[derive(Clone, Copy)]
pub(super) struct Part<'v> {
    pub(super) value: &'v Value,
    /// The nesting level of the part.
    pub(super) level: usize,
}

impl<'v> Part<'v> {
    pub(super) fn inner(self, value: &'v Value) -> Self {
        Self { value, level: self.level + 1 }
    }

    /// Returns the number of members or items.
    pub(super) fn length(self) -> usize {
        match self.value {
            Value::Object(members) => members.len(),
            Value::Array(items) => items.len(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }
}

/// Returns the number of values in a value. Long texts count as several.
pub(super) fn size(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() as u64 / 16 + size(value)).sum()
        }
        Value::String(text) => text.len() as u64 / 16,
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Sets a flag, if flags are requested.
pub(super) fn mark(evaluated: &mut [bool], position: usize) {
    if let Some(seen) = evaluated.get_mut(position) {
        *seen = true;
    }
}

/// Sets the flags that are set in another list.
pub(super) fn merge(evaluated: &mut [bool], more: &[bool]) {
    for (seen, now) in evaluated.iter_mut().zip(more) {
        *seen |= now;
    }
}

/// Returns true if all items differ. Compares canonical texts, in which 1 and 1.0 are equal. Integers beyond 2^53 are
/// compared as floats.
pub(super) fn are_unique(items: &[Value]) -> bool {
    let mut seen = HashSet::with_capacity(items.len());
    items.iter().all(|item| seen.insert(canonical(item)))
}
