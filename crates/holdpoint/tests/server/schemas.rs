//! Schemas and values that would exhaust a validator are refused, and the server stays up with limited memory.

use std::process::{Command, Stdio};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::harness::{Client, PROGRAM, Server, client_with_key, linear};
use crate::holds::hold;
use crate::links::Link;

/// The address space of the server in KiB. Without the limits, one such answer needed 3.6 GB.
const MEMORY_KIB: u64 = 2_000_000;

/// Starts a server with a limited address space.
fn small_server() -> (Server, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v \"$0\" && exec \"$@\"", &MEMORY_KIB.to_string(), PROGRAM]);
    let data = folder.path().join("data");
    let server = Server::spawn(command, "127.0.0.1:0", &data, &[], |command| command.stderr(Stdio::null()));
    (server, folder)
}

fn tree() -> Value {
    json!({
        "$ref": "#/$defs/item",
        "$defs": {
            "item": {"anyOf": [{"$ref": "#/$defs/group"}, {"$ref": "#/$defs/list"}]},
            "group": {
                "type": "object",
                "required": ["title"],
                "properties": {"title": {"type": "string"}, "of": {"$ref": "#/$defs/item"}},
            },
            "list": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "of": {"$ref": "#/$defs/item"},
                    "all": {"items": {"$ref": "#/$defs/item"}},
                },
            },
        },
    })
}

/// Definitions of which each refers twice to the next.
fn doubling() -> Value {
    let mut definitions: Map<String, Value> = (0..22)
        .map(|n| {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            (format!("d{n}"), json!({"anyOf": [next, next]}))
        })
        .collect();
    definitions.insert("d22".to_owned(), json!({"type": "string"}));
    json!({"type": "object", "$ref": "#/$defs/d0", "$defs": definitions})
}

fn back_references() -> Value {
    let patterns: Vec<Value> = (0..60).map(|n| json!({"pattern": format!("^(a+)+\\1{n}$")})).collect();
    json!({"type": "object", "anyOf": patterns})
}

fn nested(levels: usize, innermost: Value, outer: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(innermost, |inner, _| outer(inner))
}

fn assert_up(client: &Client) {
    assert_eq!(client.with_key(None).get("/healthz").status, 200);
}

#[test]
fn answers_that_would_exhaust_a_validator_are_refused_over_a_link_and_with_a_key() {
    let (server, _folder) = small_server();
    let client = &server.client;
    let ann = client_with_key(client, &json!({"principal": "ann"}));
    let asked = json!({"kind": "custom", "data": {"customKind": "k"}, "resumeSchema": tree()});
    client.put("/v1/workflows/tree", &linear("tree", &[("n", "core.interrupt", asked)]));
    let run = client.start_run("tree");
    let link = Link::mint(client, &run, "n", &json!({}));
    let id = hold(client, &json!({"title": "Which?", "schema": tree()}));
    for levels in [18, 30, 100] {
        for value in [
            nested(levels, json!({"x": 1}), |inner| json!({ "of": inner })),
            nested(levels, json!({"x": 1}), |inner| json!({"name": "n", "of": inner})),
        ] {
            let refused = link.answer(&value);
            refused.assert_envelope(400, "validation_error");
            assert!(refused.body["message"].as_str().unwrap().contains("anyOf"), "{refused:?}");
            assert_eq!(ann.answer(&id, "hold", &json!({"answers": {"answer": value}})).status, 400);
        }
    }
    assert_up(client);
    let leaf = nested(30, json!({"name": "leaf"}), |inner| json!({"name": "n", "of": inner}));
    let valid = json!({"name": "all", "all": vec![leaf; 20]});
    let answered = ann.answer(&id, "hold", &json!({"answers": {"answer": valid}}));
    assert_eq!(answered.status, 200, "{answered:?}");
    assert_eq!(link.answer(&valid).status, 200);
    assert_up(client);
}

