//! Lists of runs: filters, combined filters, and pages.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Client, Server, accept, gated, linear};
use crate::test_database::{TestDatabase, on_both};

fn found(client: &Client, query: &str) -> Vec<String> {
    let answer = client.get(&format!("/v1/runs?{query}"));
    let runs = answer.body["runs"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
    runs.iter().map(|run| run["runId"].as_str().unwrap().to_owned()).collect()
}

fn start(client: &Client, body: &Value) -> String {
    client.post("/v1/runs", body).body["runId"].as_str().unwrap().to_owned()
}

#[test]
fn filters_select_the_runs_of_a_list() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    client.put("/v1/workflows/short", &linear("short", &[("only", "core.noop", json!({}))]));
    let a = start(client, &json!({"workflowId": "gated", "scopeId": "s", "tags": ["red", "big one"]}));
    let b = start(client, &json!({"workflowId": "gated", "scopeId": "s", "tags": ["red"]}));
    let c = start(client, &json!({"workflowId": "short", "tags": ["Red"]}));
    client.answer(&b, "gate", &accept());
    for (query, expected) in [
        ("", vec![&c, &b, &a]),
        ("status=completed", vec![&c, &b]),
        ("status=waiting-approval", vec![&a]),
        ("status=paused", vec![]),
        ("workflowId=gated", vec![&b, &a]),
        ("workflowId=unknown", vec![]),
        ("scopeId=s", vec![&b, &a]),
        ("tag=red", vec![&b, &a]),
        ("tag=big%20one", vec![&a]),
        ("tag=Red", vec![&c]),
        ("tag=red&status=completed&scopeId=s&workflowId=gated", vec![&b]),
        ("tag=red&workflowId=short", vec![]),
        ("parentRunId=unknown", vec![]),
        ("unknown=ignored", vec![&c, &b, &a]),
    ] {
        assert_eq!(found(client, query).iter().collect::<Vec<_>>(), expected, "{query}");
    }
    for wrong in ["status=lost", "createdAfter=yesterday", "createdBefore=1", "limit=0", "limit=201"] {
        client.get(&format!("/v1/runs?{wrong}")).assert_envelope(400, "validation_error");
    }
}

on_both!(a_failed_run_has_an_error_code_in_the_list);

fn a_failed_run_has_an_error_code_in_the_list(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    client.put(
        "/v1/workflows/fails",
        &linear("fails", &[("only", "core.fail", json!({"code": "out_of_paper"}))]),
    );
    // Failed at once, failed by an answer, cancelled, and still waiting.
    start(client, &json!({"workflowId": "fails"}));
    let rejected = start(client, &json!({"workflowId": "gated"}));
    assert_eq!(client.answer(&rejected, "gate", &json!({"action": "reject"})).body["status"], "failed");
    let cancelled = start(client, &json!({"workflowId": "gated"}));
    assert_eq!(client.post(&format!("/v1/runs/{cancelled}/cancel"), &json!({})).status, 200);
    start(client, &json!({"workflowId": "gated"}));
    let listed = client.get("/v1/runs").body;
    let codes: Vec<&Value> = listed["runs"].as_array().unwrap().iter().map(|run| &run["errorCode"]).collect();
    assert_eq!(
        codes,
        [&Value::Null, &Value::Null, &json!("approval_rejected"), &json!("out_of_paper")],
        "{listed}"
    );
}

#[test]
fn runs_are_filtered_by_creation_time() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = client.start_run("gated");
    let at = client.get("/v1/runs").body["runs"][0]["createdAt"].as_str().unwrap().to_owned();
    assert_eq!(found(client, &format!("createdAfter={at}")), [run.as_str()], "the bound is inclusive");
    assert_eq!(found(client, &format!("createdBefore={at}")), [""; 0], "the bound is exclusive");
    assert_eq!(found(client, "createdAfter=2020-01-01T00:00:00Z&createdBefore=2999-01-01T00:00:00Z"), [run]);
    assert_eq!(found(client, "createdAfter=2999-01-01T00:00:00Z"), [""; 0]);
}

#[test]
fn pages_neither_skip_nor_repeat_runs_while_runs_are_started() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let before: BTreeSet<String> =
        (0..11).map(|_| start(client, &json!({"workflowId": "gated", "tags": ["t"]}))).collect();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/runs?tag=t&limit=3{cursor}")).body;
        let runs = page["runs"].as_array().unwrap();
        assert!(runs.len() <= 3);
        seen.extend(runs.iter().map(|run| run["runId"].as_str().unwrap().to_owned()));
        start(client, &json!({"workflowId": "gated", "tags": ["t"]}));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert!(seen.windows(2).all(|two| two[0] > two[1]), "newest first");
    assert_eq!(seen.len(), before.len());
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), before);
}

#[test]
fn child_runs_are_filtered_by_their_parent() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/short", &linear("short", &[("only", "core.noop", json!({}))]));
    let call = |id| (id, "core.subWorkflow", json!({"workflowId": "short"}));
    client.put("/v1/workflows/top", &linear("top", &[call("one"), call("two")]));
    let parent = client.start_run("top");
    client.wait_for_end(&parent);
    let children = found(client, &format!("parentRunId={parent}"));
    assert_eq!(children, [format!("{parent}.2"), format!("{parent}.1")]);
    let listed = client.get(&format!("/v1/runs?parentRunId={parent}&limit=1")).body;
    assert_eq!((&listed["runs"][0]["parentRunId"], listed["nextCursor"].is_string()), (&json!(parent), true));
}
