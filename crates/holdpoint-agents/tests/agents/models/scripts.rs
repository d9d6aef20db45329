//! Scripted models.

use std::sync::Arc;

use holdpoint_agents::model::{
    FinishReason, Model, ModelError, ModelPrompt, ModelReply, ReplyDelta, ScriptedModel, from_definition,
};
use holdpoint_engine::core::agent::{CallRequest, Message, Role, Usage};
use serde_json::{Value, json};

use crate::models::fake_endpoint::{ask, local, prompt};

fn script(steps: Value) -> ScriptedModel {
    ScriptedModel::parse(&json!({"provider": "scripted", "steps": steps}), None).unwrap()
}

async fn reply_of(model: &ScriptedModel, prompt: &ModelPrompt) -> ModelReply {
    ask(model, prompt).await.0.unwrap()
}

fn user(text: &str) -> Message {
    Message::new("u", Role::User, text)
}

fn tool_call(name: &str) -> Message {
    let call = CallRequest { id: "c".to_owned(), name: name.to_owned(), arguments: json!({}) };
    Message { calls: vec![call], ..Message::new("a", Role::Assistant, "") }
}

fn result(content: impl Into<Value>) -> Message {
    Message { call_id: Some("c".to_owned()), ..Message::new("r", Role::Tool, content) }
}

fn at(step: u32, messages: impl IntoIterator<Item = Message>) -> ModelPrompt {
    ModelPrompt { step, messages: messages.into_iter().map(Arc::new).collect(), ..prompt("") }
}

#[tokio::test]
async fn steps_are_selected_by_number_and_later_steps_reply_done() {
    let model = script(json!([
        {"text": "First I look.", "calls": [{"name": "look", "arguments": {"n": 1}}, {"id": "x", "name": "see"}]},
        {"text": "Seen.", "confidence": 0.4, "usage": {"inputTokens": 3, "outputTokens": 4}},
    ]));
    let (reply, deltas) = ask(&model, &at(0, [user("Go.")])).await;
    let call =
        |id: &str, name: &str, arguments| CallRequest { id: id.to_owned(), name: name.to_owned(), arguments };
    let expected = ModelReply {
        text: "First I look.".to_owned(),
        calls: vec![call("", "look", json!({"n": 1})), call("x", "see", json!({}))],
        model: "scripted".to_owned(),
        finish: FinishReason::Calls,
        ..ModelReply::default()
    };
    assert_eq!(reply.unwrap(), expected);
    let text = |text: &str| ReplyDelta::Text(text.to_owned());
    assert_eq!(deltas[..3], [text("First "), text("I "), text("look.")]);
    let (id, name) = (Some("x".to_owned()), Some("see".to_owned()));
    assert_eq!(deltas[4], ReplyDelta::Call { index: 1, id, name, arguments: "{}".to_owned() });
    let second = reply_of(&model, &at(1, [user("Go.")])).await;
    assert_eq!((second.confidence, second.finish), (Some(0.4), FinishReason::Stop));
    assert_eq!(second.usage, Usage { input_tokens: 3, output_tokens: 4, ..Usage::default() });
    for step in [2, 3, u32::MAX] {
        assert_eq!(reply_of(&model, &at(step, [user("Go.")])).await.text, "Done.");
    }
}

#[tokio::test]
async fn the_first_alternative_whose_condition_holds_is_used() {
    let model = script(json!([
        [
            {"if": {"userSays": "refund"}, "calls": [{"name": "refund"}]},
            {"if": {"userSays": "hello"}, "text": "Hello!"},
            {"text": "What?"},
        ],
        [
            {"if": {"lastToolResultContains": "denied", "userSays": "please"}, "text": "Sorry, really."},
            {"if": {"lastToolResultContains": "denied"}, "text": "Sorry."},
        ],
    ]));
    for (text, expected) in
        [("A REFUND please", ""), ("hello, refund", ""), ("Hello", "Hello!"), ("Hm", "What?")]
    {
        assert_eq!(reply_of(&model, &at(0, [user(text)])).await.text, expected, "{text}");
    }
    for (text, content, expected) in [
        ("refund", json!("it was Denied"), "Sorry."),
        ("refund, please", json!({"error": "denied"}), "Sorry, really."),
        ("refund", json!("paid"), "Done."),
    ] {
        let prompt = at(1, [user(text), tool_call("refund"), result(content)]);
        assert_eq!(reply_of(&model, &prompt).await.text, expected);
    }
}

