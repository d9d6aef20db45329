//! Conversations: opening, exchanges and closing.

use holdpoint_core::{Command, Event, InterruptId, InterruptRequest, Kind, NodeStatus, Obligation, Status};
use serde_json::{Value, json};

use crate::story::{Story, given, on};
use crate::vocabulary::*;

fn at(key: &str, kind: Kind, data: Value) -> InterruptRequest {
    InterruptRequest { key: Some(key.to_owned()), ..request(kind, data) }
}

fn open(key: &str, data: Value) -> Command {
    ask("gate", at(key, Kind::ConversationStart, data))
}

fn exchange(key: &str, data: Value) -> Command {
    ask("gate", at(key, Kind::ConversationExchange, with(data, "prompt", json!("And?"))))
}

fn close(key: &str, data: Value) -> Command {
    ask("gate", at(key, Kind::ConversationClose, data))
}

fn node_begun() -> Story {
    given([start(), begin("gate")])
}

fn opened() -> Story {
    node_begun().given([open("open", json!({"conversationId": "chat"}))])
}

/// Returns the event of an answer by the host.
fn answered(id: u32) -> Event {
    Event::InterruptResolved {
        id: InterruptId(id),
        value: Value::Null,
        by: "system:host".to_owned(),
        decision: None,
        via: None,
        copied: false,
        client_metadata: serde_json::Map::new(),
        vote: None,
    }
}

#[test]
fn opening_a_conversation_returns_at_once_with_an_id_that_contains_the_run() {
    let request = at("open", Kind::ConversationStart, json!({"conversationId": "chat", "title": "Chat"}));
    let mut shown = request.clone();
    shown.data["conversationId"] = json!("run-1:chat");
    let story = node_begun()
        .when(ask("gate", request))
        .then([
            requested(1, "gate", shown),
            Event::ConversationOpened { interrupt: InterruptId(1), name: Some("chat".to_owned()) },
            answered(1),
        ])
        .obliges([Obligation::Activate])
        .status_is(Status::Running)
        .node_is("gate", &NodeStatus::Running)
        .next_is("enter gate");
    assert_eq!(story.run().conversation(Some("chat")).map(|known| known.id.as_str()), Some("run-1:chat"));
}

#[test]
fn a_conversation_without_a_name_gets_one() {
    let story = node_begun().given([open("one", json!({})), open("two", json!({}))]);
    let ids: Vec<&str> = story.run().conversations.iter().map(|known| known.id.as_str()).collect();
    assert_eq!(ids, ["run-1:1", "run-1:2"]);
}

#[test]
fn an_exchange_waits_and_is_numbered_by_the_host() {
    let story = opened()
        .given([exchange("t0", json!({"conversationId": "chat"}))])
        .status_is(Status::WaitingApproval);
    let data = &story.interrupt_of("gate").expect("an interrupt").data;
    assert_eq!(**data, json!({"conversationId": "run-1:chat", "prompt": "And?", "turnIndex": 0}));
    let story = story
        .when(answer(2, json!("yes")))
        .then([
            resolved(2, json!("yes")),
            Event::ConversationExchanged { interrupt: InterruptId(2) },
            resumed("gate", 2),
        ])
        .given([exchange("t1", json!({}))]);
    assert_eq!(story.interrupt_of("gate").expect("an interrupt").data["turnIndex"], 1);
}

#[test]
fn a_given_turn_index_is_kept_and_counting_continues_from_it() {
    let story = opened().given([
        exchange("t", json!({"turnIndex": 7})),
        answer(2, json!(1)),
        exchange("u", json!({})),
    ]);
    assert_eq!(story.interrupt_of("gate").expect("an interrupt").data["turnIndex"], 8);
}

#[test]
fn the_answer_to_an_exchange_must_match_its_outcome_schema() {
    let schema = json!({"outcomeSchema": {"type": "object", "required": ["score"]}});
    opened()
        .given([exchange("t", schema)])
        .when(answer(2, json!({})))
        .refused_for("resumeValue")
        .status_is(Status::WaitingApproval)
        .when(answer(2, json!({"score": 3})))
        .accepted();
}

#[test]
fn closing_a_conversation_returns_at_once_and_later_exchanges_are_refused() {
    let story = opened().when(close("close", json!({"conversationId": "chat", "reason": "done"})));
    let mut shown = at("close", Kind::ConversationClose, json!({"conversationId": "chat", "reason": "done"}));
    shown.data["conversationId"] = json!("run-1:chat");
    let story = story.then([
        requested(2, "gate", shown),
        Event::ConversationClosed { interrupt: InterruptId(2) },
        answered(2),
    ]);
    let field = "data.conversationId: ";
    story.when(exchange("t", json!({"conversationId": "chat"}))).failed_with("invalid_interrupt", field);
    for late in [
        exchange("t", json!({})),
        close("again", json!({})),
        close("again", json!({"conversationId": "chat"})),
    ] {
        opened().given([close("close", json!({}))]).when(late).failed_with("invalid_interrupt", field);
    }
}

