//! Agents over HTTP, without a model: declarations, reserved names, threads, and the operator's agent folder.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{KEY, PROGRAM, Server, clear_env, gated};

fn mailer() -> Value {
    json!({"model": {"use": "main"}, "instructions": "You answer mail."})
}

#[test]
fn an_agent_is_declared_once_and_revised_by_another_definition() {
    let server = Server::start();
    let client = &server.client;
    let first = client.put("/v1/agents/mailer", &mailer());
    assert_eq!((first.status, &first.body), (201, &json!({"agentId": "mailer", "revision": 1})));
    let again = client.put("/v1/agents/mailer", &mailer());
    assert_eq!((again.status, &again.body), (200, &json!({"agentId": "mailer", "revision": 1})));
    let mut other = mailer();
    other["agentId"] = json!("mailer");
    other["name"] = json!("The mailer");
    let second = client.put("/v1/agents/mailer", &other);
    assert_eq!((second.status, &second.body), (200, &json!({"agentId": "mailer", "revision": 2})));
    let shown = client.get("/v1/agents/mailer").body;
    assert_eq!((&shown["revision"], &shown["definition"]), (&json!(2), &other));
    let listed = client.get("/v1/agents").body;
    assert_eq!(listed["agents"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["agents"][0]["name"], "The mailer");
    client.get("/v1/agents/unknown").assert_envelope(404, "not_found");
    client.get("/v1/agents/%20").assert_envelope(404, "not_found");
}

#[test]
fn an_invalid_agent_definition_is_rejected_with_the_field_name() {
    let server = Server::start();
    let flawed = |change: fn(&mut Value)| {
        let mut definition = mailer();
        change(&mut definition);
        let answer = server.client.put("/v1/agents/mailer", &definition);
        answer.assert_envelope(400, "validation_error");
        (answer.body["details"]["field"].clone(), answer.body["message"].to_string())
    };
    let (field, _) = flawed(|agent| agent["agentId"] = json!("another"));
    assert_eq!(field, "agentId");
    let (field, _) = flawed(|agent| agent["limits"] = json!({"steps": 0}));
    assert_eq!(field, "limits.steps");
    for (member, value) in [("model", json!("gpt")), ("limits", json!([5])), ("tools", json!([{}, 7]))] {
        let mut definition = mailer();
        definition[member] = value;
        let answer = server.client.put("/v1/agents/mailer", &definition);
        let field = answer.body["details"]["field"].as_str().unwrap();
        assert!(field == member || field == "tools[1]", "{answer:?}");
    }
    let (field, _) = flawed(|agent| agent["approval"] = json!({"who": "ann"}));
    assert_eq!(field, "approval.who");
    let (_, message) = flawed(|agent| agent["instrutcions"] = json!("Hello"));
    assert!(message.contains("instrutcions"), "{message}");
    // Members that only the operator may set are rejected.
    for (member, value) in [("apiKey", json!({"env": "HOME"})), ("baseUrl", json!("https://a.example/v1"))] {
        let mut definition = mailer();
        definition["model"] = json!({"provider": "openai", member: value});
        let answer = server.client.put("/v1/agents/mailer", &definition);
        assert_eq!(answer.body["details"]["field"], format!("model.{member}"), "{answer:?}");
    }
    let (field, _) =
        flawed(|agent| agent["tools"] = json!([{"type": "mcp", "name": "x", "command": ["sh"]}]));
    assert_eq!(field, "tools[0].command");
    assert_eq!(server.client.get("/v1/agents").body, json!({"agents": []}));
    server.client.put("/v1/agents/ab", &mailer()).assert_envelope(400, "validation_error");
}

#[test]
fn the_confidence_of_an_agent_can_be_declared() {
    let server = Server::start();
    let client = &server.client;
    let mut definition = mailer();
    definition["agentId"] = json!("mailer");
    definition["model"] = json!({"provider": "scripted", "steps": [{"text": "It is five."}]});
    definition["confidence"] = json!("self_rated");
    definition["limits"] = json!({"threadTokens": 1000});
    let declared = client.put("/v1/agents/mailer", &definition);
    assert_eq!(declared.status, 201, "{declared:?}");
    assert_eq!(client.get("/v1/agents/mailer").body["definition"], definition);
    let started = client.post("/v1/agents/mailer/runs", &json!({"message": "Well?"}));
    let run = started.body["runId"].as_str().unwrap();
    client.wait_for_event(run, |event| event["type"] == "interrupt.requested");
    let shown = client.snapshot(run);
    assert_eq!(shown["interrupt"]["kind"], "low-confidence", "a reply without a rating: {shown}");
    definition["confidence"] = json!("guessed");
    let invalid = client.put("/v1/agents/mailer", &definition);
    invalid.assert_envelope(400, "validation_error");
}

#[test]
fn agent_and_thread_names_are_reserved() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/agents/mailer", &mailer());
    let taken = client.put("/v1/workflows/agent:mailer", &gated("agent:mailer"));
    taken.assert_envelope(400, "validation_error");
    assert_eq!(taken.body["details"]["field"], "id");
    client.get("/v1/workflows/agent:mailer").assert_envelope(404, "not_found");
    let workflows = client.get("/v1/workflows").body;
    assert!(!workflows.to_string().contains("agent:"), "agents are not listed as workflows: {workflows}");
    client.put("/v1/workflows/gated", &gated("gated"));
    let scoped = client.post("/v1/runs", &json!({"workflowId": "gated", "scopeId": "thread:t1"}));
    scoped.assert_envelope(400, "validation_error");
    assert_eq!(scoped.body["details"]["field"], "scopeId");
}

