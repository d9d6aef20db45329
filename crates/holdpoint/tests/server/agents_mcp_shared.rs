//! Programs of MCP connections: agents share them, and their number is limited.

use serde_json::{Value, json};

use crate::harness::Server;
use crate::test_database::TestDatabase;
use crate::tool_server::{AgentRun, descendants, server_script, wait_until};

/// A folder with the connections `one` and `two`, which are programs.
fn folder(more: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let program = |name: &str| {
        json!({"type": "mcp", "name": name, "command": ["python3", server_script()], "tools": ["echo"],
            "tenants": ["default", "acme"]})
    };
    let mut connections = json!({"tools": {"one": program("one"), "two": program("two")}});
    connections.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    std::fs::write(folder.path().join("connections.json"), connections.to_string()).unwrap();
    folder
}

/// An agent that calls `echo` of each of these connections.
fn agent(connections: &[&str]) -> Value {
    let name = |at: &str| if connections.len() == 1 { "echo".to_owned() } else { format!("{at}__echo") };
    let calls = connections.iter().map(|at| json!({"id": at, "name": name(at), "arguments": {"text": at}}));
    let tools: Vec<Value> = connections.iter().map(|at| json!({"type": "mcp", "use": at})).collect();
    let steps = json!([{"calls": calls.collect::<Vec<_>>()}, {"text": "Done: {{lastResult}}"}]);
    json!({"tools": tools, "model": {"provider": "scripted", "steps": steps}, "permissions": {"default": "allow"}})
}

/// The number of programs that the server runs.
fn programs(server: &Server) -> usize {
    descendants(server).len()
}

#[test]
fn twelve_agents_that_use_one_connection_share_one_program_in_each_tenant() {
    let (folder, database) = (folder(&json!({})), TestDatabase::sqlite());
    let server = database.start(&["--agents", folder.path().to_str().unwrap()]);
    let run_all = |client: &crate::harness::Client| {
        for at in 0..12 {
            let id = format!("agent-{at}");
            assert_eq!(client.put(&format!("/v1/agents/{id}"), &agent(&["one"])).status, 201);
            let agent_run = AgentRun::start(client, &id, &id);
            agent_run.wait_for_completion();
            assert_eq!(agent_run.call_result("one"), (json!("one"), "Done: one".to_owned()));
        }
    };
    run_all(&server.client);
    assert_eq!(programs(&server), 1);
    let scopes = ["manifest:write", "runs:create", "runs:read"];
    let made =
        server.client.post("/v1/keys", &json!({"tenant": "acme", "principal": "ann", "scopes": scopes}));
    run_all(&server.client.with_key(made.body["key"].as_str()));
    assert_eq!(programs(&server), 2, "tenants share no program");
}

#[test]
fn an_idle_program_is_ended_to_make_room_for_another() {
    let (folder, database) = (folder(&json!({"programsMax": 1})), TestDatabase::sqlite());
    let server = database.start(&["--agents", folder.path().to_str().unwrap()]);
    let client = &server.client;
    for (id, connections) in
        [("first", &["one"][..]), ("second", &["two"][..]), ("both", &["one", "two"][..])]
    {
        assert_eq!(client.put(&format!("/v1/agents/{id}"), &agent(connections)).status, 201);
        let agent_run = AgentRun::start(client, id, id);
        agent_run.wait_for_completion();
        for connection in connections {
            assert_eq!(agent_run.call_result(connection).0, json!(connection), "{id}");
        }
        wait_until("no more programs than are allowed", || (programs(&server) <= 1).then_some(()));
    }
}