#[test]
fn a_conversation_id_is_used_once_in_a_run() {
    let again = || open("again", json!({"conversationId": "chat"}));
    let field = "data.conversationId: was already used";
    opened().when(again()).failed_with("invalid_interrupt", field);
    opened().given([close("close", json!({}))]).when(again()).failed_with("invalid_interrupt", field);
    opened().given([open("other", json!({"conversationId": "other"}))]).status_is(Status::Running);
    // A name that looks like the id of another conversation is refused too.
    let story = node_begun().given([open("open", json!({}))]);
    story.when(open("again", json!({"conversationId": "run-1:1"}))).failed_with("invalid_interrupt", field);
}

#[test]
fn a_conversation_that_was_never_opened_has_no_exchanges() {
    for late in
        [exchange("t", json!({})), exchange("t", json!({"conversationId": "chat"})), close("c", json!({}))]
    {
        node_begun()
            .when(late)
            .failed_with("invalid_interrupt", "data.conversationId: does not name an open conversation");
    }
}

#[test]
fn a_conversation_with_an_open_exchange_cannot_be_closed() {
    let story = on(left_and_right()).given([
        start(),
        begin("left"),
        ask("left", at("open", Kind::ConversationStart, json!({"conversationId": "chat"}))),
        ask("left", at("turn", Kind::ConversationExchange, json!({"prompt": "?"}))),
        begin("right"),
    ]);
    let closing = ask("right", at("close", Kind::ConversationClose, json!({"conversationId": "chat"})));
    story.when(closing).failed_with(
        "invalid_interrupt",
        "data.conversationId: an exchange of the conversation is still open",
    );
}

#[test]
fn a_repeated_key_does_not_open_a_second_conversation() {
    opened()
        .when(open("open", json!({"conversationId": "chat"})))
        .refused(holdpoint_core::Refusal::NodeNotRunning);
}

#[test]
fn a_simulated_exchange_is_answered_by_the_host_at_once() {
    let simulated_exchange = InterruptRequest {
        simulated_answer: Some(json!("simulated")),
        timeout_ms: Some(5),
        ..at("t", Kind::ConversationExchange, json!({"prompt": "?"}))
    };
    let by = "system:host".to_owned();
    let shown = InterruptRequest {
        timeout_ms: None,
        ..at(
            "t",
            Kind::ConversationExchange,
            json!({"prompt": "?", "conversationId": "run-1:chat", "turnIndex": 0}),
        )
    };
    opened()
        .when(ask("gate", simulated_exchange))
        .then([
            requested(2, "gate", shown),
            suspended("gate", 2),
            Event::InterruptResolved {
                id: InterruptId(2),
                value: json!("simulated"),
                by,
                decision: None,
                via: None,
                copied: false,
                client_metadata: serde_json::Map::new(),
                vote: None,
            },
            Event::ConversationExchanged { interrupt: InterruptId(2) },
            resumed("gate", 2),
        ])
        .next_is("enter gate");
    let data = json!({"prompt": "?", "outcomeSchema": {"type": "integer"}});
    let other = InterruptRequest {
        simulated_answer: Some(json!("simulated")),
        ..at("t", Kind::ConversationExchange, data)
    };
    opened().when(ask("gate", other)).failed_with("invalid_interrupt", "data.outcomeSchema: ");
    let granted = InterruptRequest { simulated_answer: Some(json!({"action": "accept"})), ..approval() };
    node_begun().when(ask("gate", granted)).failed_with("invalid_interrupt", "kind: a simulated answer");
}

#[test]
fn an_expired_exchange_has_no_exchanged_event() {
    let timed = InterruptRequest {
        timeout_ms: Some(10),
        ..at("t", Kind::ConversationExchange, json!({"prompt": "?"}))
    };
    opened().given([ask("gate", timed)]).later(10).when(expire(2)).then([timed_out(2), resumed("gate", 2)]);
}

#[test]
fn invalid_conversation_requests_fail_their_node() {
    for (field, command) in [
        ("data: ", open("k", json!("chat"))),
        ("data.conversationId: ", open("k", json!({"conversationId": ""}))),
        ("data.conversationId: ", open("k", json!({"conversationId": "x".repeat(257)}))),
        ("data.title: ", open("k", json!({"title": 5}))),
        ("data.prompt: ", ask("gate", at("k", Kind::ConversationExchange, json!({})))),
        ("data.turnIndex: ", exchange("k", json!({"turnIndex": -1}))),
        ("data.outcomeSchema: ", exchange("k", json!({"outcomeSchema": 5}))),
    ] {
        opened().when(command).failed_with("invalid_interrupt", field);
    }
}