#[test]
fn the_messages_of_a_thread_are_listed_in_pages() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/agents/mailer", &mailer());
    let input = json!({"threadId": "t1", "messages": [
        {"role": "system", "content": "Be brief."},
        {"id": "m2", "content": [{"type": "text", "text": "Hello"}]},
        {"content": "Are you there?"},
    ]});
    let started = client.post("/v1/agents/mailer/runs", &input);
    assert_eq!((started.status, &started.body["threadId"]), (202, &json!("t1")), "{started:?}");
    let run = started.body["runId"].as_str().unwrap();
    let all = client.get("/v1/threads/t1/messages").body;
    let all = all["messages"].as_array().unwrap();
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!((&all[0]["role"], &all[1]["role"]), (&json!("system"), &json!("user")));
    assert_eq!((&all[1]["id"], &all[1]["runId"]), (&json!("m2"), &json!(run)));
    assert_eq!(all[1]["content"], input["messages"][1]["content"]);
    assert!(all[0]["id"].as_str().unwrap().starts_with("msg_") && all[0]["by"].is_string(), "{all:?}");
    let first = client.get("/v1/threads/t1/messages?limit=2").body;
    assert_eq!(first["messages"], json!(all[..2]));
    let cursor = first["nextCursor"].as_str().unwrap();
    for name in ["after", "cursor"] {
        let rest = client.get(&format!("/v1/threads/t1/messages?limit=2&{name}={cursor}")).body;
        assert_eq!(rest, json!({"messages": all[2..]}), "the last page has no cursor");
    }
    let last = all[2]["cursor"].as_str().unwrap();
    assert_eq!(client.get(&format!("/v1/threads/t1/messages?after={last}")).body, json!({"messages": []}));
    assert_eq!(client.get("/v1/threads/unknown/messages").body, json!({"messages": []}));
    for query in ["?after=x", "?after=a.b", "?limit=0", "?after=a.99999999999999999999"] {
        let refused = client.get(&format!("/v1/threads/t1/messages{query}"));
        refused.assert_envelope(400, "validation_error");
    }
    let runs = client.get("/v1/threads/t1/runs").body;
    assert_eq!((&runs["runs"][0]["runId"], &runs["runs"][0]["agentId"]), (&json!(run), &json!("mailer")));
    let latest = client.get("/v1/threads/t1/runs/latest").body;
    assert_eq!((&latest["runId"], &latest["tickets"]), (&json!(run), &json!([])));
}

#[test]
fn empty_or_invalid_messages_are_rejected() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/agents/mailer", &mailer());
    for (body, field) in [
        (json!({}), "message"),
        (json!({"message": "  "}), "message"),
        (json!({"messages": []}), "messages"),
        (json!({"message": "a", "messages": [{"content": "b"}]}), "messages"),
        (json!({"messages": [{"content": ""}]}), "messages[0].content"),
        (json!({"messages": [{"content": "a"}, {"content": {"text": "b"}}]}), "messages[1].content"),
        (json!({"messages": [{"id": "a", "content": "a"}, {"id": "a", "content": "b"}]}), "messages[1].id"),
        (json!({"messages": [{"id": "", "content": "a"}]}), "messages[0].id"),
        (json!({"message": "a", "threadId": ""}), "threadId"),
        (json!({"message": "a", "threadId": "t".repeat(201)}), "threadId"),
    ] {
        let refused = client.post("/v1/agents/mailer/runs", &body);
        refused.assert_envelope(400, "validation_error");
        assert_eq!(refused.body["details"]["field"], field, "{body}");
    }
    for body in [
        json!({"message": null}),
        json!({"messages": [{"role": "assistant", "content": "a"}]}),
        json!({"mesage": "a"}),
    ] {
        client.post("/v1/agents/mailer/runs", &body).assert_envelope(400, "validation_error");
    }
    client.post("/v1/agents/unknown/runs", &json!({"message": "a"})).assert_envelope(404, "not_found");
    let long = json!({"message": "a".repeat(300_000)});
    client.post("/v1/agents/mailer/runs", &long).assert_envelope(413, "payload_too_large");
    let first = client.post("/v1/threads/t1/messages", &json!({"message": "a"}));
    assert_eq!(first.body["details"]["field"], "agentId", "{first:?}");
    let none = client.post("/v1/threads/t1/messages", &json!({"message": "a", "mode": "resume_open_run"}));
    none.assert_envelope(404, "not_found");
}

