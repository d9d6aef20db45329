//! Retries of temporary failures, within the time limit of a reply.

use std::time::{Duration, Instant};

use holdpoint_agents::model::{EndpointApi, EndpointModel, EndpointSettings, ModelError, ReplyDelta};
use serde_json::json;

use crate::models::fake_endpoint::{FakeEndpoint, Turn, ask, ends, local, piece, prompt, text_reply};

fn error_turn(status: u16, headers: &[(&str, &str)]) -> Turn {
    Turn::answer(status, headers, [json!({"error": {"message": "Not now"}}).to_string()])
}

fn with(endpoint: &FakeEndpoint, change: impl FnOnce(&mut EndpointSettings)) -> EndpointModel {
    let mut settings = endpoint.settings();
    change(&mut settings);
    EndpointModel::new(settings, local()).unwrap()
}

#[tokio::test]
async fn temporary_failures_are_retried() {
    let table = [
        ("429", vec![error_turn(429, &[]), text_reply("Back.")]),
        ("500 twice", vec![error_turn(500, &[]), error_turn(503, &[]), text_reply("Back.")]),
        ("no answer", vec![Turn::answer(200, &[], [""; 0]).cut(), text_reply("Back.")]),
        ("malformed", vec![Turn::stream(["data: {\n\n"]), text_reply("Back.")]),
        ("an error in a stream", vec![Turn::stream(["data: {\"error\": \"x\"}\n\n"]), text_reply("Back.")]),
    ];
    for (what, turns) in table {
        let attempts = turns.len();
        let endpoint = FakeEndpoint::with(turns).await;
        let (reply, deltas) = ask(&endpoint.model(), &prompt("hello")).await;
        assert_eq!(reply.unwrap().text, "Back.", "{what}");
        assert_eq!(endpoint.requests().len(), attempts, "{what}");
        assert_eq!(deltas, [ReplyDelta::Text("Back.".to_owned())], "{what}");
    }
}

#[tokio::test]
async fn a_call_fails_after_the_configured_number_of_retries() {
    for (retries, attempts) in [(0, 1), (1, 2), (2, 3), (5, 6)] {
        let endpoint = FakeEndpoint::with([error_turn(500, &[])]).await;
        let (reply, _) = ask(&with(&endpoint, |settings| settings.retries = retries), &prompt("hello")).await;
        let message = "Not now (status 500)".to_owned();
        assert_eq!(reply, Err(ModelError::Unavailable { message, retry_after_ms: None }));
        assert_eq!(endpoint.requests().len(), attempts);
    }
    let defaults = EndpointSettings::new(EndpointApi::ChatCompletions, "m", "https://example.com");
    assert_eq!((defaults.retries, defaults.timeout_ms), (2, 120_000));
}

#[tokio::test]
async fn permanent_failures_are_not_retried() {
    let quota = json!({"error": {"message": "Pay first", "code": "insufficient_quota"}});
    let overflow = json!({"error": {"message": "Too long", "code": "context_length_exceeded"}});
    let refused = Turn::stream([piece(json!({"refusal": "No."})), ends("stop")]);
    for turn in [
        error_turn(401, &[]),
        error_turn(400, &[]),
        Turn::json(400, &overflow),
        Turn::json(429, &quota),
        refused,
        Turn::stream([piece(json!({"content": "x"})), ends("content_filter")]),
    ] {
        let endpoint = FakeEndpoint::with([turn.clone()]).await;
        let (reply, deltas) = ask(&endpoint.model(), &prompt("hello")).await;
        assert!(reply.is_err(), "{turn:?}");
        assert_eq!(endpoint.requests().len(), 1, "{turn:?}");
        assert!(!deltas.contains(&ReplyDelta::Restarted));
    }
}

#[tokio::test]
async fn a_retry_after_a_partial_reply_sends_a_restart_delta() {
    let broken = Turn::stream([piece(json!({"content": "It is f"}))]).cut();
    let endpoint = FakeEndpoint::with([broken, error_turn(500, &[]), text_reply("It is five.")]).await;
    let (reply, deltas) = ask(&endpoint.model(), &prompt("hello")).await;
    assert_eq!(reply.unwrap().text, "It is five.", "the text of the broken attempt is discarded");
    let text = |text: &str| ReplyDelta::Text(text.to_owned());
    assert_eq!(deltas, [text("It is f"), ReplyDelta::Restarted, text("It is five.")]);
}

#[tokio::test]
async fn a_retry_waits_for_the_delay_that_the_server_requests() {
    let endpoint =
        FakeEndpoint::with([error_turn(429, &[("Retry-After-Ms", "80")]), text_reply("Back.")]).await;
    let began = Instant::now();
    assert!(ask(&endpoint.model(), &prompt("hello")).await.0.is_ok());
    assert!(began.elapsed() >= Duration::from_millis(80), "{:?}", began.elapsed());
    assert_eq!(endpoint.requests().len(), 2);
}

#[tokio::test]
async fn a_requested_delay_over_the_limit_is_returned_instead_of_waited_for() {
    // The first delay exceeds the maximum wait, the second the time limit of the reply.
    for (seconds, timeout_ms) in [("31", 120_000), ("2", 1500)] {
        let endpoint =
            FakeEndpoint::with([error_turn(429, &[("retry-after", seconds)]), text_reply("Back.")]).await;
        let model = with(&endpoint, |settings| settings.timeout_ms = timeout_ms);
        let (reply, _) = ask(&model, &prompt("hello")).await;
        let delay_ms = seconds.parse::<u64>().unwrap() * 1000;
        let Err(ModelError::Unavailable { retry_after_ms, .. }) = reply else { panic!("{reply:?}") };
        assert_eq!((retry_after_ms, endpoint.requests().len()), (Some(delay_ms), 1));
    }
}

#[tokio::test]
async fn attempts_and_delays_share_the_time_limit_of_a_reply() {
    let endpoint = FakeEndpoint::with([error_turn(500, &[]), Turn::answer(200, &[], [""; 0]).silent()]).await;
    let model = with(&endpoint, |settings| settings.timeout_ms = 700);
    let (reply, _) = ask(&model, &prompt("hello")).await;
    assert_eq!(reply, Err(ModelError::TimedOut(700)));
    assert_eq!(endpoint.requests().len(), 2);
    let endpoint = FakeEndpoint::with([error_turn(500, &[])]).await;
    let model = with(&endpoint, |settings| {
        (settings.timeout_ms, settings.retry_base_ms) = (5000, 60_000);
    });
    let began = Instant::now();
    assert_eq!(ask(&model, &prompt("hello")).await.0.unwrap_err().code(), "model_unavailable");
    assert!(began.elapsed() < Duration::from_secs(4), "the delay exceeds the time limit and is skipped");
}

#[tokio::test]
async fn a_call_is_retried_after_the_idle_timeout() {
    let silent = Turn::stream([piece(json!({"content": "It"}))]).silent();
    let endpoint = FakeEndpoint::with([silent, text_reply("Here.")]).await;
    let model = with(&endpoint, |settings| settings.idle_timeout_ms = 300);
    assert_eq!(ask(&model, &prompt("hello")).await.0.unwrap().text, "Here.");
}
