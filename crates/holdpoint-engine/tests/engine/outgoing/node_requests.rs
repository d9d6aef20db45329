//! Requests of `core.http`: config and inputs, the idempotency key, and the trace of the run.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdpoint_engine::SpanContext;
use holdpoint_engine::core::{NodeId, RunRef, StartRequest, WorkflowId};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::outgoing::node::{failure, open};
use crate::peer::{Peer, PeerReply, header};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, graph, line, node, run_id, start, tenant};

on_both! {
    inputs_extend_and_replace_the_config,
    inputs_of_the_wrong_type_fail_the_node,
    the_request_has_the_idempotency_key_and_the_trace,
    each_node_and_each_run_has_its_own_key,
}

fn fixed(value: Value) -> Value {
    json!({"type": "static", "value": value})
}

async fn with_inputs(env: &TestEnv, config: Value, inputs: Value) -> RunRef {
    let mut call = node("call", "core.http", config);
    call["inputs"] = inputs;
    env.register(graph("call", &[call], &[])).await;
    let of = env.start("call").await;
    env.drain().await;
    of
}

async fn inputs_extend_and_replace_the_config(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    let config = json!({
        "url": "https://never.called.example/", "method": "POST",
        "headers": {"X-Kept": "config", "X-Replaced": "config"},
    });
    let inputs = json!({
        "url": fixed(json!(peer.url("/things?a=1"))),
        "query": fixed(json!({"b": "x y&z", "c": [1, true], "d": null})),
        "headers": fixed(json!({"x-replaced": "input", "x-number": 7})),
        "body": fixed(json!({"n": 1})),
    });
    let of = with_inputs(&env, config, inputs).await;
    assert_eq!(env.status(&of).await, "completed", "{:?}", env.run(&of).await.end);
    let request = &peer.requests()[0];
    assert!(request.starts_with("POST /things?a=1&b=x+y%26z&c=1&c=true HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"n\":1}"), "{request}");
    for (name, value) in [
        ("x-kept", "config"),
        ("x-replaced", "input"),
        ("x-number", "7"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(header(request, name).as_deref(), Some(value), "{name}");
    }
    let form = json!({"url": peer.url("/"), "method": "PUT", "headers": {"Content-Type": "text/csv"}});
    with_inputs(&env, form, json!({"body": fixed(json!("a,b\n"))})).await;
    assert!(peer.requests()[1].ends_with("\r\n\r\na,b\n"), "text of another type is sent unchanged");
}

async fn inputs_of_the_wrong_type_fail_the_node(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    let config = || json!({"url": peer.url("/"), "headers": {"content-type": "text/csv"}});
    for inputs in [
        json!({"url": fixed(json!(7))}),
        json!({"query": fixed(json!("a=b"))}),
        json!({"query": fixed(json!({"a": {"b": 1}}))}),
        json!({"headers": fixed(json!([]))}),
        json!({"headers": fixed(json!({"Host": "x"}))}),
        json!({"headers": fixed(json!({"idempotency-key": "x"}))}),
        json!({"body": fixed(json!({"not": "text"}))}),
    ] {
        let of = with_inputs(&env, config(), inputs.clone()).await;
        let error = failure(&env, &of).await;
        assert_eq!((error.code.as_str(), error.retryable), ("invalid_input", false), "{inputs}");
    }
    assert!(peer.requests().is_empty());
}

async fn the_request_has_the_idempotency_key_and_the_trace(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    env.register(line("call", &[("pay", "core.http", json!({"url": peer.url("/")}))])).await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace_state = Some("vendor=opaque,other=1".to_owned());
    let request =
        StartRequest { trace: Some(trace.to_owned()), trace_state: trace_state.clone(), ..start(json!({})) };
    env.engine
        .runs()
        .create_as(&run_id("run-1"), &WorkflowId::parse("call").unwrap(), request)
        .await
        .unwrap();
    env.drain().await;
    let hash = Sha256::digest(b"openwop:activity:v2\0default\0run-1\0pay\x001\0core.http");
    assert_eq!(peer.header("idempotency-key"), [Some(URL_SAFE_NO_PAD.encode(hash))]);
    let of = RunRef { tenant: tenant(), run: run_id("run-1") };
    // The span belongs to the visit of the node, in the trace of the caller.
    let span = SpanContext::of_visit(&tenant(), &*env.run(&of).await, &NodeId::parse("pay").unwrap(), 1);
    assert!(span.to_string().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{span}");
    assert_eq!(peer.header("traceparent"), [Some(span.to_string())]);
    assert_eq!(peer.header("tracestate"), [trace_state], "the trace state is passed on unchanged");
    assert!(!span.to_string().contains("00f067aa0ba902b7"), "{span}");
    assert_eq!(env.status(&of).await, "completed");
    assert!(!env.log(&of).await.concat().contains(&URL_SAFE_NO_PAD.encode(hash)), "keys are not recorded");
}

async fn each_node_and_each_run_has_its_own_key(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    let config = json!({"url": peer.url("/")});
    env.register(line("calls", &[("a", "core.http", config.clone()), ("b", "core.http", config)])).await;
    env.start("calls").await;
    env.start("calls").await;
    env.drain().await;
    let mut keys = peer.header("idempotency-key");
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 4, "{keys:?}");
    let mut spans = peer.header("traceparent");
    spans.sort();
    spans.dedup();
    assert_eq!(spans.len(), 4, "{spans:?}");
}
