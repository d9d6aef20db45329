//! An engine with the published program, and an MCP server for it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::claude::claude_env::{ClaudeEnv, test_folder, with};
use crate::claude::fake_model_api::{FakeModelApi, KEY, KEY_FILE};

/// Opens an engine with the published program and this model API.
pub(crate) async fn open_real_agent(model: &FakeModelApi, more: Value) -> ClaudeEnv {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(KEY_FILE), KEY).unwrap();
    ClaudeEnv::open_at(folder, with(model.profile(), more)).await
}

/// The settings of an MCP server that writes a line to a file for each publication.
pub(crate) fn publisher(file: &Path, sync_point: Option<u16>) -> Value {
    let sync_point = sync_point.map_or(String::new(), |port| port.to_string());
    json!({"pub": {"command": "python3", "args": [test_folder().join("publisher.py"), file, sync_point]}})
}
