//! Golden lines of agents: messages, replies and tool calls.

use holdpoint_core::agent::{Behaviour, CallRequest, CallStatus, Message, Role, ToolCallResumeMode, Usage};
use holdpoint_core::{Event, InterruptId, RunParameters};
use serde_json::json;

use super::starts::bare_start;
use super::{flow, node, object, run};

pub(super) fn events() -> Vec<Event> {
    let (interrupt, call) = (InterruptId(1), || "c1".to_owned());
    let mut reply = Message::new("m2", Role::Assistant, "I will.");
    reply.calls = vec![CallRequest { id: call(), name: "send".to_owned(), arguments: json!({"to": "bob"}) }];
    reply.after = Some("m1".to_owned());
    let replied = |message: &Message, took_ms| Event::ModelReplied {
        node: node("a"),
        message: Box::new(message.clone()),
        seen: 1,
        usage: Usage { input_tokens: 10, output_tokens: 2, ..Usage::default() },
        model: "small".to_owned(),
        took_ms,
        provider: false,
    };
    let mut at_provider = replied(&Message::new("m4", Role::Assistant, "Shown."), None);
    if let Event::ModelReplied { provider, .. } = &mut at_provider {
        *provider = true;
    }
    let called = |behaviour, why: Option<&str>| Event::ToolCalled {
        node: node("a"),
        call: call(),
        behaviour,
        why: why.map(str::to_owned),
        idempotent: false,
        client: false,
    };
    let mut message = Message::new("m1", Role::User, "Please.");
    message.by = Some("ada".to_owned());
    let mut events = vec![
        Event::RunStarted(std::sync::Arc::new(RunParameters {
            thread: Some("t1".to_owned()),
            ..bare_start()
        })),
        Event::MessageAdded { node: node("a"), message: Box::new(message) },
        replied(&reply, Some(7)),
        replied(&Message::new("m3", Role::Assistant, "Done."), None),
        at_provider,
        called(Behaviour::Allow, None),
        called(Behaviour::Ask, Some("send")),
        called(Behaviour::Deny, None),
        Event::ToolSuspended {
            node: node("a"),
            call: call(),
            interrupt,
            mode: ToolCallResumeMode::ReplayToolCall,
        },
        Event::ToolBegun { node: node("a"), call: call(), arguments: None, uses: Vec::new() },
        Event::ToolBegun {
            node: node("a"),
            call: call(),
            arguments: Some(json!({"to": "eve"})),
            uses: Vec::new(),
        },
        Event::ToolReturned {
            node: node("a"),
            call: call(),
            status: CallStatus::Succeeded,
            content: json!("sent"),
        },
    ];
    events.extend(waiting_events(interrupt));
    events
}

/// Returns events of an agent that waits for an answer or for the child run of a tool call.
fn waiting_events(interrupt: InterruptId) -> [Event; 4] {
    [
        Event::NodeSuspended { node: node("a"), interrupt, all: true },
        Event::InterruptResolved {
            id: interrupt,
            value: json!({"action": "accept"}),
            by: "ada".to_owned(),
            decision: Some("d1".to_owned()),
            via: None,
            copied: false,
            client_metadata: serde_json::Map::new(),
            vote: None,
        },
        Event::NodeDispatched {
            node: node("a"),
            child: run("r1.1"),
            workflow: flow(),
            inputs: object(json!({"to": "bob"})),
            wait: true,
            cascade: true,
            call: Some("c1".to_owned()),
        },
        Event::NodeAwaiting { node: node("a"), child: run("r1.1") },
    ]
}
