//! Reads the members of a JSON object. A flaw names its field. Its message never contains the value, which may be a
//! secret in the wrong field.

use std::ops::RangeInclusive;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::BadModel;

#[derive(Debug)]
pub(super) struct ModelMembers<'a> {
    path: String,
    members: &'a Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'a> ModelMembers<'a> {
    /// Reads an object. `path` is its path in the model; empty at the top.
    pub(super) fn of(value: &'a Value, path: impl Into<String>) -> Result<Self, BadModel> {
        let path = path.into();
        match value {
            Value::Object(members) => Ok(Self { path, members, known: Vec::new() }),
            _ => Err(BadModel::new(path, "must be an object")),
        }
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub(super) fn flaw(&self, name: &str, message: impl Into<String>) -> BadModel {
        BadModel::new(self.path_of(name), message)
    }

    pub(super) fn value(&mut self, name: &'static str) -> Option<&'a Value> {
        self.known.push(name);
        self.members.get(name)
    }

    pub(super) fn take<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
        expected: &str,
    ) -> Result<Option<T>, BadModel> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let parsed = T::deserialize(value).map_err(|_| self.flaw(name, format!("must be {expected}")))?;
        Ok(Some(parsed))
    }

    /// Returns a non-empty string.
    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<String>, BadModel> {
        let text: Option<String> = self.take(name, "a string")?;
        match text {
            Some(text) if text.trim().is_empty() => Err(self.flaw(name, "must not be empty")),
            text => Ok(text),
        }
    }

    pub(super) fn needed_text(&mut self, name: &'static str) -> Result<String, BadModel> {
        self.text(name)?.ok_or_else(|| self.flaw(name, "is missing"))
    }

    pub(super) fn count(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, BadModel> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let count: Option<u64> = self.take(name, &expected)?;
        match count {
            Some(count) if !range.contains(&count) => Err(self.flaw(name, format!("must be {expected}"))),
            count => Ok(count),
        }
    }

    /// Rejects members that were not read.
    pub(super) fn reject_unknown(self) -> Result<(), BadModel> {
        match self.members.keys().find(|name| !self.known.contains(&name.as_str())) {
            Some(name) => Err(self.flaw(name, format!("is not known; known: {}", self.known.join(", ")))),
            None => Ok(()),
        }
    }
}
