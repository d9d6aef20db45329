//! Members of a start request: options, tags, metadata, scope, callback URL, and options for tests.

use serde_json::{Value, json};

use crate::harness::{Client, Response, Server, accept, gated};

fn server() -> Server {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    server
}

fn start(client: &Client, more: &Value) -> Response {
    let mut body = json!({"workflowId": "gated"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.post("/v1/runs", &body)
}

fn assert_start_refused(client: &Client, more: &Value, field: &str) {
    let answer = start(client, more);
    answer.assert_envelope(400, "validation_error");
    assert_eq!(answer.body["details"]["field"], field, "{answer:?}");
}

#[test]
fn run_options_are_validated_stored_and_shown() {
    let server = server();
    let client = &server.client;
    let given = json!({"recursionLimit": 50, "temperature": 0.5, "vendor.own": {"a": [1]}});
    let made = start(client, &json!({"configurable": given, "tags": ["a"], "metadata": {"b": 1}}));
    let shown = client.get(made.body["statusUrl"].as_str().unwrap()).body;
    assert_eq!((&shown["configurable"], &shown["tags"]), (&given, &json!(["a"])));
    assert_eq!(shown["metadata"], json!({"b": 1}));
    for (name, value) in [
        ("recursionLimit", json!(0)),
        ("recursionLimit", json!("many")),
        ("runTimeoutMs", json!(-1)),
        ("temperature", json!(2.5)),
        ("maxTokens", json!(0.5)),
    ] {
        assert_start_refused(
            client,
            &json!({"configurable": {name: value}}),
            &format!("configurable.{name}"),
        );
    }
}

#[test]
fn a_workflow_can_have_a_schema_for_its_options() {
    let server = server();
    let client = &server.client;
    let mut flow = gated("gated");
    let schema = json!({
        "type": "object", "required": ["tone"],
        "properties": {"tone": {"enum": ["plain", "warm"]}, "size": {"type": "integer"}},
    });
    flow["configurableSchema"] = schema.clone();
    assert_eq!(client.put("/v1/workflows/gated", &flow).status, 200);
    assert_eq!(client.get("/v1/workflows/gated").body["configurableSchema"], schema);
    assert_eq!(start(client, &json!({"configurable": {"tone": "warm", "size": 3}})).status, 201);
    for wrong in [json!({}), json!({"tone": "hunter2"}), json!({"tone": "warm", "size": "hunter2"})] {
        let answer = start(client, &json!({"configurable": wrong}));
        answer.assert_envelope(400, "validation_error");
        assert!(answer.body["details"]["field"].as_str().unwrap().starts_with("configurable"), "{answer:?}");
        assert!(!answer.body.to_string().contains("hunter2"), "{answer:?}");
    }
    assert_eq!(start(client, &json!({})).status, 400, "missing options lack a required member");
}

#[test]
fn tags_and_metadata_have_limits() {
    let server = server();
    let client = &server.client;
    assert_eq!(start(client, &json!({"tags": vec!["t".repeat(256); 100]})).status, 201);
    assert_start_refused(client, &json!({"tags": vec!["t"; 101]}), "tags");
    assert_start_refused(client, &json!({"tags": ["fine", "t".repeat(257)]}), "tags[1]");
    let four = json!({"a": {"b": {"c": {}}}});
    assert_eq!(start(client, &json!({"metadata": four})).status, 201);
    assert_start_refused(client, &json!({"metadata": {"a": four}}), "metadata");
    let filled = |bytes: usize| json!({"metadata": {"a": "x".repeat(bytes - r#"{"a":""}"#.len())}});
    assert_eq!(start(client, &filled(8192)).status, 201);
    assert_start_refused(client, &filled(8193), "metadata");
}

#[test]
fn a_callback_url_follows_the_outgoing_policy() {
    let server = server();
    let client = &server.client;
    let accepted = start(client, &json!({"callbackUrl": "https://example.org/done?token=hunter2"}));
    assert_eq!(accepted.status, 201);
    let shown = client.get(accepted.body["statusUrl"].as_str().unwrap());
    assert!(
        !shown.body.to_string().contains("hunter2"),
        "a callback URL may contain a secret and is not shown"
    );
    assert_eq!(start(client, &json!({"callbackUrl": null})).status, 201);
    for wrong in [
        "",
        "done",
        "http://example.org/",
        "ftp://example.org/",
        "https://",
        "https://127.0.0.1/x",
        "https://localhost/x",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest",
        "https://[::1]/",
        "https://0x7f.1/",
        "https://user:hunter2@example.org/",
        "https://example.org:0/",
    ] {
        let answer = start(client, &json!({"callbackUrl": wrong}));
        answer.assert_envelope(400, "webhook_url_rejected");
        assert_eq!(answer.body["details"]["field"], "callbackUrl", "{wrong}");
        assert!(!answer.body.to_string().contains("hunter2"), "{answer:?}");
    }
}

#[test]
fn test_options_need_a_test_key() {
    let server = server();
    let live = &server.client;
    let made = live.post("/v1/keys", &json!({"tenant": "lab", "test": true})).body;
    let test = &live.with_key(made["key"].as_str());
    test.put("/v1/workflows/gated", &gated("gated"));
    let mock = json!({"configurable": {"mockProvider": {"id": "stream-text"}}});
    start(live, &mock).assert_envelope(403, "forbidden");
    assert_eq!(start(test, &mock).status, 201);
    let run = live.start_run("gated");
    let fork = json!({"mode": "branch", "fromSeq": 0, "runOptionsOverlay": mock});
    live.post(&format!("/v1/runs/{run}:fork"), &fork).assert_envelope(403, "forbidden");
    let run = test.start_run("gated");
    assert_eq!(test.post(&format!("/v1/runs/{run}:fork"), &fork).status, 201);
    let body = br#"{"workflowId": "gated"}"#;
    for (client, status) in [(live, 403), (test, 400)] {
        let answer = client.exchange("POST", "/v1/runs", Some(body), &[("x-force-engine-version", "1")]);
        assert_eq!(answer.status(), status, "{}", answer.body());
    }
}

#[test]
fn an_exclusive_scope_has_one_run_at_a_time() {
    let server = server();
    let client = &server.client;
    let create = |scope: Option<&str>, headers: &[(&str, &str)]| {
        let body = json!({"workflowId": "gated", "scopeId": scope}).to_string();
        let answer = client.exchange("POST", "/v1/runs", Some(body.as_bytes()), headers);
        let shown: Value = serde_json::from_str(answer.body()).unwrap();
        (answer.status().as_u16(), shown)
    };
    let enforce = ("x-dedup", "enforce");
    let (status, first) = create(Some("s"), &[enforce]);
    assert_eq!(status, 201);
    let (status, refused) = create(Some("s"), &[enforce]);
    assert_eq!((status, &refused["details"]["activeRunId"]), (409, &first["runId"]));
    assert_eq!(create(Some("other"), &[enforce]).0, 201);
    let (status, refused) = create(None, &[enforce]);
    assert_eq!((status, &refused["details"]["field"]), (400, &json!("scopeId")), "x-dedup requires a scope");
    let (status, not_exclusive) = create(Some("s"), &[]);
    assert_eq!(status, 201, "a start without x-dedup is not refused");
    client.answer(first["runId"].as_str().unwrap(), "gate", &accept());
    let (status, refused) = create(Some("s"), &[enforce]);
    assert_eq!((status, &refused["details"]["activeRunId"]), (409, &not_exclusive["runId"]));
    // The refusal can change, so it is not stored under the idempotency key.
    let keyed = [enforce, ("idempotency-key", "k")];
    assert_eq!(create(Some("s"), &keyed).0, 409);
    client.post(&format!("/v1/runs/{}/cancel", not_exclusive["runId"].as_str().unwrap()), &json!({}));
    let (status, second) = create(Some("s"), &keyed);
    assert_eq!(status, 201);
    assert_eq!(create(Some("s"), &keyed), (201, second), "the stored response, although the scope is busy");
    assert_eq!(create(Some("s"), &[("x-dedup", "maybe")]).0, 400);
    assert_scope_refused(client, "");
    assert_scope_refused(client, &"s".repeat(257));
}

fn assert_scope_refused(client: &Client, scope: &str) {
    assert_start_refused(client, &json!({"scopeId": scope}), "scopeId");
}
