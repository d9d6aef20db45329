//! Parsing of replies, for streams and documents that are split at any byte.

use holdpoint_agents::model::{FinishReason, ModelReply, ReplyDelta, unparsed_arguments};
use holdpoint_engine::core::agent::{CallRequest, Usage};
use serde_json::{Value, json};

use crate::models::fake_endpoint::{DONE, FakeEndpoint, Turn, ask, ends, event, piece, prompt};

async fn reply_to(turn: Turn) -> (ModelReply, Vec<ReplyDelta>) {
    let endpoint = FakeEndpoint::with([turn]).await;
    let (reply, deltas) = ask(&endpoint.model(), &prompt("hello")).await;
    assert_eq!(endpoint.requests().len(), 1, "a valid reply is requested once");
    (reply.unwrap(), deltas)
}

fn text(deltas: &[ReplyDelta]) -> String {
    let texts = deltas.iter().filter_map(|delta| match delta {
        ReplyDelta::Text(text) => Some(text.as_str()),
        ReplyDelta::Reasoning { .. } | ReplyDelta::Call { .. } | ReplyDelta::Restarted => None,
    });
    texts.collect()
}

fn call(id: &str, name: &str, arguments: Value) -> CallRequest {
    CallRequest { id: id.to_owned(), name: name.to_owned(), arguments }
}

fn call_delta(index: u64, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    let function = json!({"name": name, "arguments": arguments});
    json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
}

#[tokio::test]
async fn a_stream_yields_deltas_and_then_text_and_usage() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3}});
    let turn = Turn::stream([
        piece(json!({"role": "assistant", "content": ""})),
        piece(json!({"content": "Good "})),
        piece(json!({"content": "morning."})),
        ends("stop"),
        event(&usage),
        DONE.to_owned(),
    ]);
    let (reply, deltas) = reply_to(turn).await;
    let expected = ModelReply {
        text: "Good morning.".to_owned(),
        usage: Usage { input_tokens: 12, output_tokens: 3, ..Usage::default() },
        model: "small-2".to_owned(),
        ..ModelReply::default()
    };
    assert_eq!(reply, expected);
    assert_eq!(deltas, [ReplyDelta::Text("Good ".to_owned()), ReplyDelta::Text("morning.".to_owned())]);
}

#[tokio::test]
async fn a_stream_is_parsed_independently_of_chunks_and_line_ends() {
    let stream = [
        ": hello\n\n".to_owned(),
        piece(json!({"content": "Grüße, "})),
        ": keep-alive\n\n".to_owned(),
        "event: message\nid: 7\nretry: 10\n".to_owned() + &piece(json!({"content": "😀€"})),
        ends("stop"),
        DONE.to_owned(),
    ]
    .concat();
    for line_end in ["\n", "\r\n", "\r"] {
        let stream = stream.replace('\n', line_end);
        for size in [1, 2, 3, 7, 64, 100_000] {
            let (reply, deltas) = reply_to(Turn::stream(stream.as_bytes().chunks(size))).await;
            assert_eq!(reply.text, "Grüße, 😀€", "{line_end:?} in pieces of {size}");
            assert_eq!(text(&deltas), reply.text);
        }
    }
}

#[tokio::test]
async fn parallel_calls_are_assembled_by_their_index() {
    let turn = Turn::stream([
        piece(json!({"content": "Let me see."})),
        piece(call_delta(0, Some("c1"), Some("weather"), "")),
        piece(call_delta(1, Some("c2"), Some("mail"), "{\"to\":")),
        piece(call_delta(0, None, None, "{\"in\": \"B")),
        piece(call_delta(1, None, None, " \"a@b\"}")),
        piece(call_delta(0, None, None, "erlin\"}")),
        ends("tool_calls"),
        DONE.to_owned(),
    ]);
    let (reply, deltas) = reply_to(turn).await;
    assert_eq!(reply.finish, FinishReason::Calls);
    assert_eq!(
        reply.calls,
        [call("c1", "weather", json!({"in": "Berlin"})), call("c2", "mail", json!({"to": "a@b"}))]
    );
    let first = ReplyDelta::Call {
        index: 1,
        id: Some("c2".to_owned()),
        name: Some("mail".to_owned()),
        arguments: "{\"to\":".to_owned(),
    };
    let later = ReplyDelta::Call { index: 1, id: None, name: None, arguments: " \"a@b\"}".to_owned() };
    assert_eq!((&deltas[2], &deltas[4]), (&first, &later));
}

#[tokio::test]
async fn calls_with_nonstandard_indexes_are_parsed() {
    let one = |index: Value, id: Value, name: &str, arguments: Value| {
        let function = json!({"name": name, "arguments": arguments});
        piece(json!({"tool_calls": [{"index": index, "id": id, "function": function}]}))
    };
    let (a, b) = (call("a", "f", json!({"n": 1})), call("b", "g", json!({"n": 2})));
    let table = [
        (
            "every call has index 0",
            vec![
                one(json!(0), json!("a"), "f", json!("{\"n\": 1}")),
                one(json!(0), json!("b"), "g", json!("{\"n\": 2}")),
            ],
        ),
        (
            "no call has an index",
            vec![
                one(Value::Null, json!("a"), "f", json!("{\"n\": 1}")),
                one(Value::Null, json!("b"), "g", json!("{\"n\": 2}")),
            ],
        ),
        (
            "id and name come in every piece",
            vec![
                one(json!(3), json!("a"), "f", json!("{\"n\"")),
                one(json!(3), json!("a"), "f", json!(": 1}")),
                one(json!(9), json!("b"), "g", json!("{\"n\": 2}")),
            ],
        ),
        (
            "arguments are an object",
            vec![
                one(json!(0), json!("a"), "f", json!({"n": 1})),
                one(json!(1), json!("b"), "g", json!({"n": 2})),
            ],
        ),
    ];
    for (what, mut pieces) in table {
        pieces.extend([ends("stop"), DONE.to_owned()]);
        let (reply, _) = reply_to(Turn::stream(pieces)).await;
        assert_eq!(reply.calls, [a.clone(), b.clone()], "{what}");
        assert_eq!(reply.finish, FinishReason::Calls, "{what}");
    }
}

