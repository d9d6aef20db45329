//! Rejected requests and their messages: credentials, parameters, times, names and cursors.

use std::io::{Read, Write};

use serde_json::{Value, json};

use crate::harness::{KEY, Server, client_with_key, gated, linear};

fn waiting(server: &Server) -> String {
    server.client.put("/v1/workflows/gated", &gated("gated"));
    server.client.start_run("gated")
}

#[test]
fn a_401_names_the_scheme_and_hides_the_reason() {
    let server = Server::start();
    let anonymous = server.client.with_key(None);
    let wrong = server.client.with_key(Some("hp_wrong"));
    let mut seen = Vec::new();
    for (client, headers) in
        [(&anonymous, &[][..]), (&wrong, &[]), (&anonymous, &[("authorization", "Basic eDp5")])]
    {
        let answer = client.exchange("GET", "/v1/runs", None, headers);
        assert_eq!(answer.status().as_u16(), 401);
        seen.push(answer.headers()["www-authenticate"].to_str().unwrap().to_owned());
    }
    assert_eq!(seen, vec!["Bearer realm=\"holdpoint\""; 3], "all causes have the same response");
    let known = server.client.exchange("GET", "/v1/runs/unknown", None, &[]);
    assert!(!known.headers().contains_key("www-authenticate"));
}

#[test]
fn two_authorization_headers_are_always_rejected() {
    let server = Server::start();
    let anonymous = server.client.with_key(None);
    let (good, bad) = (format!("Bearer {KEY}"), "Bearer hp_wrong".to_owned());
    for (first, second) in [(&good, &bad), (&bad, &good), (&good, &good)] {
        let headers = [("authorization", first.as_str()), ("authorization", second.as_str())];
        let answer = anonymous.exchange("GET", "/v1/runs", None, &headers);
        assert_eq!(answer.status().as_u16(), 400, "{}", answer.body());
        let body: Value = serde_json::from_str(answer.body()).unwrap();
        assert_eq!(
            (&body["error"], &body["details"]["field"]),
            (&json!("validation_error"), &json!("Authorization"))
        );
    }
}

#[test]
fn a_refused_parameter_is_named_and_its_value_is_not_repeated() {
    let server = Server::start();
    let run = waiting(&server);
    for (path, field) in [
        ("/v1/runs?limit=hunter2".to_owned(), "limit"),
        ("/v1/runs?limit=-1".to_owned(), "limit"),
        ("/v1/runs?limit=1&limit=2".to_owned(), "limit"),
        ("/v1/runs?cursor=garbage".to_owned(), "cursor"),
        ("/v1/runs?cursor=".to_owned(), "cursor"),
        ("/v1/interrupts?olderThanSeconds=hunter2".to_owned(), "olderThanSeconds"),
        (format!("/v1/runs/{run}/events?bufferMs=hunter2"), "bufferMs"),
        (format!("/v1/runs/{run}/events/poll?timeout=soon"), "timeout"),
        (format!("/v1/runs/{run}/debug-bundle?maxEvents=hunter2"), "maxEvents"),
        (format!("/v1/runs/{run}/debug-bundle?maxEvents=0"), "maxEvents"),
    ] {
        let refused = server.client.get(&path);
        refused.assert_envelope(400, "validation_error");
        assert_eq!(refused.body["details"]["field"], field, "{path}: {refused:?}");
        let message = refused.body["message"].as_str().unwrap();
        assert!(message.starts_with(field), "{path}: {message}");
        for word in ["hunter2", "deserialize", "digit found"] {
            assert!(!message.contains(word), "{path}: {message}");
        }
    }
}

