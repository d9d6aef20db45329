//! Conversations: they are opened, go on turn by turn, and are over when they are closed.

use holdpoint_core::{Command, Event, InterruptId, Kind, NodeStatus, Obligation, Request, Status};
use serde_json::{Value, json};

use crate::story::{Story, given, on};
use crate::words::*;

fn at(key: &str, kind: Kind, data: Value) -> Request {
    Request { key: Some(key.to_owned()), ..request(kind, data) }
}

fn open(key: &str, data: Value) -> Command {
    ask("gate", at(key, Kind::ConversationStart, data))
}

fn turn(key: &str, data: Value) -> Command {
    ask("gate", at(key, Kind::ConversationExchange, with(data, "prompt", json!("And?"))))
}

fn close(key: &str, data: Value) -> Command {
    ask("gate", at(key, Kind::ConversationClose, data))
}

fn begun() -> Story {
    given([start(), begin("gate")])
}

fn chatting() -> Story {
    begun().given([open("open", json!({"conversationId": "chat"}))])
}

/// Answered by the host itself.
fn answered(id: u32) -> Event {
    Event::InterruptResolved {
        id: InterruptId(id),
        value: Value::Null,
        by: "system:host".to_owned(),
        decision: None,
        via: None,
        copied: false,
        vote: None,
    }
}

#[test]
fn opening_returns_at_once_under_an_id_that_no_other_run_has() {
    let request = at("open", Kind::ConversationStart, json!({"conversationId": "chat", "title": "Chat"}));
    let mut shown = request.clone();
    shown.data["conversationId"] = json!("run-1:chat");
    let story = begun()
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
    let story = begun().given([open("one", json!({})), open("two", json!({}))]);
    let ids: Vec<&str> = story.run().conversations.iter().map(|known| known.id.as_str()).collect();
    assert_eq!(ids, ["run-1:1", "run-1:2"]);
}

#[test]
fn a_turn_waits_and_is_counted_by_the_host() {
    let story =
        chatting().given([turn("t0", json!({"conversationId": "chat"}))]).status_is(Status::WaitingApproval);
    let data = &story.interrupt_of("gate").expect("asked").data;
    assert_eq!(*data, json!({"conversationId": "run-1:chat", "prompt": "And?", "turnIndex": 0}));
    let story = story
        .when(answer(2, json!("yes")))
        .then([
            resolved(2, json!("yes")),
            Event::ConversationExchanged { interrupt: InterruptId(2) },
            resumed("gate", 2),
        ])
        .given([turn("t1", json!({}))]);
    assert_eq!(story.interrupt_of("gate").expect("asked").data["turnIndex"], 1);
}

#[test]
fn a_turn_that_brings_its_number_keeps_it_and_counting_goes_on_from_there() {
    let story =
        chatting().given([turn("t", json!({"turnIndex": 7})), answer(2, json!(1)), turn("u", json!({}))]);
    assert_eq!(story.interrupt_of("gate").expect("asked").data["turnIndex"], 8);
}

#[test]
fn what_is_said_must_be_what_the_outcome_schema_wants() {
    let wanted = json!({"outcomeSchema": {"type": "object", "required": ["score"]}});
    chatting()
        .given([turn("t", wanted)])
        .when(answer(2, json!({})))
        .refused_for("resumeValue")
        .status_is(Status::WaitingApproval)
        .when(answer(2, json!({"score": 3})))
        .accepted();
}

#[test]
fn closing_returns_at_once_and_nothing_follows() {
    let story = chatting().when(close("close", json!({"conversationId": "chat", "reason": "done"})));
    let mut shown = at("close", Kind::ConversationClose, json!({"conversationId": "chat", "reason": "done"}));
    shown.data["conversationId"] = json!("run-1:chat");
    let story = story.then([
        requested(2, "gate", shown),
        Event::ConversationClosed { interrupt: InterruptId(2) },
        answered(2),
    ]);
    let field = "data.conversationId: ";
    story.when(turn("t", json!({"conversationId": "chat"}))).failed_with("invalid_interrupt", field);
    for late in
        [turn("t", json!({})), close("again", json!({})), close("again", json!({"conversationId": "chat"}))]
    {
        chatting().given([close("close", json!({}))]).when(late).failed_with("invalid_interrupt", field);
    }
}

