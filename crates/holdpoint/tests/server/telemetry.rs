//! Traces at a collector: names, attributes and parents of spans, in both encodings, across a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::collector::{Collector, Span};
use crate::harness::{Client, Server, accept, gated};

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Starts a server that exports spans every 5 ms.
pub(crate) fn start_exporting(collector: &Collector, protocol: &str, data: &Path) -> Server {
    let flags = ["--otlp-endpoint", &collector.url, "--otlp-protocol", protocol];
    Server::launch(data, &flags, |command| command.env("OTEL_BSP_SCHEDULE_DELAY", "5").stderr(Stdio::null()))
}

pub(crate) fn one_node(id: &str, type_id: &str, config: Value) -> Value {
    json!({
        "id": id, "name": id, "version": "1", "edges": [], "triggers": [], "variables": [], "metadata": {},
        "settings": {},
        "nodes": [{
            "id": "only", "typeId": type_id, "name": "only", "position": {"x": 0, "y": 0}, "config": config,
            "inputs": {},
        }],
    })
}

fn start_with_traceparent(client: &Client, workflow: &str) -> String {
    let body = json!({"workflowId": workflow, "scopeId": "orders"}).to_string();
    let headers = [("content-type", "application/json"), ("traceparent", CALLER)];
    let created = client.exchange("POST", "/v1/runs", Some(body.as_bytes()), &headers);
    assert_eq!(created.status(), 201, "{created:?}");
    let created: Value = serde_json::from_str(created.body()).unwrap();
    created["runId"].as_str().unwrap().to_owned()
}

/// Waits for a status of a run: a worker starts child runs later.
fn wait_for(client: &Client, run: &str, status: &str) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while client.status(run) != status {
        assert!(std::time::Instant::now() < until, "{run} is {}, not {status}", client.status(run));
        std::thread::yield_now();
    }
}

fn spans_named<'a>(spans: &'a [Span], run: &str, name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.text("openwop.run_id") == run && span.name == name).collect()
}

fn only_span<'a>(spans: &'a [Span], run: &str, name: &str) -> &'a Span {
    let found = spans_named(spans, run, name);
    assert_eq!(found.len(), 1, "{name} of {run}: {found:#?}");
    found[0]
}

/// Checks that span ids are unique, that every parent is known or the caller's, and that times are in order.
fn check(spans: &[Span]) {
    let ids: BTreeSet<(&String, &String)> = spans.iter().map(|span| (&span.trace, &span.id)).collect();
    assert_eq!(ids.len(), spans.len(), "a span id occurs twice");
    let caller = (CALLER[3..35].to_owned(), CALLER[36..52].to_owned());
    for span in spans {
        assert_eq!((span.trace.len(), span.id.len(), span.kind), (32, 16, 1), "{span:#?}");
        assert!(span.trace.bytes().chain(span.id.bytes()).any(|byte| byte != b'0'), "{span:#?}");
        assert!(span.start > 0 && span.start <= span.end, "{span:#?}");
        let known = ids.contains(&(&span.trace, &span.parent)) || span.parent == caller.1;
        let root = span.parent.is_empty() && span.name == "openwop.run";
        assert!(known || root, "the span has an unknown parent: {span:#?}");
    }
}

fn parent_of(child: &str) -> Value {
    let mut parent = one_node("parent", "core.subWorkflow", json!({"workflowId": child}));
    parent["metadata"] = json!({"complianceClass": "pii"});
    parent
}

fn run_family_across_restart(protocol: &str) -> (Vec<Span>, String, Vec<Value>) {
    let collector = Collector::start();
    let folder = tempfile::tempdir().unwrap();
    let mut server = start_exporting(&collector, protocol, folder.path());
    server.client.put("/v1/workflows/child", &gated("child"));
    server.client.put("/v1/workflows/parent", &parent_of("child"));
    let parent = start_with_traceparent(&server.client, "parent");
    let child = format!("{parent}.1");
    wait_for(&server.client, &child, "waiting-approval");
    server.terminate();
    assert!(server.wait().success());
    let server = start_exporting(&collector, protocol, folder.path());
    assert_eq!(server.client.answer(&child, "gate", &accept()).status, 200);
    let spans = collector.spans_of(&[&parent, &child]);
    let events = server.client.events(&child);
    (spans, parent, events)
}

