//! What may pass is tried again, within the time that a reply has.

use std::time::{Duration, Instant};

use holdpoint_engine::agent::model::{Delta, ModelError, OpenAi, Settings};
use serde_json::json;

use crate::stand_in::{StandIn, Turn, ask, ends, local, piece, prompt, says};

fn unwell(status: u16, headers: &[(&str, &str)]) -> Turn {
    Turn::answer(status, headers, [json!({"error": {"message": "Not now"}}).to_string()])
}

fn with(stand_in: &StandIn, change: impl FnOnce(&mut Settings)) -> OpenAi {
    let mut settings = stand_in.settings();
    change(&mut settings);
    OpenAi::new(settings, local()).unwrap()
}

#[tokio::test]
async fn what_passes_is_waited_out() {
    let table = [
        ("429", vec![unwell(429, &[]), says("Back.")]),
        ("500 twice", vec![unwell(500, &[]), unwell(503, &[]), says("Back.")]),
        ("no answer", vec![Turn::answer(200, &[], [""; 0]).cut(), says("Back.")]),
        ("malformed", vec![Turn::stream(["data: {\n\n"]), says("Back.")]),
        ("an error in a stream", vec![Turn::stream(["data: {\"error\": \"x\"}\n\n"]), says("Back.")]),
    ];
    for (what, turns) in table {
        let attempts = turns.len();
        let stand_in = StandIn::with(turns).await;
        let (reply, heard) = ask(&stand_in.model(), &prompt("hello")).await;
        assert_eq!(reply.unwrap().text, "Back.", "{what}");
        assert_eq!(stand_in.heard().len(), attempts, "{what}");
        assert_eq!(heard, [Delta::Text("Back.".to_owned())], "{what}");
    }
}

#[tokio::test]
async fn what_does_not_pass_is_given_up_after_as_many_attempts_as_were_chosen() {
    for (retries, attempts) in [(0, 1), (1, 2), (2, 3), (5, 6)] {
        let stand_in = StandIn::with([unwell(500, &[])]).await;
        let (reply, _) = ask(&with(&stand_in, |settings| settings.retries = retries), &prompt("hello")).await;
        let message = "Not now (status 500)".to_owned();
        assert_eq!(reply, Err(ModelError::Unavailable { message, retry_after_ms: None }));
        assert_eq!(stand_in.heard().len(), attempts);
    }
    let defaults = Settings::new("m", "https://example.com");
    assert_eq!((defaults.retries, defaults.timeout_ms), (2, 120_000));
}

#[tokio::test]
async fn what_no_other_try_can_change_is_not_tried_again() {
    let quota = json!({"error": {"message": "Pay first", "code": "insufficient_quota"}});
    let overflow = json!({"error": {"message": "Too long", "code": "context_length_exceeded"}});
    let refused = Turn::stream([piece(json!({"refusal": "No."})), ends("stop")]);
    for turn in [
        unwell(401, &[]),
        unwell(400, &[]),
        Turn::json(400, &overflow),
        Turn::json(429, &quota),
        refused,
        Turn::stream([piece(json!({"content": "x"})), ends("content_filter")]),
    ] {
        let stand_in = StandIn::with([turn.clone()]).await;
        let (reply, heard) = ask(&stand_in.model(), &prompt("hello")).await;
        assert!(reply.is_err(), "{turn:?}");
        assert_eq!(stand_in.heard().len(), 1, "{turn:?}");
        assert!(!heard.contains(&Delta::Restarted));
    }
}

#[tokio::test]
async fn whoever_listened_is_told_that_a_reply_begins_again() {
    let broken = Turn::stream([piece(json!({"content": "It is f"}))]).cut();
    let stand_in = StandIn::with([broken, unwell(500, &[]), says("It is five.")]).await;
    let (reply, heard) = ask(&stand_in.model(), &prompt("hello")).await;
    assert_eq!(reply.unwrap().text, "It is five.", "nothing of the broken one is left");
    let text = |text: &str| Delta::Text(text.to_owned());
    assert_eq!(heard, [text("It is f"), Delta::Restarted, text("It is five.")]);
}

#[tokio::test]
async fn a_server_is_left_alone_for_as_long_as_it_asks() {
    let stand_in = StandIn::with([unwell(429, &[("Retry-After-Ms", "80")]), says("Back.")]).await;
    let began = Instant::now();
    assert!(ask(&stand_in.model(), &prompt("hello")).await.0.is_ok());
    assert!(began.elapsed() >= Duration::from_millis(80), "{:?}", began.elapsed());
    assert_eq!(stand_in.heard().len(), 2);
}

#[tokio::test]
async fn a_server_that_asks_for_too_much_is_left_to_whoever_carries_on_later() {
    // More than we ever wait, and more than this reply has time for.
    for (seconds, timeout_ms) in [("31", 120_000), ("2", 1500)] {
        let stand_in = StandIn::with([unwell(429, &[("retry-after", seconds)]), says("Back.")]).await;
        let model = with(&stand_in, |settings| settings.timeout_ms = timeout_ms);
        let (reply, _) = ask(&model, &prompt("hello")).await;
        let asked = seconds.parse::<u64>().unwrap() * 1000;
        let Err(ModelError::Unavailable { retry_after_ms, .. }) = reply else { panic!("{reply:?}") };
        assert_eq!((retry_after_ms, stand_in.heard().len()), (Some(asked), 1));
    }
}

#[tokio::test]
async fn attempts_and_waits_share_the_time_of_a_reply() {
    let stand_in = StandIn::with([unwell(500, &[]), Turn::answer(200, &[], [""; 0]).silent()]).await;
    let model = with(&stand_in, |settings| settings.timeout_ms = 700);
    let (reply, _) = ask(&model, &prompt("hello")).await;
    assert_eq!(reply, Err(ModelError::TimedOut(700)));
    assert_eq!(stand_in.heard().len(), 2);
    let stand_in = StandIn::with([unwell(500, &[])]).await;
    let model = with(&stand_in, |settings| {
        (settings.timeout_ms, settings.retry_base_ms) = (5000, 60_000);
    });
    let began = Instant::now();
    assert_eq!(ask(&model, &prompt("hello")).await.0.unwrap_err().code(), "model_unavailable");
    assert!(began.elapsed() < Duration::from_secs(4), "there was no time for the wait");
}

#[tokio::test]
async fn a_silent_model_is_asked_again() {
    let silent = Turn::stream([piece(json!({"content": "It"}))]).silent();
    let stand_in = StandIn::with([silent, says("Here.")]).await;
    let model = with(&stand_in, |settings| settings.idle_timeout_ms = 300);
    assert_eq!(ask(&model, &prompt("hello")).await.0.unwrap().text, "Here.");
}
