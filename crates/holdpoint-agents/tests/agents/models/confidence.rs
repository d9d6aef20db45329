//! Confidence of models that report none: ratings by the model itself, and probabilities of tokens.

use std::sync::Arc;

use holdpoint_agents::model::{
    ConfidenceRule, EndpointApi, EndpointModel, FinishReason, ModelError, ModelPrompt, ModelReply,
    with_confidence,
};
use holdpoint_agents::tool::ToolSpec;
use holdpoint_engine::core::agent::Usage;
use serde_json::{Value, json};

use crate::models::fake_endpoint::{
    DONE, FakeEndpoint, Turn, ask, ends, event, local, piece, prompt, text_reply,
};

fn call(index: u64, name: &str, arguments: &Value) -> String {
    let function = json!({"name": name, "arguments": arguments.to_string()});
    piece(json!({"tool_calls": [{"index": index, "id": format!("c{index}"), "function": function}]}))
}

fn rated(rating: Value) -> String {
    call(7, "report_confidence", &json!({"confidence": rating}))
}

fn ended() -> [String; 2] {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 1}});
    [ends("tool_calls") + &event(&usage), DONE.to_owned()]
}

fn turn(pieces: Vec<String>) -> Turn {
    Turn::stream(pieces.into_iter().chain(ended()))
}

async fn reply_of(
    rule: ConfidenceRule,
    turns: Vec<Turn>,
    prompt: &ModelPrompt,
) -> (Result<ModelReply, ModelError>, FakeEndpoint) {
    let endpoint = FakeEndpoint::with(turns).await;
    let model = with_confidence(Arc::new(endpoint.model()), rule).unwrap();
    (ask(model.as_ref(), prompt).await.0, endpoint)
}

async fn self_rated(turns: Vec<Turn>) -> (Result<ModelReply, ModelError>, FakeEndpoint) {
    reply_of(ConfidenceRule::SelfRated, turns, &prompt("hello")).await
}

#[tokio::test]
async fn a_reply_without_a_valid_rating_has_the_confidence_0() {
    let text = || piece(json!({"content": "It is five."}));
    for (pieces, confidence) in [
        (vec![text()], 0.0),
        (vec![text(), rated(json!("1"))], 0.0),
        (vec![text(), rated(json!(1.5))], 0.0),
        (vec![text(), rated(json!(-1))], 0.0),
        (vec![text(), rated(Value::Null)], 0.0),
        (vec![text(), rated(json!(1)), call(8, "report_confidence", &json!({"confidence": 0.2}))], 0.2),
        (vec![text(), rated(json!(0.9))], 0.9),
    ] {
        let reply = self_rated(vec![turn(pieces.clone())]).await.0.unwrap();
        assert_eq!((reply.confidence, reply.calls.len()), (Some(confidence), 0), "{pieces:?}");
        assert_eq!((reply.text.as_str(), reply.finish), ("It is five.", FinishReason::Stop));
    }
}

#[tokio::test]
async fn a_rating_is_requested_and_is_not_a_call_of_the_reply() {
    let pieces = vec![call(0, "mail", &json!({"to": "a"})), rated(json!(0.5))];
    let (reply, endpoint) = self_rated(vec![turn(pieces)]).await;
    let reply = reply.unwrap();
    assert_eq!((reply.calls.len(), reply.calls[0].name.as_str()), (1, "mail"));
    assert_eq!((reply.confidence, reply.finish), (Some(0.5), FinishReason::Calls));
    let body = endpoint.body(0);
    assert_eq!(body["tools"][0]["function"]["name"], "report_confidence");
    let instructions = body["messages"][0]["content"].as_str().unwrap();
    assert!(instructions.contains("report_confidence"), "{instructions}");
}

