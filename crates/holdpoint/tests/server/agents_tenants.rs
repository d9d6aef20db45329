//! An attacker with a key of one tenant tries to use the operator's connections: connections of other tenants, and
//! connections from agent files.

use serde_json::{Value, json};

use crate::harness::{Client, Server};
use crate::receiver::Receiver;
use crate::test_database::{TestDatabase, on_both};
use crate::tool_server::server_script;

on_both!(
    another_tenant_calls_no_connection_of_the_operator,
    a_connection_of_an_agent_file_serves_that_agent_alone,
    a_key_that_writes_definitions_cannot_get_past_the_ask_rule_of_a_connection,
);

/// A folder with several connections, the agent `mailer` with its own tool, and a file that records tool calls.
struct AgentFolder {
    folder: tempfile::TempDir,
    mail: Receiver,
}

impl AgentFolder {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), mail: Receiver::start() }
    }

    fn start_server(&self, database: &TestDatabase) -> Server {
        let agents = self.folder.path().join("agents");
        std::fs::create_dir_all(&agents).unwrap();
        let notes = self.folder.path().join("notes");
        let shell = json!({"type": "mcp", "name": "shell", "command": ["python3", server_script()],
            "env": {"NOTES": notes, "TOKEN": "the operator's"}});
        let shared = json!({"type": "mcp", "name": "shared", "command": ["python3", server_script()],
            "env": {"NOTES": notes}, "tenants": ["*"]});
        let mut guarded = shell.clone();
        guarded["permissions"] = json!({"default": "ask"});
        guarded["approval"] = json!({"approversList": ["role:security"], "requesterMayNotApprove": true});
        let tools = json!({"shell": shell, "shared": shared, "guarded": guarded});
        write(&agents, "connections.json", &json!({ "tools": tools }));
        let send = json!({"type": "http", "name": "send", "method": "POST", "url": self.mail.url,
            "headers": {"X-Key": {"env": "PATH"}}, "parameters": {"type": "object"}});
        let steps = json!([{"calls": [{"id": "c1", "name": "send", "arguments": {}}]}, {"text": "Done."}]);
        write(
            &agents,
            "mailer.json",
            &json!({"agentId": "mailer", "tools": [send],
            "model": {"provider": "scripted", "steps": steps}, "permissions": {"default": "ask"}}),
        );
        database.start(&["--agents", agents.to_str().unwrap(), "--strict", "--outgoing-allow-loopback"])
    }

    /// The number of calls that had an effect.
    fn calls(&self) -> usize {
        let notes = std::fs::read_to_string(self.folder.path().join("notes")).unwrap_or_default();
        notes.lines().count() + self.mail.requests().len()
    }
}

fn write(folder: &std::path::Path, name: &str, value: &Value) {
    std::fs::write(folder.join(name), value.to_string()).unwrap();
}

/// A client with a key of a tenant that may declare agents, start runs and answer.
fn attacker(server: &Server, tenant: &str) -> Client {
    let scopes = ["manifest:write", "manifest:read", "runs:create", "runs:read", "approvals:respond"];
    let wanted = json!({"principal": "mallory", "tenant": tenant, "scopes": scopes});
    let made = server.client.post("/v1/keys", &wanted);
    assert_eq!(made.status, 201, "{made:?}");
    server.client.with_key(Some(made.body["key"].as_str().unwrap()))
}

/// An agent that calls a tool of each connection, and lets every call pass.
fn agent(tools: &Value) -> Value {
    let call = |id: &str, name: &str| json!({"id": id, "name": name, "arguments": {"text": "id"}});
    let steps = json!([{"calls": [call("c1", "note"), call("c2", "send")]}, {"text": "Done."}]);
    json!({"tools": tools, "model": {"provider": "scripted", "steps": steps}, "permissions": {"default": "allow"}})
}

/// Starts a run of an agent and returns the error with which it fails.
fn failure(client: &Client, agent: &str) -> Value {
    let started = client.post(&format!("/v1/agents/{agent}/runs"), &json!({"message": "Go"}));
    assert_eq!(started.status, 202, "{started:?}");
    failure_of_run(client, started.body["runId"].as_str().unwrap())
}

fn failure_of_run(client: &Client, run: &str) -> Value {
    let log = client.wait_for_end(run);
    let last = log.last().unwrap();
    assert_eq!(last["type"], "run.failed", "{log:#?}");
    last["payload"]["error"].clone()
}

