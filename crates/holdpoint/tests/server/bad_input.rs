//! Invalid input gets a clear message in the error envelope and has no effect.

use serde_json::{Value, json};

use crate::harness::{Client, Server, gated};

/// Returns the visible state of a tenant, for a comparison.
fn visible_state(client: &Client, run: &str) -> Vec<Value> {
    let paths = ["/v1/runs", "/v1/workflows", "/v1/keys", "/v1/workflows/gated"];
    let mut seen: Vec<Value> = paths.iter().map(|path| client.get(path).body).collect();
    let mut pending = client.get("/v1/interrupts").body;
    for row in pending["interrupts"].as_array_mut().unwrap() {
        row["ageMs"] = Value::Null;
    }
    seen.push(client.snapshot(run));
    seen.push(pending);
    seen.push(Value::Array(client.events(run)));
    seen
}

fn deep(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

/// The route to which an invalid body is sent.
#[derive(Clone, Copy, Debug)]
enum To {
    Create,
    Resolve,
    Cancel,
    Define,
    MakeKey,
}

type Case = (To, Vec<u8>, u16);

fn case(to: To, body: &str, status: u16) -> Case {
    (to, body.as_bytes().to_vec(), status)
}

fn malformed() -> Vec<Case> {
    vec![
        case(To::Create, "", 400),
        case(To::Create, "{", 400),
        case(To::Create, "nonsense", 400),
        case(To::Create, r#"{"workflowId":"gated"} trailing"#, 400),
        case(To::Resolve, r#"{"resumeValue":{"action":"accept"}"#, 400),
        case(To::Define, "[1,2", 400),
        case(To::MakeKey, "{'tenant': 1}", 400),
        case(To::Cancel, "{\"reason\":", 400),
        (To::Create, b"{\"workflowId\":\"\xff\xfe\"}".to_vec(), 400),
        (To::Resolve, b"{\"resumeValue\":\"\xc3\x28\"}".to_vec(), 400),
    ]
}

fn oversize() -> Vec<Case> {
    let (mib, kib_65) = ("x".repeat(1024 * 1024), "x".repeat(65 * 1024));
    vec![
        case(To::Create, &format!(r#"{{"workflowId":"gated","inputs":{{"a":"{mib}"}}}}"#), 413),
        case(To::Resolve, &format!(r#"{{"resumeValue":{{"action":"accept","feedback":"{kib_65}"}}}}"#), 413),
        case(To::Define, &format!("\"{mib}\""), 413),
    ]
}

fn wrong_types() -> Vec<Case> {
    vec![
        case(To::Create, "[]", 400),
        case(To::Create, r#"{"workflowId":7}"#, 400),
        case(To::Create, r#"{"workflowId":"gated","inputs":[]}"#, 400),
        case(To::Create, r#"{"workflowId":"gated","tags":"a"}"#, 400),
        case(To::Create, r#"{"workflowId":"gated","metadata":{"a":{"b":{"c":{"d":{}}}}}}"#, 400),
        case(To::Create, r#"{"workflowId":"no-such-flow"}"#, 400),
        case(To::Create, r#"{"inputs":{}}"#, 400),
        case(To::Create, r#"{"workflowId":"gated","tenantId":"other"}"#, 403),
        case(To::Resolve, "{}", 400),
        case(To::Resolve, r#"{"resumeValue":"accept"}"#, 400),
        case(To::Resolve, r#"{"resumeValue":{"action":"maybe"}}"#, 400),
        case(To::Resolve, r#"{"resumeValue":{"action":5}}"#, 400),
        case(To::Cancel, r#"{"reason":5}"#, 400),
        case(To::Cancel, r#"["a list is not an object"]"#, 400),
        case(To::MakeKey, "[]", 400),
        case(To::Define, "7", 400),
        case(To::Define, &gated("another").to_string(), 400),
    ]
}

/// Bodies of routes on which an unknown field must not be ignored.
fn unknown_fields() -> Vec<Case> {
    vec![
        case(To::MakeKey, r#"{"tennant":"x"}"#, 400),
        case(To::MakeKey, r#"{"scopes":["everything"]}"#, 400),
        case(To::MakeKey, r#"{"expiresInSeconds":0}"#, 400),
        case(To::MakeKey, r#"{"expiresAt":"2001-01-01T00:00:00Z"}"#, 400),
        case(To::MakeKey, r#"{"expiresAt":"tomorrow"}"#, 400),
        case(To::MakeKey, r#"{"expiresAt":"2060-01-01T00:00:00Z","expiresInSeconds":5}"#, 400),
        case(To::Define, &gated("gated").to_string().replace("\"edges\"", "\"edgse\""), 400),
    ]
}

fn deep_and_double() -> Vec<Case> {
    vec![
        case(To::Create, &format!(r#"{{"workflowId":"gated","inputs":{{"a":{}}}}}"#, deep(10_000)), 400),
        case(To::Resolve, &format!(r#"{{"resumeValue":{}}}"#, deep(200)), 400),
        case(To::Define, &deep(100_000), 400),
        case(To::Create, r#"{"workflowId":"gated","workflowId":"gated"}"#, 400),
        case(To::Create, r#"{"workflowId":"gated","inputs":{"a":1,"a":2}}"#, 400),
        case(To::Resolve, r#"{"resumeValue":{"action":"reject","action":"accept"}}"#, 400),
        case(To::Define, r#"{"id":"gated","id":"gated"}"#, 400),
    ]
}

#[test]
fn an_invalid_body_gets_the_error_envelope_and_has_no_effect() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = client.start_run("gated");
    let before = visible_state(client, &run);
    for (to, body, status) in
        [malformed(), oversize(), wrong_types(), unknown_fields(), deep_and_double()].concat()
    {
        let (method, path) = match to {
            To::Create => ("POST", "/v1/runs".to_owned()),
            To::Resolve => ("POST", format!("/v1/runs/{run}/interrupts/gate")),
            To::Cancel => ("POST", format!("/v1/runs/{run}/cancel")),
            To::Define => ("PUT", "/v1/workflows/gated".to_owned()),
            To::MakeKey => ("POST", "/v1/keys".to_owned()),
        };
        let code = match status {
            413 => "payload_too_large",
            403 => "forbidden",
            _ => "validation_error",
        };
        let answer = client.send(method, &path, Some(&body));
        let shown: String = String::from_utf8_lossy(&body).chars().take(80).collect();
        assert_eq!((answer.status, answer.code()), (status, code), "{to:?} {shown}: {answer:?}");
        answer.assert_envelope(status, code);
        assert!(answer.body["message"].as_str().unwrap().len() < 1000, "the message is short: {shown}");
    }
    assert_eq!(visible_state(client, &run), before, "the state is unchanged");
    assert_eq!(
        client.answer(&run, "gate", &json!({"action": "accept"})).status,
        200,
        "the interrupt can still be answered"
    );
}

#[test]
fn unknown_members_of_openwop_bodies_are_ignored_because_clients_of_several_versions_exist() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let created = server.client.post("/v1/runs", &json!({"workflowId": "gated", "fromTheFuture": true}));
    assert_eq!(created.status, 201, "{created:?}");
}

#[test]
fn unknown_paths_methods_and_queries_get_the_error_envelope() {
    let server = Server::start();
    let client = &server.client;
    let run = client.start_run("sample-approval");
    let table = [
        ("GET", "/nowhere".to_owned(), 404, "not_found"),
        ("GET", "/v2/runs".to_owned(), 400, "validation_error"),
        ("GET", "/version/runs".to_owned(), 404, "not_found"),
        ("GET", "/!/v1/runs".to_owned(), 404, "not_found"),
        ("POST", format!("/v1/runs/{run}:no-such-verb"), 405, "method_not_allowed"),
        ("DELETE", "/v1/runs".to_owned(), 405, "method_not_allowed"),
        ("PATCH", format!("/v1/runs/{run}"), 405, "method_not_allowed"),
        ("GET", "/v1/runs/unknown".to_owned(), 404, "not_found"),
        ("GET", "/v1/runs/unknown/events".to_owned(), 404, "not_found"),
        ("GET", "/v1/runs/unknown/events/poll".to_owned(), 404, "not_found"),
        ("GET", format!("/v1/runs/{}", "x".repeat(500)), 404, "not_found"),
        ("GET", "/v1/runs/%ff%fe".to_owned(), 400, "validation_error"),
        ("GET", "/v1/workflows/unknown".to_owned(), 404, "not_found"),
        ("GET", "/v1/runs?limit=0".to_owned(), 400, "validation_error"),
        ("GET", "/v1/runs?limit=many".to_owned(), 400, "validation_error"),
        ("GET", "/v1/runs?status=sleepy".to_owned(), 400, "validation_error"),
        ("GET", "/v1/interrupts?cursor=guess".to_owned(), 400, "validation_error"),
        ("GET", "/v1/interrupts?limit=1000".to_owned(), 400, "validation_error"),
        ("GET", format!("/v1/runs/{run}/events?streamMode=loud"), 400, "unsupported_stream_mode"),
        ("GET", format!("/v1/runs/{run}/events/poll?timeout=0"), 400, "validation_error"),
        ("GET", format!("/v1/runs/{run}/events/poll?lastSequence=x"), 400, "validation_error"),
        ("DELETE", "/v1/keys/unknown".to_owned(), 404, "not_found"),
    ];
    for (method, path, status, code) in table {
        client.send(method, &path, None).assert_envelope(status, code);
    }
    client.answer(&run, "publish", &json!({"action": "accept"})).assert_envelope(404, "interrupt_not_found");
    client.answer("unknown", "review", &json!({"action": "accept"})).assert_envelope(404, "not_found");
}

#[test]
fn an_invalid_definition_is_rejected_with_every_flaw_named() {
    let server = Server::start();
    let mut flow = gated("flawed");
    flow["nodes"][0]["typeId"] = json!("core.nope");
    flow["nodes"][1]["config"]["actions"] = json!(["accept", "shout"]);
    let answer = server.client.put("/v1/workflows/flawed", &flow);
    answer.assert_envelope(400, "validation_error");
    let flaws = answer.body["details"]["flaws"].as_array().unwrap();
    let named: Vec<_> = flaws.iter().map(|flaw| (flaw["nodeId"].as_str(), flaw["field"].as_str())).collect();
    assert_eq!(named, [(Some("before"), Some("typeId")), (Some("gate"), Some("config.actions[1]"))]);
    flow = gated("flawed");
    flow["nodes"][0]["typeId"] = json!("core.interrupt");
    flow["nodes"][0]["config"] = json!({"kind": "conversation.exchange", "data": {}});
    let answer = server.client.put("/v1/workflows/flawed", &flow);
    answer.assert_envelope(400, "validation_error");
    assert_eq!(answer.body["details"]["flaws"][0]["field"], "config.data.prompt");
    let many: Vec<_> = (0..33)
        .map(|n| {
            json!({"id": format!("e{n}"), "sourceNodeId": "before", "targetNodeId": "after",
            "condition": {"type": "regex", "left": "x", "right": "a"}})
        })
        .collect();
    flow = gated("flawed");
    flow["edges"] = json!(many);
    server.client.put("/v1/workflows/flawed", &flow).assert_envelope(400, "validation_error");
    // Ignoring these settings would weaken the gate.
    for (setting, value) in
        [("requiredApprovals", json!("2")), ("timeoutMS", json!(5)), ("timeoutMs", json!("5"))]
    {
        flow = gated("flawed");
        flow["nodes"][1]["config"][setting] = value;
        let answer = server.client.put("/v1/workflows/flawed", &flow);
        answer.assert_envelope(400, "validation_error");
        assert_eq!(answer.body["details"]["flaws"][0]["field"], format!("config.{setting}"));
    }
}