/// Tests patterns whose schemas are each within the limits.
#[test]
fn a_definition_with_many_large_patterns_is_refused_before_they_are_compiled() {
    let (server, _folder) = small_server();
    let schema = json!({"type": "object", "properties": {"a": {"pattern": r"^\w{20000}$"}}});
    let asked = json!({"kind": "custom", "data": {"customKind": "k"}, "resumeSchema": schema});
    let nodes = |count: usize| -> Vec<(String, &str, Value)> {
        (0..count).map(|at| (format!("n{at}"), "core.interrupt", asked.clone())).collect()
    };
    let put = |count: usize| {
        let nodes = nodes(count);
        let nodes: Vec<_> =
            nodes.iter().map(|(id, kind, config)| (id.as_str(), *kind, config.clone())).collect();
        let body = linear("w", &nodes).to_string();
        server.client.send("PUT", "/v1/workflows/w", Some(body.as_bytes()))
    };
    assert_eq!(put(1).status, 201);
    let refused = put(200);
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.body["message"].as_str().unwrap().contains("MiB compiled"), "{refused:?}");
    let tool = |at: usize| json!({"type": "scripted", "name": format!("t{at}"), "parameters": schema});
    let tools: Vec<Value> = (0..50).map(tool).collect();
    let agent = json!({"model": {"type": "scripted", "replies": [{"text": "x"}]}, "tools": tools});
    let refused = server.client.send("PUT", "/v1/agents/helper", Some(agent.to_string().as_bytes()));
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.body["message"].as_str().unwrap().contains("MiB compiled"), "{refused:?}");
    assert_up(&server.client);
}

#[test]
fn schemas_that_would_exhaust_a_validator_are_refused_wherever_they_are_given() {
    let (server, _folder) = small_server();
    let client = &server.client;
    for (schema, reason) in [(doubling(), "at most 10000"), (back_references(), "back-reference")] {
        let interrupt = |asked: Value| linear("w", &[("n", "core.interrupt", asked)]);
        let question = json!({"id": "q", "question": "?", "schema": schema});
        let turn = json!({"prompt": "?", "outcomeSchema": schema});
        let mut options = linear("w", &[("n", "core.noop", json!({}))]);
        options["configurableSchema"] = schema.clone();
        let mut channel = linear("w", &[("n", "core.noop", json!({}))]);
        channel["channels"] = json!({"c": {"reducer": "append", "schema": schema}});
        let agent =
            |tool: Value| json!({"model": {"type": "scripted", "replies": [{"text": "x"}]}, "tools": [tool]});
        let asks = json!({"action": "ask", "responseSchema": schema});
        let requests = [
            ("POST", "/v1/holds", json!({"title": "Which?", "schema": schema})),
            (
                "PUT",
                "/v1/workflows/w",
                interrupt(json!({"kind": "custom", "data": {"customKind": "k"}, "resumeSchema": schema})),
            ),
            (
                "PUT",
                "/v1/workflows/w",
                interrupt(json!({"kind": "clarification", "data": {"questions": [question]}})),
            ),
            ("PUT", "/v1/workflows/w", interrupt(json!({"kind": "conversation.exchange", "data": turn}))),
            ("PUT", "/v1/workflows/w", options),
            ("PUT", "/v1/workflows/w", channel),
            (
                "PUT",
                "/v1/agents/helper",
                agent(json!({"type": "scripted", "name": "t", "parameters": schema})),
            ),
            ("PUT", "/v1/agents/helper", agent(json!({"type": "scripted", "name": "t", "asks": asks}))),
        ];
        for (method, path, body) in requests {
            let refused = client.send(method, path, Some(body.to_string().as_bytes()));
            assert_eq!(refused.status, 400, "{path} {body}: {refused:?}");
            assert!(refused.body["message"].as_str().unwrap().contains(reason), "{path}: {refused:?}");
        }
        assert_up(client);
    }
}
