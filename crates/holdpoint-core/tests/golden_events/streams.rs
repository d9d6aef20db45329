//! Golden lines of chunks that a model streams, of reasoning, of activities and of the metadata of answers.

use std::sync::Arc;

use holdpoint_core::agent::{Message, ReasoningPart, Role, Usage};
use holdpoint_core::{Event, InterruptId, RunId, RunParameters};
use serde_json::{Map, Value, json};

use super::starts::bare_start;
use super::{node, object};

pub(crate) fn events() -> Vec<Event> {
    let meta = |more: Value| {
        let mut meta = object(json!({"messageId": "reply-1", "attempt": 1, "index": 0}));
        meta.extend(object(more));
        meta
    };
    let reasoning = |chunk: &str, last, meta| Event::ReasoningChunk {
        node: node("a"),
        chunk: chunk.to_owned(),
        last,
        meta,
    };
    let call = |name: Option<&str>, chunk: &str| Event::ToolCallChunk {
        node: node("a"),
        call: "c1".to_owned(),
        name: name.map(str::to_owned),
        chunk: chunk.to_owned(),
        last: name.is_none(),
        meta: meta(json!({})),
    };
    let activity = |content, call: Option<&str>| Event::ActivityReported {
        node: node("a"),
        activity: "c1:progress".to_owned(),
        kind: "PROGRESS".to_owned(),
        content,
        call: call.map(str::to_owned),
    };
    vec![
        reasoning("First, ", false, meta(json!({"part": 0}))),
        reasoning("the sum.", true, Map::new()),
        call(Some("send"), "{\"to\":"),
        call(None, "\"bob\"}"),
        activity(object(json!({"progress": 1})), Some("c1")),
        activity(Map::new(), None),
        reply(),
        Event::InterruptResolved {
            id: InterruptId(1),
            value: json!({"action": "accept"}),
            by: "ada".to_owned(),
            decision: None,
            copied: false,
            vote: None,
            via: None,
            client_metadata: object(json!({"approver": "bob"})),
        },
        Event::VoteCast {
            interrupt: InterruptId(1),
            value: json!({"action": "accept"}),
            by: "ada".to_owned(),
            decision: None,
            copied: false,
            via: None,
            client_metadata: object(json!({"approver": "bob"})),
        },
        Event::RunStarted(Arc::new(RunParameters {
            thread: Some("t1".to_owned()),
            branch_of: Some(RunId::parse("r0").expect("a run id")),
            client_run: Some("run-2".to_owned()),
            ..bare_start()
        })),
    ]
}

fn reply() -> Event {
    let part = |text: &str, data: Value, shown| ReasoningPart {
        text: text.to_owned(),
        data,
        source: "anthropic:large".to_owned(),
        shown,
    };
    let mut message = Message::new("m4", Role::Assistant, "Done.");
    message.reasoning =
        vec![part("The sum.", json!({"signature": "sig"}), true), part("", json!({"encrypted": "x"}), false)];
    Event::ModelReplied {
        node: node("a"),
        message: Box::new(message),
        seen: 1,
        usage: Usage { input_tokens: 10, output_tokens: 2, reasoning_tokens: 1 },
        model: "large".to_owned(),
        took_ms: None,
        provider: false,
    }
}
