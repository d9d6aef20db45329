//! Declared channels: how writes to one come together, what may be written, and who may write and read.

use serde_json::Value;

use super::Node;
use crate::event::Reducer;
use crate::schema::Schema;

#[derive(Debug)]
pub struct Channel {
    pub reducer: Reducer,
    pub default: Option<Value>,
    pub max_size: Option<u64>,
    pub ttl_ms: Option<u64>,
    /// Kept from outside view.
    pub sensitive: bool,
    pub schema_version: u64,
    pub(super) schema: Option<Schema>,
    /// `None`: everybody.
    pub(super) readers: Option<Vec<String>>,
    pub(super) writers: Option<Vec<String>>,
}

impl Channel {
    pub fn may_read(&self, node: &Node) -> bool {
        self.readers.as_ref().is_none_or(|names| names.iter().any(|name| names_node(name, node)))
    }

    pub fn may_write(&self, node: &Node) -> bool {
        self.writers.as_ref().is_none_or(|names| names.iter().any(|name| names_node(name, node)))
    }

    /// Why a value may not be written; a JSON pointer into it and a message.
    pub(crate) fn check(&self, value: &Value) -> Result<(), (String, String)> {
        self.schema.as_ref().map_or(Ok(()), |schema| schema.check(value))
    }
}

/// A node's id, its type, or the beginning of its type and a star.
fn names_node(name: &str, node: &Node) -> bool {
    name == node.id.as_str()
        || name == node.type_id
        || name.strip_suffix('*').is_some_and(|beginning| node.type_id.starts_with(beginning))
}
