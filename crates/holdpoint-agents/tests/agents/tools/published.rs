//! Published MCP servers. `scripts/mcp-servers` installs them below the build folder.

use std::path::PathBuf;

use serde_json::json;

use crate::tools::tool_env::{HttpServer, parse, result, specs};

/// Returns the Python interpreter with the installed packages.
fn python() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // target/debug/deps/tools-…
    let python = test.ancestors().nth(3).unwrap().join("mcp-servers/bin/python");
    assert!(python.exists(), "{} is missing: run scripts/mcp-servers", python.display());
    python
}

#[tokio::test]
async fn a_published_server_that_is_a_program_can_be_used() {
    let command = json!([python(), "-m", "mcp_server_time", "--local-timezone", "UTC"]);
    let tools = parse(json!([{"type": "mcp", "name": "time", "command": command}])).unwrap();
    let specs = specs(&tools).await;
    assert_eq!(specs.keys().collect::<Vec<_>>(), ["convert_time", "get_current_time"]);
    assert_eq!(specs["get_current_time"].parameters["required"], json!(["timezone"]));
    let arguments =
        json!({"source_timezone": "Asia/Tokyo", "time": "16:30", "target_timezone": "Asia/Kolkata"});
    let response = result(&tools, "convert_time", arguments).await;
    assert!(response.to_string().contains("T13:00:00+05:30"), "{response}");
}

#[tokio::test]
async fn a_server_made_with_a_published_sdk_can_be_used_over_http() {
    let web = HttpServer::start(&python(), &["published.py"], &json!({})).await;
    let tools = web.tools(json!({}));
    assert!(specs(&tools).await.contains_key("add"));
    assert_eq!(result(&tools, "add", json!({"a": 19, "b": 23})).await, json!({"result": 42}));
    assert_eq!(result(&tools, "noted", json!({"text": "x"})).await, json!({"result": "noted x"}));
}