#[tokio::test]
async fn a_script_does_not_see_earlier_runs_of_a_thread() {
    let model = script(json!([
        [{"if": {"lastToolResultContains": "paid"}, "text": "Wrong."}, {"text": "[{{lastResult}}] [{{calls}}]"}],
        {"text": "[{{lastResult}}] [{{calls}}]"},
    ]));
    let earlier =
        || [user("First"), tool_call("pay"), result("paid"), Message::new("a", Role::Assistant, "Paid.")];
    let first = at(0, earlier().into_iter().chain([user("Second")]));
    assert_eq!(reply_of(&model, &first).await.text, "[] []");
    let now = [user("Second"), tool_call("look"), result("seen"), user("And?")];
    let second = at(1, earlier().into_iter().chain(now));
    assert_eq!(reply_of(&model, &second).await.text, "[seen] [look]");
}

#[tokio::test]
async fn placeholders_are_replaced_once_in_texts_and_arguments() {
    let model = script(json!([
        {},
        {
            "text": "{{user}} {{ {{lastResult}} {{calls}}{{unknown}}",
            "calls": [{"name": "f", "arguments": {"{{user}}": ["{{user}}", 1, {"a": "<{{lastResult}}>"}]}}],
        },
    ]));
    let reply =
        reply_of(&model, &at(1, [user("{{calls}}"), tool_call("look"), result(json!({"n": 1}))])).await;
    assert_eq!(reply.text, "{{calls}} {{ {\"n\":1} look{{unknown}}");
    assert_eq!(reply.calls[0].arguments, json!({"{{user}}": ["{{calls}}", 1, {"a": "<{\"n\":1}>"}]}));
}

#[tokio::test]
async fn a_step_can_fail_or_wait() {
    let model = script(json!([
        {"error": "unavailable"}, {"error": "timeout", "delayMs": 20}, {"error": "overflow"}, {"error": "refused"},
        {"text": "Late.", "delayMs": 40},
    ]));
    for (step, code) in
        ["model_unavailable", "model_timeout", "context_overflow", "model_refused"].iter().enumerate()
    {
        let (reply, deltas) = ask(&model, &at(u32::try_from(step).unwrap(), [])).await;
        let failed: ModelError = reply.unwrap_err();
        assert_eq!((failed.code(), deltas.len()), (*code, 0));
    }
    let began = std::time::Instant::now();
    assert_eq!(reply_of(&model, &at(4, [])).await.text, "Late.");
    assert!(began.elapsed().as_millis() >= 40);
}

#[tokio::test]
async fn a_reply_can_be_split_into_pieces_with_a_delay_before_each() {
    let model = script(json!([{"pieces": ["To {{user}}", ": no"], "delayMs": 20}]));
    let began = std::time::Instant::now();
    let (reply, deltas) = ask(&model, &at(0, [user("Bob")])).await;
    assert_eq!(reply.unwrap().text, "To Bob: no");
    let texts = ["To ", "Bob", ": ", "no"].map(|text| ReplyDelta::Text(text.to_owned()));
    assert_eq!((deltas, began.elapsed().as_millis() >= 40), (texts.into(), true));
    assert!(!model.is_instant());
    assert!(script(json!([{"pieces": ["a"]}])).is_instant());
    let both = json!({"provider": "scripted", "steps": [{"text": "a", "pieces": ["a"]}]});
    let flaw = from_definition(&both, None, &local()).err().unwrap();
    assert_eq!(flaw.to_string(), "steps[0].pieces: cannot be combined with \"text\"");
}

#[tokio::test]
async fn a_script_can_be_a_file_in_the_folder_of_the_definition() {
    let folder = tempfile::tempdir().unwrap();
    let model = json!({"provider": "scripted", "file": "script.json"});
    for script in [json!([{"text": "Hi."}]), json!({"steps": [{"text": "Hi."}]})] {
        std::fs::write(folder.path().join("script.json"), script.to_string()).unwrap();
        let model = from_definition(&model, Some(folder.path()), &local()).unwrap();
        assert_eq!(ask(model.as_ref(), &prompt("x")).await.0.unwrap().text, "Hi.");
    }
    for (script, message) in [
        ("[", "is not valid JSON"),
        ("[{\"text\": \"a\", \"text\": \"b\"}]", "is not valid JSON"),
        ("[{\"txt\": \"a\"}]", "steps[0].txt: is not known"),
        ("{}", "steps: is missing"),
    ] {
        std::fs::write(folder.path().join("script.json"), script).unwrap();
        let flaw = from_definition(&model, Some(folder.path()), &local()).err().unwrap();
        assert_eq!(flaw.field, "file", "{script}");
        assert!(flaw.message.contains(message), "{script}: {flaw}");
    }
}