fn check_family(protocol: &str) {
    let (spans, parent, events) = run_family_across_restart(protocol);
    let child = format!("{parent}.1");
    check(&spans);
    let run = only_span(&spans, &parent, "openwop.run");
    assert_eq!((run.trace.as_str(), run.parent.as_str()), (&CALLER[3..35], &CALLER[36..52]));
    let common = json!({
        "openwop.run_id": parent, "openwop.workflow_id": "parent", "openwop.protocol_version": "1.0",
        "openwop.tenant_id": "default", "openwop.scope_id": "orders", "openwop.pii_present": true,
        "openwop.compliance_class": "pii",
    });
    assert_eq!(json!(run.attributes), common);
    assert_eq!(run.status, None);

    let node = only_span(&spans, &parent, "openwop.node.core.subWorkflow");
    assert_eq!(node.parent, run.id);
    assert_eq!((node.text("openwop.node_id"), node.text("openwop.node_type")), ("only", "core.subWorkflow"));
    assert_eq!(node.attributes["openwop.node_attempt"], 0);
    assert!(node.attributes["openwop.event_seq"].is_u64());
    assert_eq!(only_span(&spans, &parent, "openwop.node.core.subWorkflow.attempt").parent, node.id);

    let child_run = only_span(&spans, &child, "openwop.run");
    assert_eq!(
        (&child_run.trace, &child_run.parent),
        (&run.trace, &node.id),
        "the span of the child run has the node as parent"
    );
    assert!(child_run.start >= node.start && child_run.end <= node.end);
    assert_eq!(child_run.text("openwop.parent.run_id"), parent);
    assert_eq!(child_run.text("openwop.parent.workflow_id"), "parent");
    assert_eq!(child_run.text("openwop.parent.node_id"), "only");
    assert_eq!(child_run.attributes["openwop.pii_present"], false);
    assert!(!child_run.attributes.contains_key("openwop.compliance_class"));

    check_interrupt(&spans, &child, &events);
    let appended = spans_named(&spans, &child, "openwop.event.append");
    let exported: BTreeMap<i64, &str> = appended
        .iter()
        .map(|span| (span.attributes["openwop.event_seq"].as_i64().unwrap(), span.text("openwop.event_type")))
        .collect();
    let known =
        events.iter().map(|event| (event["sequence"].as_i64().unwrap(), event["type"].as_str().unwrap()));
    assert_eq!(exported, known.collect(), "each event has one span");
    assert!(appended.iter().all(|span| span.parent == child_run.id));
}

/// Checks that the interrupt has one span, from the request before the restart to the answer after it.
fn check_interrupt(spans: &[Span], child: &str, events: &[Value]) {
    let gate = only_span(spans, child, "openwop.node.core.approvalGate");
    let interrupt = only_span(spans, child, "openwop.interrupt");
    assert_eq!(interrupt.parent, gate.id);
    assert_eq!(interrupt.text("openwop.interrupt_kind"), "approval");
    assert_eq!(interrupt.text("status"), "resolved");
    assert_eq!(interrupt.attributes["openwop.interrupt_count"], 0);
    assert_eq!(interrupt.text("openwop.node_id"), "gate");
    let at = |kind: &str| {
        let event = events.iter().find(|event| event["type"] == kind).unwrap();
        let at: jiff::Timestamp = event["timestamp"].as_str().unwrap().parse().unwrap();
        u64::try_from(at.as_nanosecond()).unwrap()
    };
    assert_eq!((interrupt.start, interrupt.end), (at("interrupt.requested"), at("interrupt.resolved")));
    let asked = events.iter().find(|event| event["type"] == "interrupt.requested").unwrap();
    assert_eq!(interrupt.text("openwop.interrupt_id"), asked["payload"]["interruptId"].as_str().unwrap());
}

#[test]
fn a_parent_and_its_child_run_across_a_restart_are_one_trace_in_protobuf() {
    check_family("http/protobuf");
}

#[test]
fn a_parent_and_its_child_run_across_a_restart_are_one_trace_in_json() {
    check_family("http/json");
}

#[test]
fn a_fork_is_linked_to_the_span_of_its_source_and_has_no_parent() {
    let collector = Collector::start();
    let folder = tempfile::tempdir().unwrap();
    let server = start_exporting(&collector, "http/protobuf", folder.path());
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let start: [fn(&Client) -> String; 2] =
        [|client| client.start_run("gated"), |client| start_with_traceparent(client, "gated")];
    for start in start {
        let source = &start(client);
        assert_eq!(client.answer(source, "gate", &accept()).status, 200);
        let count = client.events(source).len();
        let fork = |body: Value| {
            let made = client.post(&format!("/v1/runs/{source}:fork"), &body);
            assert_eq!(made.status, 201, "{made:?}");
            made.body["runId"].as_str().unwrap().to_owned()
        };
        let replay = fork(json!({"mode": "replay", "fromSeq": 0}));
        let whole = fork(json!({"mode": "replay", "fromSeq": count}));
        let branch = fork(json!({"mode": "branch", "fromSeq": count - 1}));
        let spans = collector.spans_of(&[source, &replay, &whole, &branch]);
        check(&spans);
        let real = only_span(&spans, source, "openwop.run");
        assert!(real.links.is_empty());
        for (copy, mode, from) in
            [(&replay, "replay", 0), (&whole, "replay", count), (&branch, "branch", count - 1)]
        {
            let span = only_span(&spans, copy, "openwop.run");
            assert_eq!(span.links, [(real.trace.clone(), real.id.clone())]);
            assert_eq!(span.parent, "", "the caller of the source is not the parent of its fork");
            assert_eq!(span.text("openwop.replay.source_run_id"), source);
            assert_eq!(span.text("openwop.replay.mode"), mode);
            assert_eq!(span.attributes["openwop.replay.from_seq"], json!(from));
            assert_eq!(span.attributes["openwop.replay.diverged"], false);
            assert!(
                spans_named(&spans, copy, "openwop.interrupt").is_empty(),
                "a copied interrupt has no span"
            );
        }
        assert_eq!(
            spans_named(&spans, &whole, "openwop.event.append").len(),
            0,
            "a copied event has no span"
        );
        assert_eq!(spans_named(&spans, &branch, "openwop.event.append").len(), 1);
    }
}

