//! Failures of endpoints and their error codes.

use holdpoint_agents::model::{EndpointModel, ModelError};
use holdpoint_engine::outgoing::{Outgoing, OutgoingPolicy};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::models::fake_endpoint::{
    DONE, FakeEndpoint, Turn, ask, ends, event, local, piece, prompt, text_reply,
};

/// Returns the error of one attempt.
async fn failure_of(turn: Turn) -> ModelError {
    let endpoint = FakeEndpoint::with([turn]).await;
    let mut settings = endpoint.settings();
    settings.retries = 0;
    let (reply, _) = ask(&EndpointModel::new(settings, local()).unwrap(), &prompt("hello")).await;
    reply.unwrap_err()
}

fn error(message: &str, code: Value, kind: &str) -> Value {
    json!({"error": {"message": message, "code": code, "type": kind}})
}

#[tokio::test]
async fn statuses_and_error_bodies_map_to_distinct_error_codes() {
    let overflow = "This model's maximum context length is 8192 tokens. Please reduce the length.";
    let none = Value::Null;
    let table = [
        (401, error("Incorrect key", json!("invalid_api_key"), "x"), "model_unauthorized"),
        (403, error("Not in your region", none.clone(), "x"), "model_unauthorized"),
        (429, error("Slow down", json!("rate_limit_exceeded"), "x"), "model_unavailable"),
        (408, json!({}), "model_unavailable"),
        (500, error("Oops", none.clone(), "server_error"), "model_unavailable"),
        (503, json!("no JSON object"), "model_unavailable"),
        (529, error("Overloaded", none.clone(), "overloaded_error"), "model_unavailable"),
        (400, error("Too long", json!("context_length_exceeded"), "x"), "context_overflow"),
        (400, error(overflow, json!(400), "BadRequestError"), "context_overflow"),
        (400, json!({"object": "error", "message": overflow, "code": 400}), "context_overflow"),
        (
            400,
            error("the request exceeds the available context size", json!(400), "exceed_context_size_error"),
            "context_overflow",
        ),
        (413, error("prompt is too long: 9 tokens > 8 maximum", none.clone(), "x"), "context_overflow"),
        (422, json!({"detail": "Input is too long for this model"}), "context_overflow"),
        (400, error("Filtered", json!("content_filter"), "x"), "model_refused"),
        (400, error("Policy", json!("content_policy_violation"), "x"), "model_refused"),
        (400, error("No such member", json!("invalid_request_error"), "x"), "model_bad_request"),
        (404, json!({"error": "model 'small' not found"}), "model_bad_request"),
        (301, json!({}), "model_bad_request"),
    ];
    for (status, body, code) in table {
        let failed = failure_of(Turn::json(status, &body)).await;
        assert_eq!(failed.code(), code, "{status} {body}: {failed:?}");
        assert!(failed.to_string().contains(&format!("status {status}")), "{failed}");
    }
    let html = failure_of(Turn::answer(502, &[], ["<html>Bad\u{0} Gateway</html>"])).await;
    assert!(html.to_string().contains("<html>Bad  Gateway</html> (status 502)"), "{html}");
}

#[tokio::test]
async fn the_message_of_a_server_is_passed_on_up_to_a_limit() {
    let failed = failure_of(Turn::json(404, &json!({"error": "model 'small' not found"}))).await;
    assert_eq!(failed, ModelError::BadRequest("model 'small' not found (status 404)".to_owned()));
    let endless = "x".repeat(1_000_000);
    let failed = failure_of(Turn::answer(400, &[], [endless])).await;
    assert!(failed.to_string().len() < 600, "{}", failed.to_string().len());
}

#[tokio::test]
async fn refusals_and_content_filters_are_reported_as_refused() {
    let refused = Turn::stream([
        piece(json!({"refusal": "I cannot "})),
        piece(json!({"refusal": "do that."})),
        ends("stop"),
        DONE.to_owned(),
    ]);
    assert_eq!(failure_of(refused).await, ModelError::Refused("I cannot do that.".to_owned()));
    let filtered =
        Turn::stream([piece(json!({"content": "First, "})), ends("content_filter"), DONE.to_owned()]);
    assert_eq!(failure_of(filtered).await.code(), "model_refused");
    let message = json!({"role": "assistant", "content": null, "refusal": "No."});
    let document = json!({"choices": [{"message": message, "finish_reason": "stop"}]});
    assert_eq!(failure_of(Turn::json(200, &document)).await, ModelError::Refused("No.".to_owned()));
}

#[tokio::test]
async fn incomplete_and_malformed_replies_are_reported_as_bad_replies() {
    let begins = || piece(json!({"content": "First, "}));
    let nameless = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"arguments": "{}"}}]});
    let table = [
        ("cut in the middle", Turn::stream([begins()]).cut()),
        ("cut within an event", Turn::stream([begins(), "data: {\"choices\": [".to_owned()]).cut()),
        ("ended in the middle", Turn::stream([begins()])),
        ("ended within an event", Turn::stream([begins() + "data: {\"choices\": ["])),
        ("nothing at all", Turn::stream([""; 0])),
        ("malformed", Turn::stream([begins(), "data: {oops}\n\n".to_owned(), ends("stop")])),
        (
            "not UTF-8",
            Turn::stream([&b"data: {\"choices\": [{\"delta\": {\"content\": \"\xff\"}}]}\n\n"[..]]),
        ),
        ("of another form", Turn::stream(["data: {\"choices\": 7}\n\n"])),
        ("a page", Turn::answer(200, &[("content-type", "text/html")], ["<html>Welcome</html>"])),
        ("a document that is cut", Turn::answer(200, &[], ["{\"choices\": ["])),
        ("a document without a choice", Turn::json(200, &json!({"object": "list", "data": []}))),
        ("a call without a name", Turn::stream([piece(nameless), ends("tool_calls"), DONE.to_owned()])),
    ];
    for (what, turn) in table {
        let failed = failure_of(turn).await;
        assert!(matches!(failed, ModelError::BadReply(_)), "{what}: {failed:?}");
    }
}

