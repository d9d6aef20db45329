//! Behavior that published OpenWOP clients rely on: versions, webhook defaults, links, audiences, draining pauses.

use std::io::Read;

use serde_json::{Value, json};

use crate::harness::{Client, KEY, Server, accept, client_with_key, gated, linear};
use crate::links::{Link, mint};
use crate::receiver::{Hook, Receiver, server_at};
use crate::test_database::{TestDatabase, on_both};

on_both!(
    runs_and_discovery_state_the_versions_of_the_log_and_of_the_engine,
    a_webhook_without_a_mode_is_durable_and_false_opts_out,
    an_audience_is_notified_and_does_not_restrict_approvers,
    a_drained_run_pauses_after_its_node_has_ended,
    a_draining_pause_can_be_revoked_or_made_immediate,
    a_stream_resumed_beyond_the_end_of_a_live_run_gets_the_next_events,
    a_timeout_of_zero_is_no_timeout,
    webhooks_carry_the_trace_of_the_caller,
);

fn runs_and_discovery_state_the_versions_of_the_log_and_of_the_engine(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let found = client.get("/.well-known/openwop").body;
    let run = client.start_run("gated");
    let shown = client.snapshot(&run);
    assert_eq!((&found["eventLogSchemaVersion"], &shown["eventLogSchemaVersion"]), (&json!(2), &json!(2)));
    // The number of the newest migration. It increases with every change of the stored format.
    let engine = found["engineVersion"].as_u64().unwrap();
    assert!(engine >= 20, "{found}");
    assert_eq!(shown["engineVersion"], engine);
    let started = &client.events(&run)[0];
    assert_eq!(
        started["payload"]["engineVersion"],
        engine.to_string(),
        "a string in events, as the protocol requires"
    );
    let branch = json!({"mode": "branch", "fromSeq": 1});
    let fork =
        client.post(&format!("/v1/runs/{run}:fork"), &branch).body["runId"].as_str().unwrap().to_owned();
    assert_eq!(client.snapshot(&fork)["engineVersion"], engine);
}