#[test]
fn an_id_is_used_once_in_a_run() {
    let again = || open("again", json!({"conversationId": "chat"}));
    let field = "data.conversationId: was used";
    chatting().when(again()).failed_with("invalid_interrupt", field);
    chatting().given([close("close", json!({}))]).when(again()).failed_with("invalid_interrupt", field);
    chatting().given([open("other", json!({"conversationId": "other"}))]).status_is(Status::Running);
    // Nor does a name that looks like an id lead to another's conversation.
    let story = begun().given([open("open", json!({}))]);
    story.when(open("again", json!({"conversationId": "run-1:1"}))).failed_with("invalid_interrupt", field);
}

#[test]
fn a_conversation_that_was_never_opened_has_no_turns() {
    for late in [turn("t", json!({})), turn("t", json!({"conversationId": "chat"})), close("c", json!({}))] {
        begun().when(late).failed_with("invalid_interrupt", "data.conversationId: is not a conversation");
    }
}

#[test]
fn a_conversation_is_not_closed_while_somebody_is_asked_in_it() {
    let story = on(left_and_right()).given([
        start(),
        begin("left"),
        ask("left", at("open", Kind::ConversationStart, json!({"conversationId": "chat"}))),
        ask("left", at("turn", Kind::ConversationExchange, json!({"prompt": "?"}))),
        begin("right"),
    ]);
    let closing = ask("right", at("close", Kind::ConversationClose, json!({"conversationId": "chat"})));
    story
        .when(closing)
        .failed_with("invalid_interrupt", "data.conversationId: a turn of the conversation still");
}

#[test]
fn the_same_key_opens_nothing_twice() {
    chatting()
        .when(open("open", json!({"conversationId": "chat"})))
        .refused(holdpoint_core::Refusal::NodeNotRunning);
}

#[test]
fn a_rehearsed_turn_is_answered_by_the_host_and_nobody_waits() {
    let rehearsed = Request {
        rehearsed: Some(json!("so be it")),
        timeout_ms: Some(5),
        ..at("t", Kind::ConversationExchange, json!({"prompt": "?"}))
    };
    let by = "system:host".to_owned();
    let shown = Request {
        timeout_ms: None,
        ..at(
            "t",
            Kind::ConversationExchange,
            json!({"prompt": "?", "conversationId": "run-1:chat", "turnIndex": 0}),
        )
    };
    chatting()
        .when(ask("gate", rehearsed))
        .then([
            requested(2, "gate", shown),
            suspended("gate", 2),
            Event::InterruptResolved {
                id: InterruptId(2),
                value: json!("so be it"),
                by,
                decision: None,
                via: None,
                copied: false,
                vote: None,
            },
            Event::ConversationExchanged { interrupt: InterruptId(2) },
            resumed("gate", 2),
        ])
        .next_is("enter gate");
    let data = json!({"prompt": "?", "outcomeSchema": {"type": "integer"}});
    let other = Request { rehearsed: Some(json!("so be it")), ..at("t", Kind::ConversationExchange, data) };
    chatting().when(ask("gate", other)).failed_with("invalid_interrupt", "data.outcomeSchema: ");
    let granted = Request { rehearsed: Some(json!({"action": "accept"})), ..approval() };
    begun().when(ask("gate", granted)).failed_with("invalid_interrupt", "kind: only turns");
}

#[test]
fn a_turn_in_which_nobody_speaks_is_no_exchange() {
    let timed =
        Request { timeout_ms: Some(10), ..at("t", Kind::ConversationExchange, json!({"prompt": "?"})) };
    chatting().given([ask("gate", timed)]).later(10).when(expire(2)).then([timed_out(2), resumed("gate", 2)]);
}

#[test]
fn requests_that_make_no_sense_fail_their_node() {
    for (field, command) in [
        ("data: ", open("k", json!("chat"))),
        ("data.conversationId: ", open("k", json!({"conversationId": ""}))),
        ("data.conversationId: ", open("k", json!({"conversationId": "x".repeat(257)}))),
        ("data.title: ", open("k", json!({"title": 5}))),
        ("data.prompt: ", ask("gate", at("k", Kind::ConversationExchange, json!({})))),
        ("data.turnIndex: ", turn("k", json!({"turnIndex": -1}))),
        ("data.outcomeSchema: ", turn("k", json!({"outcomeSchema": 5}))),
    ] {
        chatting().when(command).failed_with("invalid_interrupt", field);
    }
}