#[test]
fn an_http_call_of_a_node_has_the_traceparent_of_its_span() {
    let (collector, peer) = (Collector::start(), Collector::start());
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--otlp-endpoint", &collector.url, "--outgoing-allow-loopback"];
    let server = Server::launch(folder.path(), &flags, |command| {
        command.env("OTEL_BSP_SCHEDULE_DELAY", "5").stderr(Stdio::null())
    });
    let mut paying =
        one_node("paying", "core.http", json!({"url": format!("{}/pay", peer.url), "method": "POST"}));
    paying["nodes"][0]["inputs"] = json!({"body": {"type": "static", "value": {"amount": 7}}});
    assert_eq!(server.client.put("/v1/workflows/paying", &paying).status, 201);
    let run = start_with_traceparent(&server.client, "paying");
    let spans = collector.spans_of(&[&run]);
    check(&spans);
    let node = only_span(&spans, &run, "openwop.node.core.http");
    let effect = only_span(&spans, &run, "openwop.activity.core.http");
    assert_eq!(effect.parent, node.id);
    let paid = peer.wait("the payment", |requests| !requests.is_empty());
    assert_eq!((paid.len(), paid[0].path.as_str()), (1, "/pay"));
    assert_eq!(paid[0].headers["traceparent"], format!("00-{}-{}-01", &CALLER[3..35], node.id));
    let exported = format!("{spans:?}");
    assert!(!exported.contains(&paid[0].headers["idempotency-key"]), "a key of an effect is in a span");
}

#[test]
fn a_run_that_ends_early_ends_its_open_spans() {
    let collector = Collector::start();
    let folder = tempfile::tempdir().unwrap();
    let server = start_exporting(&collector, "http/protobuf", folder.path());
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    client.put(
        "/v1/workflows/failing",
        &one_node("failing", "core.fail", json!({"code": "broken", "message": "secret"})),
    );
    let mut busy = gated("busy");
    busy["settings"] = json!({"timeout": 1});
    client.put("/v1/workflows/busy", &busy);
    let (cancelled, failed, late) =
        (client.start_run("gated"), client.start_run("failing"), client.start_run("busy"));
    assert_eq!(client.post(&format!("/v1/runs/{cancelled}/cancel"), &json!({})).status, 200);
    let spans = collector.spans_of(&[&cancelled, &failed, &late]);
    check(&spans);
    let interrupt = only_span(&spans, &cancelled, "openwop.interrupt");
    assert_eq!(interrupt.text("status"), "cancelled");
    assert_eq!(interrupt.parent, only_span(&spans, &cancelled, "openwop.node.core.approvalGate").id);
    assert_eq!(only_span(&spans, &cancelled, "openwop.run").status, None);

    let error = Some((2, "broken".to_owned()));
    for name in ["openwop.run", "openwop.node.core.fail", "openwop.node.core.fail.attempt"] {
        assert_eq!(
            only_span(&spans, &failed, name).status,
            error,
            "the status has the error code, not the message"
        );
    }
    let run = only_span(&spans, &late, "openwop.run");
    assert_eq!(run.text("openwop.cap_kind"), "run-duration");
    assert_eq!(run.attributes["openwop.cap_limit"], 1);
    assert!(run.attributes["openwop.cap_observed"].as_i64().unwrap() >= 1);
    assert_eq!(run.status, Some((2, "run_timeout".to_owned())));
}

#[test]
fn exports_have_the_configured_headers_and_discovery_lists_the_protocols() {
    let collector = Collector::start();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::launch(folder.path(), &[], |command| {
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{}/", collector.url))
            .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret,x-tenant=7")
            .env("OTEL_BSP_SCHEDULE_DELAY", "5")
            .stderr(Stdio::null())
    });
    server.client.start_run("sample-approval");
    let requests = collector.wait("an export", |requests| !requests.is_empty());
    assert_eq!(requests[0].path, "/v1/traces");
    assert_eq!(requests[0].headers["authorization"], "Bearer s3cret");
    assert_eq!(requests[0].headers["x-tenant"], "7");
    let protocols = json!({"otel": {"exportProtocols": ["http/json", "http/protobuf"]}});
    for path in ["/.well-known/openwop", "/.well-known/wop"] {
        assert_eq!(server.client.get(path).body["observability"], protocols);
    }
    assert_eq!(Server::start().client.get("/.well-known/openwop").body.get("observability"), None);
}