#[test]
fn an_unknown_thread_has_no_runs_and_rejects_commands() {
    let server = Server::start();
    let client = &server.client;
    for path in ["runs/active", "runs/latest"] {
        client.get(&format!("/v1/threads/unknown/{path}")).assert_envelope(404, "not_found");
    }
    assert_eq!(client.get("/v1/threads/unknown/runs").body, json!({"runs": []}));
    client.post("/v1/threads/unknown/cancel", &json!({})).assert_envelope(404, "not_found");
    let decision = json!({"toolCallId": "c1", "action": "resume"});
    client.post("/v1/threads/unknown/decision", &decision).assert_envelope(404, "not_found");
    client.post("/v1/runs/unknown/decision", &decision).assert_envelope(404, "not_found");
    let interrupted = client.post("/v1/threads/unknown/interrupt", &json!({})).body;
    assert_eq!(
        (&interrupted["nothingToInterrupt"], &interrupted["supersededCount"]),
        (&json!(true), &json!(0))
    );
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = client.start_run("gated");
    client.post(&format!("/v1/runs/{run}/decision"), &decision).assert_envelope(404, "not_found");
    client
        .post(&format!("/v1/runs/{run}/inputs"), &json!({"message": "a"}))
        .assert_envelope(404, "not_found");
    let waiting = client.get(&format!("/v1/runs/{run}/waiting")).body;
    assert_eq!((&waiting["reason"], &waiting["tickets"]), (&json!("user_input"), &json!([])), "{waiting}");
    client.post(&format!("/v1/runs/{run}/cancel"), &json!({}));
    client.get(&format!("/v1/runs/{run}/waiting")).assert_envelope(404, "not_found");
}

fn write(folder: &Path, name: &str, value: &Value) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(name), value.to_string()).unwrap();
}

#[test]
fn an_agent_folder_declares_agents_and_hides_the_operators_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let agents = folder.path().join("agents");
    let model = json!({"provider": "openai", "model": "m", "baseUrl": "http://127.0.0.1:1/v1",
        "apiKey": {"env": "THE_OPERATORS_SECRET"}});
    write(&agents, "connections.json", &json!({"models": {"main": model}, "tools": {}}));
    write(&agents, "a.json", &json!({"agentId": "mailer", "model": {"use": "main"}}));
    let tools = json!([{"type": "mcp", "name": "files", "command": ["serve-files"], "env": {"K": "v"}}]);
    write(&agents, "b.json", &json!({"agentId": "clerk", "model": model, "tools": tools}));
    write(&agents, "c.json", &json!({"agentId": "broken", "model": {"use": "main"}, "limits": {"steps": 0}}));
    let log = folder.path().join("log");
    let file = std::fs::File::create(&log).unwrap();
    let flags = ["--agents", agents.to_str().unwrap()];
    let server = Server::launch(&folder.path().join("data"), &flags, |command| command.stderr(file));
    let listed = server.client.get("/v1/agents").body;
    let ids: Vec<_> = listed["agents"].as_array().unwrap().iter().map(|one| one["agentId"].clone()).collect();
    assert_eq!(ids, [json!("clerk"), json!("mailer")]);
    let clerk = server.client.get("/v1/agents/clerk").body;
    assert_eq!(clerk["definition"]["model"], json!({"use": "agent:clerk:model"}));
    assert_eq!(clerk["definition"]["tools"], json!([{"type": "mcp", "use": "agent:clerk:tool:0"}]));
    assert!(!clerk.to_string().contains("SECRET") && !clerk.to_string().contains("serve-files"), "{clerk}");
    drop(server);
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("c.json: limits.steps: must be"), "{log}");
}

#[test]
fn an_invalid_agent_folder_stops_the_start_and_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let agents = folder.path().join("agents");
    let start = |more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--listen", "127.0.0.1:0", "--bootstrap-key", KEY, "--data"]);
        command.arg(folder.path().join("data")).arg("--agents").arg(&agents).args(more);
        let ended = clear_env(&mut command).stdin(Stdio::null()).output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        String::from_utf8(ended.stderr).unwrap()
    };
    assert!(start(&[]).contains("cannot read --agents"));
    write(&agents, "connections.json", &json!({"models": {"main": "gpt"}}));
    let error = start(&[]);
    assert!(error.contains("connections.json: models.main: must be an object"), "{error}");
    write(&agents, "connections.json", &json!({}));
    write(&agents, "a.json", &json!({"model": {"use": "main"}}));
    write(&agents, "b.json", &json!({"agentId": "mailer", "model": {"use": "x", "apiKey": {"env": "K"}}}));
    let error = start(&["--strict"]);
    assert!(error.contains("a.json: agentId: is missing"), "{error}");
    assert!(error.contains("b.json: model.apiKey: cannot be combined with use"), "{error}");
}