#[test]
fn a_body_that_is_not_an_object_gets_a_plain_message() {
    let server = Server::start();
    let run = waiting(&server);
    let path = format!("/v1/runs/{run}/interrupts/gate");
    for (body, words) in [
        (&b"[]"[..], "expected an object"),
        (b"[1,2,3]", "expected an object"),
        (b"\"x\"", "expected an object"),
        (b"null", "expected an object"),
        (b"[1,", "not valid JSON"),
        (b"nonsense", "not valid JSON"),
        (b"{\"resumeValue\":", "not valid JSON"),
        (b"{}", "resumeValue"),
    ] {
        let refused = server.client.send("POST", &path, Some(body));
        refused.assert_envelope(400, "validation_error");
        let message = refused.body["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
        assert!(!message.contains("struct") && !message.contains("elements"), "{message}");
    }
}

#[test]
fn a_cursor_of_runs_must_come_from_a_previous_page() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let runs: Vec<String> = (0..3).map(|_| client.start_run("gated")).collect();
    let first = client.get("/v1/runs?limit=1").body;
    let next = first["nextCursor"].as_str().unwrap();
    assert_eq!(
        client.get(&format!("/v1/runs?limit=1&cursor={next}")).body["runs"][0]["runId"],
        json!(runs[1])
    );
    for bad in ["garbage", "zzzz", "%F4%8F%BF%BF", "0", "..", "%00"] {
        client.get(&format!("/v1/runs?cursor={bad}")).assert_envelope(400, "validation_error");
    }
    // The list contains child runs too.
    let call = json!({"workflowId": "gated", "waitForCompletion": true});
    client.put("/v1/workflows/parent", &linear("parent", &[("call", "core.subWorkflow", call)]));
    let parent = client.start_run("parent");
    let mut cursor = String::new();
    let mut seen = Vec::new();
    loop {
        let page = client.get(&format!("/v1/runs?limit=1{cursor}")).body;
        seen.push(page["runs"][0]["runId"].as_str().unwrap_or_else(|| panic!("{page}")).to_owned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert!(seen.contains(&parent));
}

#[test]
fn the_decision_time_is_the_servers_and_a_claimed_time_must_be_valid() {
    let server = Server::start();
    let run = waiting(&server);
    let client = &server.client;
    for bad in [json!("not a date"), json!(""), json!(7), json!(null), json!("2026-13-01T00:00:00Z")] {
        let refused = client.answer(&run, "gate", &json!({"action": "accept", "decidedAt": bad}));
        refused.assert_envelope(400, "validation_error");
        assert_eq!(refused.body["details"]["field"], "resumeValue.decidedAt");
    }
    let far = "2099-01-01T00:00:00Z";
    assert_eq!(client.answer(&run, "gate", &json!({"action": "accept", "decidedAt": far})).status, 200);
    let log = client.events(&run);
    let received = &log.iter().find(|event| event["type"] == "approval.received").unwrap()["payload"];
    let at = received["decidedAt"].as_str().unwrap();
    assert!(at.starts_with("20") && at < "2090", "{received}");
    let resolved = &log.iter().find(|event| event["type"] == "interrupt.resolved").unwrap()["payload"];
    assert_eq!(resolved["resumeValue"]["claimedAt"], far);
}

#[test]
fn a_blank_name_cannot_decide() {
    let server = Server::start();
    let run = waiting(&server);
    let desk = client_with_key(
        &server.client,
        &json!({"principal": "desk", "scopes": ["approvals:respond", "approvals:act-as"]}),
    );
    for member in ["decidedBy", "voter"] {
        for name in ["   ", "\u{a0}", " ann", "ann ", "\u{2003}ann"] {
            let refused = desk.answer(&run, "gate", &json!({"action": "accept", member: name}));
            refused.assert_envelope(400, "validation_error");
            assert_eq!(refused.body["details"]["field"], format!("resumeValue.{member}"));
        }
    }
    assert_eq!(desk.answer(&run, "gate", &json!({"action": "accept", "decidedBy": "ann"})).status, 200);
}

#[test]
fn a_debug_bundle_has_at_most_max_events() {
    let server = Server::start();
    let run = waiting(&server);
    let path = format!("/v1/runs/{run}/debug-bundle");
    let all = server.client.get(&path).body;
    let count = all["events"].as_array().unwrap().len();
    assert!(count > 3 && all["truncated"] == false && all.get("truncatedReason").is_none());
    let few = server.client.get(&format!("{path}?maxEvents=3")).body;
    assert_eq!((few["events"].as_array().unwrap().len(), &few["metrics"]["eventCount"]), (3, &json!(3)));
    assert_eq!((&few["truncated"], &few["truncatedReason"]), (&json!(true), &json!("maxEvents")));
    assert_eq!(few["events"][2], all["events"][2], "the first events");
    let more = server.client.get(&format!("{path}?maxEvents=1000000")).body;
    assert_eq!(more["events"].as_array().unwrap().len(), count);
}

#[test]
fn a_delay_accepts_ms_or_duration_ms() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/nap", &linear("nap", &[("nap", "core.delay", json!({"durationMs": 1}))]));
    let run = client.start_run("nap");
    assert_eq!(client.wait_for_end(&run).last().unwrap()["type"], "run.completed");
    for (config, field) in [
        (json!({"durationMs": "1"}), "config.durationMs"),
        (json!({"ms": 1, "durationMs": 1}), "config.durationMs"),
        (json!({}), "config.ms"),
    ] {
        let refused = client.put("/v1/workflows/nap", &linear("nap", &[("nap", "core.delay", config)]));
        refused.assert_envelope(400, "validation_error");
        assert_eq!(refused.body["details"]["flaws"][0]["field"], field);
    }
    let mut wired = linear("wired", &[("nap", "core.delay", json!({}))]);
    wired["variables"] = json!([{"name": "pause", "type": "number"}]);
    wired["nodes"][0]["inputs"] = json!({"durationMs": {"type": "variable", "variableName": "pause"}});
    assert_eq!(client.put("/v1/workflows/wired", &wired).status, 201);
    let created = client.post("/v1/runs", &json!({"workflowId": "wired", "inputs": {"pause": 1}}));
    let run = created.body["runId"].as_str().unwrap();
    let log = client.wait_for_end(run);
    assert!(log.iter().any(|event| event["type"] == "holdpoint.sleep.started"), "{log:?}");
    assert_eq!(log.last().unwrap()["type"], "run.completed");
}

/// The HTTP library itself responds to invalid HTTP, without a body. The status must not be a success.
#[test]
fn invalid_http_is_rejected_and_the_connection_is_closed() {
    let server = Server::start();
    let address = server.url.trim_start_matches("http://");
    for (request, status) in [
        (format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "x".repeat(70_000)), "414"),
        (
            "POST /v1/runs HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}"
                .to_owned(),
            "400",
        ),
    ] {
        let mut connection = std::net::TcpStream::connect(address).unwrap();
        connection.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{text}");
    }
}