fn webhook(client: &Client, more: Value) -> Value {
    let mut body = json!({"url": "https://8.8.8.8/hook", "events": ["run.completed"], "tenantId": "default"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = client.post("/v1/webhooks", &body);
    assert_eq!(made.status, 201, "{made:?}");
    made.body
}

fn a_webhook_without_a_mode_is_durable_and_false_opts_out(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    assert_eq!(client.get("/.well-known/openwop").body["webhooks"]["durable"], true);
    let plain = webhook(client, json!({}));
    assert_eq!((&plain["durable"], &plain["mode"]), (&json!(true), &json!("durable")));
    // Clients of a later version of the protocol read these members.
    assert_eq!((&plain["subscriptionId"], &plain["eventTypes"]), (&plain["webhookId"], &plain["events"]));
    assert_eq!(webhook(client, json!({"durable": null}))["mode"], "durable");
    let best_effort = webhook(client, json!({"durable": false}));
    assert_eq!((&best_effort["durable"], &best_effort["mode"]), (&json!(false), &json!("best-effort")));
    let path = format!("/v1/webhooks/{}", best_effort["webhookId"].as_str().unwrap());
    for verb in [":pause", ":resume"] {
        let turned = client.post(&format!("{path}{verb}"), &json!({}));
        assert_eq!(
            (turned.status, &turned.body["mode"]),
            (200, &json!("best-effort")),
            "the mode is unchanged"
        );
    }
}

#[test]
fn a_rejected_webhook_url_has_its_own_error_code() {
    let server = Server::start();
    for url in
        ["https://10.0.0.1/", "http://8.8.8.8/", "https://localhost/", "https://metadata.google.internal/"]
    {
        let refused = server.client.post("/v1/webhooks", &json!({"url": url, "events": ["run.completed"]}));
        refused.assert_envelope(400, "webhook_url_rejected");
        assert_eq!(refused.body["details"]["field"], "url");
        let start = json!({"workflowId": "sample-approval", "callbackUrl": url});
        let refused = server.client.post("/v1/runs", &start);
        refused.assert_envelope(400, "webhook_url_rejected");
        assert_eq!(refused.body["details"]["field"], "callbackUrl");
    }
    let missing = server.client.post("/v1/webhooks", &json!({"events": ["run.completed"]}));
    missing.assert_envelope(400, "validation_error");
}

#[test]
fn a_link_request_with_unknown_members_is_rejected() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = client.start_run("gated");
    for (body, words) in [
        (json!({"intnt": "inspect"}), "unknown field"),
        (json!({"expiresIn": 60}), "unknown field"),
        (json!({"ttlMs": 60_000, "expiresInSeconds": 60}), "ttlMs"),
        (json!({"ttlMs": 0}), "ttlMs"),
        (json!({"ttlMs": 40_u64 * 24 * 3_600_000}), "ttlMs"),
    ] {
        let refused = mint(client, &run, "gate", &body);
        refused.assert_envelope(400, "validation_error");
        assert!(refused.body["message"].as_str().unwrap().contains(words), "{refused:?}");
    }
    let short = Link::mint(client, &run, "gate", &json!({"ttlMs": 60_000}));
    let long = Link::mint(client, &run, "gate", &json!({}));
    let until = |link: &Link| link.minted["expiresAt"].as_str().unwrap().to_owned();
    assert!(until(&short) < until(&long), "{} {}", short.minted, long.minted);
    assert_eq!(short.answer(&accept()).status, 200);
}

#[test]
fn routes_outside_openwop_reject_unknown_members() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = client.start_run("gated");
    client.answer(&run, "gate", &json!({"action": "ask", "question": "Why?"}));
    let hook = webhook(client, json!({}))["webhookId"].as_str().unwrap().to_owned();
    let odd = |mut body: Value| {
        body["unknownMember"] = json!(true);
        body
    };
    let window = json!({"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"});
    for (path, body) in [
        (format!("/v1/runs/{run}/interrupts/gate/tokens"), json!({})),
        (format!("/v1/runs/{run}/interrupts/gate/asks/1"), json!({"answer": "so"})),
        ("/v1/events".to_owned(), json!({"eventType": "t", "eventId": "e"})),
        ("/v1/holds".to_owned(), json!({"title": "Go on?"})),
        ("/v1/keys".to_owned(), json!({"principal": "ann"})),
        (format!("/v1/webhooks/{hook}:pause"), json!({})),
        (format!("/v1/webhooks/{hook}:resume"), json!({})),
        (format!("/v1/webhooks/{hook}:rotate"), json!({})),
        (format!("/v1/webhooks/{hook}:replay"), window),
        ("/v1/secrets:rotate".to_owned(), json!({})),
    ] {
        let refused = client.post(&path, &odd(body));
        assert_ne!(refused.status, 404, "{path}: {refused:?}");
        refused.assert_envelope(400, "validation_error");
        let message = refused.body["message"].as_str().unwrap();
        assert!(message.contains("unknown field"), "{path}: {message}");
        assert!(!message.contains("unknownMember"), "a member name may be a secret: {message}");
    }
    let retries =
        json!({"url": "https://8.8.8.8/", "events": ["run.completed"], "retryPolicy": {"tries": 3}});
    client.post("/v1/webhooks", &retries).assert_envelope(400, "validation_error");
}

fn an_audience_is_notified_and_does_not_restrict_approvers(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    let key = |name: &str, groups: &[&str]| {
        let scopes = ["approvals:respond", "runs:read"];
        client_with_key(client, &json!({"principal": name, "groups": groups, "scopes": scopes}))
    };
    let (ann, bob, audra) = (key("ann", &[]), key("bob", &[]), key("audra", &["auditors"]));
    let run_with = |config: Value| {
        let mut flow = gated("notified");
        flow["nodes"][1]["config"].as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
        let put = client.put("/v1/workflows/notified", &flow);
        assert!([200, 201].contains(&put.status), "{put:?}");
        (client.start_run("notified"), put.body)
    };
    let audience = json!({"groups": ["auditors"]});
    let (run, _) = run_with(json!({"approversList": ["ann"], "audience": audience}));
    let mine =
        |who: &Client| who.get("/v1/interrupts?assignee=me").body["interrupts"].as_array().unwrap().len();
    assert_eq!(
        (mine(&ann), mine(&bob), mine(&audra)),
        (1, 0, 0),
        "interrupts that each principal may decide"
    );
    audra.answer(&run, "gate", &accept()).assert_envelope(403, "forbidden");
    assert_eq!(ann.answer(&run, "gate", &accept()).status, 200);
    let (run, put) = run_with(json!({"audience": audience}));
    let warned = put["warnings"].as_array().unwrap();
    assert!(warned.iter().any(|one| one.as_str().unwrap().contains("does not restrict")), "{put}");
    assert_eq!(mine(&audra), 1, "the audience finds it");
    assert_eq!(bob.answer(&run, "gate", &accept()).status, 200);
}

