//! References inside one schema document: `#`, `#/pointer` and `#anchor`, relative to the nearest `$id`.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// A subschema together with the resource it belongs to: the nearest schema around it that has an `$id`.
#[derive(Clone, Copy)]
pub(super) struct Subschema<'s> {
    pub(super) schema: &'s Value,
    resource: &'s Value,
}

impl<'s> Subschema<'s> {
    pub(super) fn root(schema: &'s Value) -> Self {
        Self { schema, resource: schema }
    }

    /// Returns a subschema of this one with its resource.
    pub(super) fn of(self, schema: &'s Value) -> Self {
        let resource = if is_resource(schema) { schema } else { self.resource };
        Self { schema, resource }
    }

    /// Resolves a `$ref` or `$dynamicRef` of this subschema.
    pub(super) fn follow(self, reference: &str, anchors: &Anchors<'s>) -> Result<Self, String> {
        let unresolved = || format!("refers to {reference}, which is not in the schema");
        let fragment = reference.strip_prefix('#').ok_or_else(unresolved)?;
        let fragment = percent_decoded(fragment).ok_or_else(unresolved)?;
        let resource = Self::root(self.resource);
        let target = if fragment.is_empty() {
            Some(resource)
        } else if let Some(pointer) = fragment.strip_prefix('/') {
            pointer.split('/').try_fold(resource, Self::step)
        } else {
            anchors.0.get(&(address(self.resource), fragment)).map(|schema| resource.of(schema))
        };
        target.filter(|found| found.schema.is_object() || found.schema.is_boolean()).ok_or_else(unresolved)
    }

    fn step(self, token: &str) -> Option<Self> {
        let token = token.replace("~1", "/").replace("~0", "~");
        let inner = match self.schema {
            Value::Object(members) => members.get(&token)?,
            Value::Array(items) => items.get(token.parse::<usize>().ok()?)?,
            _ => return None,
        };
        Some(self.of(inner))
    }
}

/// Subschemas by the address of their resource and their `$anchor` or `$dynamicAnchor`.
pub(super) struct Anchors<'s>(HashMap<(usize, String), &'s Value>);

impl<'s> Anchors<'s> {
    pub(super) fn collect(schema: &'s Value) -> Self {
        let mut anchors = Self(HashMap::new());
        anchors.add(Subschema::root(schema));
        anchors
    }

    fn add(&mut self, place: Subschema<'s>) {
        for member in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = place.schema.get(member).and_then(Value::as_str) {
                self.0.entry((address(place.resource), name.to_owned())).or_insert(place.schema);
            }
        }
        for inner in subschemas(place.schema) {
            self.add(place.of(inner));
        }
    }
}

/// Returns the address of a part of a JSON document, as a key. The document must not move while the key is used.
pub(super) fn address(value: &Value) -> usize {
    std::ptr::from_ref(value) as usize
}

/// Returns the first reference to another document.
pub(super) fn find_external_reference(schema: &Value) -> Option<&str> {
    match schema {
        Value::Object(map) => map.iter().find_map(|(name, value)| match (name.as_str(), value) {
            ("$ref" | "$dynamicRef", Value::String(target)) if !target.starts_with('#') => {
                Some(target.as_str())
            }
            _ => find_external_reference(value),
        }),
        Value::Array(items) => items.iter().find_map(find_external_reference),
        _ => None,
    }
}

/// Returns true if a `$dynamicRef` can have more than one target: a resource contains another one.
pub(super) fn is_ambiguous(schema: &Value) -> bool {
    contains(schema, &|map| map.contains_key("$dynamicRef"))
        && subschemas(schema).any(|inner| contains(inner, &|map| map.get("$id").is_some_and(is_base)))
}

fn contains(schema: &Value, is_wanted: &dyn Fn(&Map<String, Value>) -> bool) -> bool {
    schema.as_object().is_some_and(is_wanted) || subschemas(schema).any(|inner| contains(inner, is_wanted))
}

fn is_resource(schema: &Value) -> bool {
    schema.get("$id").is_some_and(is_base)
}

fn is_base(id: &Value) -> bool {
    id.as_str().is_some_and(|id| !id.starts_with('#'))
}

/// Returns the values of a schema that can contain subschemas.
fn subschemas(schema: &Value) -> impl Iterator<Item = &Value> {
    let members = schema.as_object().into_iter().flatten();
    let members = members.filter(|(name, _)| *name != "enum" && *name != "const").map(|(_, value)| value);
    members.chain(schema.as_array().into_iter().flatten())
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let hex = |digit: Option<u8>| char::from(digit?).to_digit(16);
        match byte {
            b'%' => bytes.push(u8::try_from(hex(rest.next())? * 16 + hex(rest.next())?).ok()?),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}
