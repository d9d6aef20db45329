//! The real program in an engine, and a server of tools for it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::stand_in::{KEY, KEY_FILE, StandIn};
use crate::world::{World, test_folder, with};

/// The real program with this model.
pub(crate) async fn world(model: &StandIn, more: Value) -> World {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join(KEY_FILE), KEY).unwrap();
    World::at(place, with(model.profile(), more)).await
}

/// A server of tools as the agent's settings name it: what is published is a line in a file.
pub(crate) fn publisher(file: &Path, meeting: Option<u16>) -> Value {
    let meeting = meeting.map_or(String::new(), |port| port.to_string());
    json!({"pub": {"command": "python3", "args": [test_folder().join("publisher.py"), file, meeting]}})
}