fn pause(client: &Client, run: &str, policy: &str) -> crate::harness::Response {
    client.post(&format!("/v1/runs/{run}:pause"), &json!({"drainPolicy": policy, "reason": "lunch"}))
}

fn kinds(log: &[Value]) -> Vec<&str> {
    log.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

fn a_drained_run_pauses_after_its_node_has_ended(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    let nodes = [("nap", "core.delay", json!({"ms": 1500})), ("after", "core.noop", json!({}))];
    client.put("/v1/workflows/nap", &linear("nap", &nodes));
    let run = client.start_run("nap");
    let asked = pause(client, &run, "drain-current-node");
    assert_eq!((asked.status, &asked.body["status"]), (202, &json!("paused")), "the requested state");
    assert_eq!((&asked.body["draining"], asked.body.get("pausedAt")), (&json!(true), None), "{asked:?}");
    pause(client, &run, "drain-current-node").assert_envelope(409, "wrong_state");
    let log = client.wait_for_event(&run, |event| event["type"] == "run.paused");
    let seen = kinds(&log);
    let position =
        |kind: &str| seen.iter().position(|one| *one == kind).unwrap_or_else(|| panic!("{kind}: {seen:?}"));
    assert!(position("holdpoint.pause.requested") < position("node.completed"), "{seen:?}");
    assert!(position("node.completed") < position("run.paused"), "{seen:?}");
    let paused = log.last().unwrap();
    assert_eq!(
        paused["payload"],
        json!({"drainPolicy": "drain-current-node", "pausedBy": paused["payload"]["pausedBy"], "reason": "lunch"})
    );
    assert_eq!(client.status(&run), "paused");
    assert_eq!(client.post(&format!("/v1/runs/{run}:resume"), &json!({})).status, 202);
    assert_eq!(client.wait_for_end(&run).last().unwrap()["type"], "run.completed");
}

fn a_draining_pause_can_be_revoked_or_made_immediate(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    client.put("/v1/workflows/nap", &linear("nap", &[("nap", "core.delay", json!({"ms": 3_600_000}))]));
    let run = client.start_run("nap");
    assert_eq!(pause(client, &run, "drain-current-node").status, 202);
    let shown = client.snapshot(&run);
    assert_eq!((&shown["status"], shown.get("pausedAt")), (&json!("running"), None));
    assert!(shown["pauseRequestedAt"].is_string(), "{shown}");
    assert_eq!(client.post(&format!("/v1/runs/{run}:resume"), &json!({})).status, 202);
    assert_eq!(client.snapshot(&run).get("pauseRequestedAt"), None);
    client.post(&format!("/v1/runs/{run}:resume"), &json!({})).assert_envelope(409, "wrong_state");
    assert_eq!(pause(client, &run, "drain-current-node").status, 202);
    assert_eq!(pause(client, &run, "immediate").status, 202);
    assert_eq!(client.status(&run), "paused");
    assert_eq!(client.post(&format!("/v1/runs/{run}/cancel"), &json!({})).body["status"], "cancelled");
}

fn a_stream_resumed_beyond_the_end_of_a_live_run_gets_the_next_events(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    for mode in ["updates", "debug", "values"] {
        let run = client.start_run("gated");
        let text = stream_beyond_end(&server, &run, mode);
        let frames: Vec<&str> = text.split("\n\n").filter(|frame| frame.contains("data: ")).collect();
        let last = frames.last().unwrap_or_else(|| panic!("{mode}: no frame"));
        match mode {
            "values" => assert!(last.contains("\"status\":\"completed\""), "{mode}: {last}"),
            _ => assert!(last.contains("event: run.completed"), "{mode}: {text}"),
        }
        assert!(!text.contains("event: run.started"), "{mode}: old events are not repeated");
        let ended = client.stream(&format!("/v1/runs/{run}/events?streamMode={mode}"), Some("100000"));
        assert!(ended.is_empty(), "a finished run has no new events: {ended:?}");
    }
}

/// Opens a stream far beyond the last event, answers the gate, and returns the text of the stream.
fn stream_beyond_end(server: &Server, run: &str, mode: &str) -> String {
    let request = ureq::get(format!("{}/v1/runs/{run}/events?streamMode={mode}", server.url));
    let request = request.header("authorization", format!("Bearer {KEY}"));
    let mut response = request.header("last-event-id", "100000").call().unwrap();
    assert_eq!(server.client.answer(run, "gate", &accept()).status, 200);
    let mut text = String::new();
    response.body_mut().as_reader().read_to_string(&mut text).unwrap();
    text
}

fn a_timeout_of_zero_is_no_timeout(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    let mut flow = gated("zero");
    flow["nodes"][1]["config"]["timeoutMs"] = json!(0);
    flow["settings"]["timeout"] = json!(0);
    assert_eq!(client.put("/v1/workflows/zero", &flow).status, 201);
    let created =
        client.post("/v1/runs", &json!({"workflowId": "zero", "configurable": {"runTimeoutMs": 0}}));
    let run = created.body["runId"].as_str().unwrap();
    let shown = client.snapshot(run);
    assert_eq!(
        (&shown["status"], shown["interrupt"].get("timeoutMs")),
        (&json!("waiting-approval"), None),
        "{shown}"
    );
    assert_eq!(shown["interrupt"].get("expiresAt"), None);
    assert_eq!(client.answer(run, "gate", &accept()).status, 200);
}

fn webhooks_carry_the_trace_of_the_caller(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let (client, receiver) = (&server.client, Receiver::start());
    client.put("/v1/workflows/gated", &gated("gated"));
    Hook::create(client, &receiver.url, json!({"events": ["run.started"], "durable": true}));
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let too_long = format!("vendor={}", "x".repeat(600));
    let body = json!({"workflowId": "gated"}).to_string();
    let sent = [
        (
            vec![("traceparent", trace), ("tracestate", "vendor=opaque, other=1")],
            Some("vendor=opaque, other=1"),
        ),
        (vec![("traceparent", trace), ("tracestate", "a=1"), ("tracestate", "b=2")], Some("a=1,b=2")),
        (vec![("traceparent", trace), ("tracestate", &too_long)], None),
        (vec![("tracestate", "vendor=opaque")], None),
    ];
    for (index, (headers, state)) in sent.iter().enumerate() {
        let made = client.exchange("POST", "/v1/runs", Some(body.as_bytes()), headers);
        assert_eq!(made.status().as_u16(), 201);
        let request = receiver.wait_for(index + 1).pop().unwrap();
        assert_eq!(request.headers.get("tracestate").map(String::as_str), *state, "{headers:?}");
        let span = &request.headers["traceparent"];
        assert_eq!(span.starts_with(&trace[..36]), headers[0].0 == "traceparent", "{span}");
        assert!(!span.contains("00f067aa0ba902b7"), "the span id is that of the run");
    }
}

#[test]
fn a_link_signed_with_a_new_secret_opens_on_another_node_at_once() {
    let database = TestDatabase::postgres();
    let (first, second) = (database.start_node("first", &[]), database.start_node("second", &[]));
    first.client.put("/v1/workflows/gated", &gated("gated"));
    let run = first.client.start_run("gated");
    let at = |server: &Server, token: &str| {
        server.client.with_key(None).get(&format!("/v1/interrupts/{token}")).status
    };
    let old = Link::mint(&first.client, &run, "gate", &json!({}));
    assert_eq!(at(&second, &old.token), 200, "the second node knows the first secret");
    assert_eq!(first.client.post("/v1/secrets:rotate", &json!({})).status, 200);
    let new = Link::mint(&first.client, &run, "gate", &json!({}));
    assert_eq!(at(&second, &new.token), 200);
    let mut forged = new.token.clone();
    forged.replace_range(forged.len() - 6.., "AAAAAA");
    assert_eq!(at(&second, &forged), 404);
}