#[tokio::test]
async fn arguments_that_are_not_an_object_are_kept_unparsed() {
    for (written, reason, expected) in [
        ("{\"a\": 1}", "tool_calls", Ok(json!({"a": 1}))),
        ("", "tool_calls", Ok(json!({}))),
        ("  ", "stop", Ok(json!({}))),
        ("", "length", Err("")),
        ("{\"a\": 1", "tool_calls", Err("{\"a\": 1")),
        ("{\"a\": 1", "length", Err("{\"a\": 1")),
        ("{\"a\": 1} {\"b\": 2}", "tool_calls", Err("{\"a\": 1} {\"b\": 2}")),
        ("{\"to\": \"a\", \"to\": \"b\"}", "tool_calls", Err("{\"to\": \"a\", \"to\": \"b\"}")),
        ("[1]", "tool_calls", Err("[1]")),
        ("null", "tool_calls", Err("null")),
        ("rm -rf", "tool_calls", Err("rm -rf")),
    ] {
        let turn = Turn::stream([
            piece(call_delta(0, Some("c"), Some("f"), written)),
            ends(reason),
            DONE.to_owned(),
        ]);
        let (reply, _) = reply_to(turn).await;
        let arguments = &reply.calls[0].arguments;
        match expected {
            Ok(value) => assert_eq!((arguments, unparsed_arguments(arguments)), (&value, None), "{written}"),
            Err(text) => assert_eq!(unparsed_arguments(arguments), Some(text), "{written}"),
        }
    }
}

#[tokio::test]
async fn a_reply_at_its_token_limit_has_the_finish_reason_length() {
    let (reply, _) =
        reply_to(Turn::stream([piece(json!({"content": "and th"})), ends("length"), DONE.to_owned()])).await;
    assert_eq!((reply.text.as_str(), reply.finish), ("and th", FinishReason::Length));
}

#[tokio::test]
async fn a_reply_can_be_a_json_document() {
    let calls =
        json!([{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"n\":1}"}}]);
    let message = json!({"role": "assistant", "content": "Hm.", "tool_calls": calls});
    let document = json!({
        "model": "small-3",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11},
    });
    let bytes = format!("\n {document}");
    for size in [1, 10, 100_000] {
        let turn = Turn::answer(200, &[("content-type", "application/json")], bytes.as_bytes().chunks(size));
        let (reply, deltas) = reply_to(turn).await;
        assert_eq!((reply.text.as_str(), reply.model.as_str()), ("Hm.", "small-3"));
        assert_eq!(reply.calls, [call("c1", "f", json!({"n": 1}))]);
        assert_eq!(reply.usage, Usage { input_tokens: 5, output_tokens: 6, ..Usage::default() });
        assert_eq!((text(&deltas).as_str(), deltas.len()), ("Hm.", 2));
    }
}

#[tokio::test]
async fn a_complete_reply_is_accepted_despite_errors_after_it() {
    let complete = || [piece(json!({"content": "Yes."})), ends("stop")];
    let half = piece(json!({"content": "Yes."})) + &ends("stop") + "data: {\"choi";
    let table = [
        ("no [DONE]", Turn::stream(complete())),
        ("no [DONE], and the connection breaks", Turn::stream(complete()).cut()),
        ("nonsense follows", Turn::stream([complete().concat(), "data: {oops}\n\n".to_owned()])),
        ("nonsense follows at once", Turn::stream([complete().concat() + "data: {oops}\n\n"])),
        ("an error follows", Turn::stream([complete().concat() + "data: {\"error\": \"late\"}\n\n"])),
        ("half an event follows", Turn::stream([half])),
        ("[DONE] without a reason", Turn::stream([piece(json!({"content": "Yes."})), DONE.to_owned()])),
        (
            "[DONE] without its empty line",
            Turn::stream([piece(json!({"content": "Yes."})), "data: [DONE]".to_owned()]),
        ),
        (
            "[DONE], and the connection stays open",
            Turn::stream([piece(json!({"content": "Yes."})), DONE.to_owned()]).silent(),
        ),
        (
            "parts",
            Turn::stream([
                piece(json!({"content": [{"type": "text", "text": "Ye"}, {"type": "text", "text": "s."}]})),
                ends("stop"),
            ]),
        ),
        (
            "other choices",
            Turn::stream([
                event(
                    &json!({"choices": [{"index": 1, "delta": {"content": "No."}, "finish_reason": "stop"}]}),
                ),
                complete().concat(),
            ]),
        ),
    ];
    for (what, turn) in table {
        let (reply, _) = reply_to(turn).await;
        assert_eq!((reply.text.as_str(), reply.finish), ("Yes.", FinishReason::Stop), "{what}");
    }
}
