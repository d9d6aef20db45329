//! What `core.http` sends: the request that config and inputs make up, the key that tells a repeated call from a new
//! one, and the trace of the run.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdpoint_engine::SpanName;
use holdpoint_engine::core::{NodeId, RunRef, Start, WorkflowId};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::house::{House, graph, line, node, run_id, start, tenant};
use crate::node::{failure, open};
use crate::peer::{Peer, Reply, header};
use crate::place::{Place, on_both};

on_both! {
    inputs_extend_and_replace_what_the_config_says,
    inputs_of_the_wrong_kind_fail_the_node,
    the_key_is_that_of_the_contract_and_the_trace_goes_along,
    two_nodes_and_two_runs_have_keys_of_their_own,
}

fn fixed(value: Value) -> Value {
    json!({"type": "static", "value": value})
}

async fn with_inputs(house: &House, config: Value, inputs: Value) -> RunRef {
    let mut call = node("call", "core.http", config);
    call["inputs"] = inputs;
    house.register(graph("call", &[call], &[])).await;
    let of = house.start("call").await;
    house.drain().await;
    of
}

async fn inputs_extend_and_replace_what_the_config_says(place: Place) {
    let house = House::with(place, open).await;
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
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
    let of = with_inputs(&house, config, inputs).await;
    assert_eq!(house.status(&of).await, "completed", "{:?}", house.run(&of).await.end);
    let request = &peer.heard()[0];
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
    with_inputs(&house, form, json!({"body": fixed(json!("a,b\n"))})).await;
    assert!(peer.heard()[1].ends_with("\r\n\r\na,b\n"), "text of another type is sent as it is");
}

async fn inputs_of_the_wrong_kind_fail_the_node(place: Place) {
    let house = House::with(place, open).await;
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
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
        let of = with_inputs(&house, config(), inputs.clone()).await;
        let error = failure(&house, &of).await;
        assert_eq!((error.code.as_str(), error.retryable), ("invalid_input", false), "{inputs}");
    }
    assert!(peer.heard().is_empty());
}

async fn the_key_is_that_of_the_contract_and_the_trace_goes_along(place: Place) {
    let house = House::with(place, open).await;
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    house.register(line("call", &[("pay", "core.http", json!({"url": peer.url("/")}))])).await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace_state = Some("vendor=opaque,other=1".to_owned());
    let begun = Start { trace: Some(trace.to_owned()), trace_state: trace_state.clone(), ..start(json!({})) };
    house.engine.start_as(&run_id("run-1"), &WorkflowId::parse("call").unwrap(), begun).await.unwrap();
    house.drain().await;
    let hash = Sha256::digest(b"openwop:activity:v2\0default\0run-1\0pay\x001\0core.http");
    assert_eq!(peer.header("idempotency-key"), [Some(URL_SAFE_NO_PAD.encode(hash))]);
    let of = RunRef { tenant: tenant(), run: run_id("run-1") };
    // Not the caller's own: what the node does is part of what the run does, in the caller's trace.
    let span = SpanName::of_visit(&tenant(), &*house.run(&of).await, &NodeId::parse("pay").unwrap(), 1);
    assert!(span.to_string().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{span}");
    assert_eq!(peer.header("traceparent"), [Some(span.to_string())]);
    assert_eq!(peer.header("tracestate"), [trace_state], "as it came");
    assert!(!span.to_string().contains("00f067aa0ba902b7"), "{span}");
    assert_eq!(house.status(&of).await, "completed");
    assert!(!house.log(&of).await.concat().contains(&URL_SAFE_NO_PAD.encode(hash)), "keys are not recorded");
}

async fn two_nodes_and_two_runs_have_keys_of_their_own(place: Place) {
    let house = House::with(place, open).await;
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    let config = json!({"url": peer.url("/")});
    house.register(line("calls", &[("a", "core.http", config.clone()), ("b", "core.http", config)])).await;
    house.start("calls").await;
    house.start("calls").await;
    house.drain().await;
    let mut keys = peer.header("idempotency-key");
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 4, "{keys:?}");
    let mut spans = peer.header("traceparent");
    spans.sort();
    spans.dedup();
    assert_eq!(spans.len(), 4, "{spans:?}");
}
