//! The rate limit of API keys.

use serde_json::{Value, json};

use crate::harness::Server;

#[test]
fn a_key_over_its_rate_limit_gets_retry_after_and_other_keys_pass() {
    let (server, _log) = Server::start_logging(&["--rate-limit", "1", "--rate-burst", "5"], "warn");
    let made = |scopes: Value| server.client.post("/v1/keys", &json!({"scopes": scopes})).body;
    let (busy, calm) = (made(json!(["runs:read"])), made(json!(["runs:read"])));
    let busy = server.client.with_key(busy["key"].as_str());
    // Thirty calls exceed the limit unless they take 25 seconds. The key lacks the scope of this route, but the rate
    // limit is checked first.
    let answers: Vec<_> = (0..30).map(|_| busy.exchange("POST", "/v1/runs", Some(b"{"), &[])).collect();
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status() == 429).collect();
    assert!(!refused.is_empty() && refused.len() <= 25, "{}", refused.len());
    assert!(answers[..5].iter().all(|answer| answer.status() == 403), "the burst passes the limit");
    for answer in refused {
        let body: Value = serde_json::from_str(answer.body()).unwrap();
        assert_eq!((&body["error"], &body["details"]["scope"]), (&json!("rate_limited"), &json!("key")));
        let wait_ms = body["details"]["retryAfterMs"].as_u64().unwrap();
        assert!((1..=1000).contains(&wait_ms), "{body}");
        assert_eq!(answer.headers()["retry-after"], "1");
    }
    assert_eq!(server.client.with_key(calm["key"].as_str()).get("/v1/runs").status, 200);
    assert_eq!(
        server.client.with_key(None).get("/healthz").status,
        200,
        "a request without a key has no limit"
    );
}

#[test]
fn without_a_rate_limit_no_request_is_rejected() {
    let server = Server::start();
    assert!((0..200).all(|_| server.client.get("/v1/mailbox/stats").status == 200));
}
