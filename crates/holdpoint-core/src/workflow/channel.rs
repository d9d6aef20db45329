//! Declared channels: the reducer, the schema of values, and the nodes that may read and write.

use serde_json::Value;

use super::Node;
use crate::event::Reducer;
use crate::schema::Schema;

/// A declared channel.
#[derive(Debug)]
pub struct Channel {
    /// The reducer that combines the writes.
    pub reducer: Reducer,
    /// The initial value.
    pub default: Option<Value>,
    /// The maximum number of entries.
    pub max_size: Option<u64>,
    /// The maximum age of entries. A write removes older entries.
    pub ttl_ms: Option<u64>,
    /// True if the value is not shown to clients.
    pub sensitive: bool,
    /// The version of the schema.
    pub schema_version: u64,
    pub(super) schema: Option<Schema>,
    /// The nodes that may read. `None` means all nodes.
    pub(super) readers: Option<Vec<String>>,
    /// The nodes that may write. `None` means all nodes.
    pub(super) writers: Option<Vec<String>>,
}

impl Channel {
    /// Returns whether a node may read the channel.
    pub fn may_read(&self, node: &Node) -> bool {
        self.readers.as_ref().is_none_or(|names| names.iter().any(|name| names_node(name, node)))
    }

    /// Returns whether a node may write to the channel.
    pub fn may_write(&self, node: &Node) -> bool {
        self.writers.as_ref().is_none_or(|names| names.iter().any(|name| names_node(name, node)))
    }

    /// Checks a value against the schema of the channel. The error is a JSON pointer into the value and a message.
    pub(crate) fn check(&self, value: &Value) -> Result<(), (String, String)> {
        self.schema.as_ref().map_or(Ok(()), |schema| schema.check(value))
    }
}

/// Returns whether a name in an access list matches a node: its id, its type, or a prefix of its type followed by `*`.
fn names_node(name: &str, node: &Node) -> bool {
    name == node.id.as_str()
        || name == node.type_id
        || name.strip_suffix('*').is_some_and(|prefix| node.type_id.starts_with(prefix))
}