fn another_tenant_calls_no_connection_of_the_operator(database: &TestDatabase) {
    let agent_folder = AgentFolder::new();
    let server = agent_folder.start_server(database);
    let evil = attacker(&server, "evil");
    let declare = |id: &str, tools: Value| evil.put(&format!("/v1/agents/{id}"), &agent(&tools));
    assert_eq!(declare("pwn", json!([{"type": "mcp", "use": "shell"}])).status, 201);
    let foreign = failure(&evil, "pwn");
    assert_eq!(declare("missing", json!([{"type": "mcp", "use": "absent"}])).status, 201);
    let missing = failure(&evil, "missing");
    assert_eq!(foreign["code"], "agent_unusable", "{foreign}");
    assert_eq!(
        foreign.to_string(),
        missing.to_string().replace("absent", "shell"),
        "the message must not reveal which connections exist"
    );

    // Names of agent files are refused whether they exist or not, and for an agent of the same name too.
    for (id, name) in [("pwn", "agent:mailer:tool:0"), ("mailer", "agent:mailer:tool:0"), ("pwn", "agent:x")]
    {
        let refused = declare(id, json!([{"type": "http", "use": name}]));
        refused.assert_envelope(400, "validation_error");
        assert_eq!(refused.body["details"]["field"], "tools[0].use", "{refused:?}");
    }

    // An agent node of a workflow has the same restrictions.
    for name in ["shell", "agent:mailer:tool:0"] {
        let mut config = agent(&json!([{"use": name}]));
        config["agentId"] = json!("mailer");
        let node = json!({"id": "n", "typeId": "core.agent", "name": "n", "config": config, "inputs": {}});
        let flow = json!({"id": "flow", "name": "flow", "version": "1", "nodes": [node], "edges": [],
            "triggers": [], "variables": [], "metadata": {}, "settings": {}});
        assert!([200, 201].contains(&evil.put("/v1/workflows/flow", &flow).status));
        let error = failure_of_run(&evil, &evil.start_run("flow"));
        assert_eq!(error["code"], "agent_unusable", "{error}");
    }
    assert_eq!(agent_folder.calls(), 0, "no tool was called");

    // A connection with `tenants: ["*"]` serves all tenants.
    let shared = agent(&json!([{"type": "mcp", "use": "shared"}]));
    assert_eq!(evil.put("/v1/agents/guest", &shared).status, 201);
    let started = evil.post("/v1/agents/guest/runs", &json!({"message": "Go"}));
    let log = evil.wait_for_end(started.body["runId"].as_str().unwrap());
    assert_eq!(log.last().unwrap()["type"], "run.completed", "{log:#?}");
    assert_eq!(agent_folder.calls(), 1);
}

fn a_connection_of_an_agent_file_serves_that_agent_alone(database: &TestDatabase) {
    let agent_folder = AgentFolder::new();
    let server = agent_folder.start_server(database);
    let client = &server.client;
    // The definition of the file asks before it calls. Another definition may not use its connection.
    let shown = client.get("/v1/agents/mailer").body["definition"].clone();
    assert_eq!(shown["tools"][0]["use"], "agent:mailer:tool:0");
    let mut open = shown;
    open["permissions"] = json!({"default": "allow"});
    for id in ["mailer", "mailer2"] {
        open["agentId"] = json!(id);
        let refused = client.put(&format!("/v1/agents/{id}"), &open);
        refused.assert_envelope(400, "validation_error");
        assert_eq!(refused.body["details"]["field"], "tools[0].use", "{refused:?}");
    }
    // The agent of the file still works, and still asks.
    let started = client.post("/v1/agents/mailer/runs", &json!({"message": "Go", "threadId": "t"}));
    let agent_run = crate::tool_server::AgentRun {
        client,
        run: started.body["runId"].as_str().unwrap().to_owned(),
        thread: "t".to_owned(),
    };
    agent_run.wait_for_tickets("tool:PermissionConfirm", &["c1"]);
    assert_eq!(agent_folder.calls(), 0);
    agent_run.decide(&crate::tool_server::resume("c1"));
    agent_run.wait_for_completion();
    assert_eq!(agent_folder.calls(), 1);
}

fn a_key_that_writes_definitions_cannot_get_past_the_ask_rule_of_a_connection(database: &TestDatabase) {
    let agent_folder = AgentFolder::new();
    let server = agent_folder.start_server(database);
    let mallory = attacker(&server, "default");
    let mut open = agent(&json!([{"type": "mcp", "use": "guarded", "name": "mine"}]));
    open["approval"] = json!({"approversList": ["mallory"]});
    assert_eq!(mallory.put("/v1/agents/pwn", &open).status, 201);
    let started = mallory.post("/v1/agents/pwn/runs", &json!({"message": "Go", "threadId": "t"}));
    let run = started.body["runId"].as_str().unwrap().to_owned();
    let agent_run = crate::tool_server::AgentRun { client: &mallory, run, thread: "t".to_owned() };
    agent_run.wait_for_tickets("tool:PermissionConfirm", &["c1"]);
    let path = format!("/v1/runs/{}/decision", agent_run.run);
    let decided = mallory.post(&path, &crate::tool_server::resume("c1"));
    decided.assert_envelope(403, "forbidden");
    assert_eq!(agent_folder.calls(), 0, "no tool was called");
}