#[tokio::test]
async fn a_model_that_only_rates_is_called_again_for_its_reply() {
    let only_rating = || turn(vec![rated(json!(0.4))]);
    let reply = turn(vec![piece(json!({"content": "It is five."})), rated(json!(0.8))]);
    let (reply, endpoint) = self_rated(vec![only_rating(), reply]).await;
    let reply = reply.unwrap();
    assert_eq!(
        (reply.text.as_str(), reply.confidence),
        ("It is five.", Some(0.4)),
        "the lower rating counts"
    );
    assert_eq!(reply.usage, Usage { input_tokens: 20, output_tokens: 2, ..Usage::default() });
    let messages = endpoint.body(1)["messages"].clone();
    let roles: Vec<_> = messages.as_array().unwrap().iter().map(|one| one["role"].clone()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"]);
    let (reply, endpoint) = self_rated(vec![only_rating()]).await;
    assert_eq!((reply.unwrap_err().code(), endpoint.requests().len()), ("model_bad_reply", 2));
}

#[tokio::test]
async fn a_tool_with_the_name_of_the_rating_is_rejected() {
    let tool = ToolSpec {
        name: "report_confidence".to_owned(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        idempotent: true,
        primary: None,
    };
    let prompt = ModelPrompt { tools: vec![Arc::new(tool)], ..prompt("hello") };
    let (reply, endpoint) = reply_of(ConfidenceRule::SelfRated, vec![text_reply("x")], &prompt).await;
    assert_eq!((reply.unwrap_err().code(), endpoint.requests().len()), ("model_bad_request", 0));
}

/// A stream event with a text and the probabilities of its tokens.
fn probable(text: &str, probabilities: &[f64]) -> String {
    let tokens: Vec<Value> =
        probabilities.iter().map(|one| json!({"token": "x", "logprob": one.ln()})).collect();
    event(&json!({"choices": [{"index": 0, "delta": {"content": text}, "logprobs": {"content": tokens}}]}))
}

#[tokio::test]
async fn the_confidence_is_the_mean_probability_of_the_tokens() {
    let logprobs = |pieces: Vec<String>| reply_of_logprobs(turn(pieces));
    let (reply, body) = logprobs(vec![probable("It ", &[0.9, 0.4]), probable("is.", &[0.6])]).await;
    let expected = (0.9_f64 * 0.4 * 0.6).powf(1.0 / 3.0);
    assert!((reply.confidence.unwrap() - expected).abs() < 1e-9, "{reply:?}");
    assert_eq!(body["logprobs"], true);
    for (pieces, confidence) in [
        (vec![piece(json!({"content": "It is."}))], Some(0.0)),
        (vec![probable("It is.", &[])], Some(0.0)),
        (vec![probable("It is.", &[0.0])], Some(0.0)),
        (vec![call(0, "mail", &json!({}))], None),
    ] {
        assert_eq!(logprobs(pieces.clone()).await.0.confidence, confidence, "{pieces:?}");
    }
    let plain = FakeEndpoint::with([turn(vec![probable("It is.", &[0.5])])]).await;
    let reply = ask(&plain.model(), &prompt("hello")).await.0.unwrap();
    assert_eq!(reply.confidence, None, "without the rule, probabilities have no effect");
}

async fn reply_of_logprobs(turn: Turn) -> (ModelReply, Value) {
    let (reply, endpoint) = reply_of(ConfidenceRule::Logprobs, vec![turn], &prompt("hello")).await;
    (reply.unwrap(), endpoint.body(0))
}

#[tokio::test]
async fn only_chat_completions_models_report_probabilities() {
    let endpoint = FakeEndpoint::with([text_reply("x")]).await;
    for api in [EndpointApi::Messages, EndpointApi::Responses] {
        let model = Arc::new(EndpointModel::new(endpoint.settings_of(api), local()).unwrap());
        assert!(with_confidence(model.clone(), ConfidenceRule::Logprobs).is_err());
        assert!(with_confidence(model, ConfidenceRule::SelfRated).is_ok());
    }
}