#[tokio::test]
async fn an_error_event_in_a_stream_fails_the_reply() {
    for (body, code) in [
        (error("Provider went away", json!(502), "x"), "model_unavailable"),
        (error("Slow down", json!(429), "x"), "model_unavailable"),
        (error("Unknown", Value::Null, "server_error"), "model_unavailable"),
        (error("Too long", json!("context_length_exceeded"), "x"), "context_overflow"),
        (error("Bad", json!(400), "x"), "model_bad_request"),
    ] {
        let failed = failure_of(Turn::stream([piece(json!({"content": "Fir"})), event(&body)])).await;
        assert_eq!(failed.code(), code, "{body}: {failed:?}");
        assert_eq!(failure_of(Turn::json(200, &body)).await.code(), code, "as a document: {body}");
    }
}

#[tokio::test]
async fn the_idle_time_and_the_total_time_of_a_reply_are_limited() {
    let slow = || Turn::stream([piece(json!({"content": "First, "}))]).silent();
    for (timeout_ms, idle_timeout_ms, limit_ms) in [(60_000, 300, 300), (400, 60_000, 400)] {
        let endpoint = FakeEndpoint::with([slow()]).await;
        let mut settings = endpoint.settings();
        (settings.timeout_ms, settings.idle_timeout_ms) = (timeout_ms, idle_timeout_ms);
        settings.retries = 0;
        let (reply, deltas) = ask(&EndpointModel::new(settings, local()).unwrap(), &prompt("hello")).await;
        assert_eq!(reply, Err(ModelError::TimedOut(limit_ms)));
        assert_eq!(deltas.len(), 1, "the first piece was delivered");
    }
}

#[tokio::test]
async fn a_reply_over_the_size_limit_fails_and_is_not_retried() {
    let part = piece(json!({"content": "x".repeat(1000)}));
    let refusal = piece(json!({"refusal": "x".repeat(1000)}));
    let call = |n: usize| json!({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "x".repeat(n)}}]});
    let many: Vec<Value> =
        (0..200).map(|n| json!({"index": n, "function": {"name": "f", "arguments": ""}})).collect();
    let document =
        json!({"choices": [{"message": {"content": "x".repeat(20_000)}, "finish_reason": "stop"}]});
    let table = [
        ("text", Turn::stream(vec![part; 20])),
        ("refusals", Turn::stream(vec![refusal; 20])),
        ("arguments", Turn::stream(vec![piece(call(1000)); 20])),
        ("calls", Turn::stream([piece(json!({"tool_calls": many}))])),
        ("a line", Turn::stream(vec!["x".repeat(10_000); 100])),
        ("comments", Turn::stream(vec![format!(":{}\n", "x".repeat(10_000)); 200])),
        ("a document", Turn::json(200, &document)),
    ];
    for (what, turn) in table {
        let endpoint = FakeEndpoint::with([turn]).await;
        let mut settings = endpoint.settings();
        settings.reply_bytes_max = 10_000;
        let (reply, _) = ask(&EndpointModel::new(settings, local()).unwrap(), &prompt("hello")).await;
        assert!(matches!(reply, Err(ModelError::BadReply(_))), "{what}: {reply:?}");
        assert_eq!(endpoint.requests().len(), 1, "{what}");
    }
}

#[tokio::test]
async fn an_unreachable_endpoint_is_reported_as_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let settings = FakeEndpoint::with([text_reply("x")]).await.settings();
    drop(listener);
    let settings =
        holdpoint_agents::model::EndpointSettings { base_url: format!("http://{address}/v1"), ..settings };
    let (reply, _) = ask(&EndpointModel::new(settings, local()).unwrap(), &prompt("hello")).await;
    assert!(matches!(reply, Err(ModelError::Unavailable { .. })), "{reply:?}");
}

#[tokio::test]
async fn only_an_operator_can_allow_private_addresses_for_models() {
    let endpoint = FakeEndpoint::with([text_reply("x")]).await;
    for outgoing in [
        Outgoing::new(OutgoingPolicy::default()),
        Outgoing::new(OutgoingPolicy {
            allow: vec!["127.0.0.0/8".parse().unwrap()],
            ..OutgoingPolicy::default()
        }),
        Outgoing::new(OutgoingPolicy::for_operator_networks(vec!["10.0.0.0/8".parse().unwrap()])),
    ] {
        let flaw = EndpointModel::new(endpoint.settings(), outgoing).unwrap_err();
        assert_eq!(flaw.field, "baseUrl", "{flaw}");
    }
    assert_eq!(ask(&endpoint.model(), &prompt("hello")).await.0.unwrap().text, "x");
}
