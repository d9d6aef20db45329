//! Fallbacks: other models that are called while a model is not available.

use std::sync::Arc;

use holdpoint_agents::model::{
    EndpointApi, EndpointModel, Model, ModelError, ModelReply, ReplyDelta, with_fallbacks,
};
use serde_json::{Value, json};

use crate::models::fake_endpoint::{FakeEndpoint, Turn, ask, ends, local, piece, prompt, text_reply};

fn error_turn(status: u16) -> Turn {
    Turn::json(status, &json!({"error": {"message": "Not now"}}))
}

/// Calls a model with these fallbacks, each without retries. Returns the reply, the deltas, and the number of requests
/// to each endpoint.
async fn reply_of(turns: Vec<Turn>) -> (Result<ModelReply, ModelError>, Vec<ReplyDelta>, Vec<usize>) {
    let mut endpoints = Vec::new();
    for turn in turns {
        endpoints.push(FakeEndpoint::with([turn]).await);
    }
    let models = endpoints.iter().map(|endpoint| {
        let mut settings = endpoint.settings_of(EndpointApi::ChatCompletions);
        settings.retries = 0;
        Arc::new(EndpointModel::new(settings, local()).unwrap()) as Arc<dyn Model>
    });
    let mut models = models.collect::<Vec<_>>().into_iter();
    let model = with_fallbacks(models.next().unwrap(), models.collect());
    let (reply, deltas) = ask(model.as_ref(), &prompt("hello")).await;
    (reply, deltas, endpoints.iter().map(|endpoint| endpoint.requests().len()).collect())
}

#[tokio::test]
async fn no_fallback_is_called_after_an_invalid_request_a_refusal_or_a_rejected_key() {
    let overflow = json!({"error": {"message": "Too long", "code": "context_length_exceeded"}});
    let filtered = Turn::stream([piece(json!({"content": "x"})), ends("content_filter")]);
    for (turn, code) in [
        (error_turn(400), "model_bad_request"),
        (error_turn(404), "model_bad_request"),
        (error_turn(422), "model_bad_request"),
        (error_turn(401), "model_unauthorized"),
        (Turn::json(400, &overflow), "context_overflow"),
        (filtered, "model_refused"),
        (Turn::stream(["data: {\n\n"]), "model_bad_reply"),
    ] {
        let (reply, deltas, requests) = reply_of(vec![turn, text_reply("Fallback.")]).await;
        assert_eq!((reply.unwrap_err().code(), requests), (code, vec![1, 0]));
        assert!(!deltas.contains(&ReplyDelta::Restarted));
    }
}

#[tokio::test]
async fn fallbacks_are_called_in_order_while_models_are_not_available() {
    let quota = json!({"error": {"message": "Pay first", "code": "insufficient_quota"}});
    for turn in [error_turn(503), error_turn(429), Turn::json(429, &quota)] {
        let turns = vec![turn, error_turn(500), text_reply("Third."), text_reply("Fourth.")];
        let (reply, deltas, requests) = reply_of(turns).await;
        assert_eq!((reply.unwrap().text.as_str(), requests), ("Third.", vec![1, 1, 1, 0]));
        assert_eq!(deltas, [ReplyDelta::Text("Third.".to_owned())]);
    }
    let (reply, _, requests) = reply_of(vec![text_reply("First."), text_reply("Second.")]).await;
    assert_eq!((reply.unwrap().text.as_str(), requests), ("First.", vec![1, 0]));
}

#[tokio::test]
async fn a_fallback_is_called_after_the_retries_of_the_model() {
    let endpoint = FakeEndpoint::with([error_turn(500)]).await;
    let backup = FakeEndpoint::with([text_reply("Backup.")]).await;
    let model = with_fallbacks(Arc::new(endpoint.model()), vec![Arc::new(backup.model())]);
    assert_eq!(ask(model.as_ref(), &prompt("hello")).await.0.unwrap().text, "Backup.");
    assert_eq!((endpoint.requests().len(), backup.requests().len()), (3, 1));
}

#[tokio::test]
async fn parts_of_a_reply_are_discarded_before_a_fallback_replies() {
    let broken =
        || Turn::stream([piece(json!({"content": "It is f"})), "data: {\"error\": \"x\"}\n\n".to_owned()]);
    let (reply, deltas, _) = reply_of(vec![broken(), broken(), text_reply("It is five.")]).await;
    assert_eq!(reply.unwrap().text, "It is five.");
    let text = |text: &str| ReplyDelta::Text(text.to_owned());
    let restarted = || ReplyDelta::Restarted;
    let expected = [text("It is f"), restarted(), text("It is f"), restarted(), text("It is five.")];
    assert_eq!(deltas, expected);
}

#[tokio::test]
async fn the_error_of_the_first_model_counts_if_no_fallback_replies() {
    let first = || Turn::json(503, &json!({"error": "first"}));
    for other in [error_turn(500), error_turn(401), error_turn(400)] {
        let (reply, _, requests) = reply_of(vec![first(), other]).await;
        let Err(ModelError::Unavailable { message, .. }) = reply else { panic!("{reply:?}") };
        assert_eq!((message.as_str(), requests), ("first (status 503)", vec![1, 1]));
    }
    let refusal = |text: &str| Turn::stream([piece(json!({"refusal": text})), ends("stop")]);
    let (reply, _, requests) = reply_of(vec![first(), refusal("No."), text_reply("Yes.")]).await;
    assert_eq!(reply, Err(ModelError::Refused("No.".to_owned())), "no other model overrules a refusal");
    assert_eq!(requests, [1, 1, 0]);
}

#[test]
fn an_attachment_must_be_accepted_by_every_model() {
    let model = |api| {
        let settings = holdpoint_agents::model::EndpointSettings::new(api, "m", "http://127.0.0.1:1/v1");
        Arc::new(EndpointModel::new(settings, local()).unwrap()) as Arc<dyn Model>
    };
    let part = |media_type: &str| -> Value {
        json!([{"type": "binary", "mimeType": media_type, "data": "iVBORw0KGgoA"}])
    };
    let both = with_fallbacks(model(EndpointApi::ChatCompletions), vec![model(EndpointApi::Messages)]);
    assert_eq!(both.check_content(&part("image/png")), Ok(()));
    assert!(both.check_content(&part("audio/wav")).is_err());
    assert!(!both.reports_token_probabilities() && !both.is_instant());
}
