//! Boundary values of rules: the last value that is accepted and the first one that is refused.

use holdpoint_core::agent::{AgentAction, ChunkContent, Message, ReplyChunk, Role};
use holdpoint_core::{
    Answer, Command, Completion, Event, InterruptId, InterruptRequest, Kind, Principal, Refusal, Resolution,
    StartRequest, Status, TextChunk, digest, limits,
};
use serde_json::{Map, Value, json};

use crate::story::{Story, given, on};
use crate::vocabulary::*;

fn waiting_for(request: InterruptRequest) -> Story {
    given([start(), begin("gate"), ask("gate", request)])
}

fn governed() -> Story {
    waiting_for(approval_of(json!({
        "gateId": "g", "requiredRole": "release", "actions": ["accept", "reject"],
        "override": {"requiredRole": "owner", "audited": true},
    })))
}

fn names_of_last(story: &Story, events: usize) -> Vec<String> {
    let log = story.log();
    log[log.len() - events..].iter().map(|(_, event)| event.name().to_owned()).collect()
}

#[test]
fn a_denial_is_recorded_as_long_as_the_run_has_room_for_it() {
    let mallory = || answer_by(Principal::named("mallory"), 1, json!({"decision": "granted"}));
    let story = governed().when(mallory()).accepted();
    let Some((_, Event::AuthorizationDecided { by, reason, .. })) = story.log().last() else {
        panic!("not recorded")
    };
    let needed = by.len() + reason.len();
    governed().with_room(needed).when(mallory()).accepted();
    governed().with_room(needed - 1).when(mallory()).refused(Refusal::NotAuthorized(reason.clone()));
    governed().with_room(0).when(mallory()).refused(Refusal::NotAuthorized(reason.clone()));
}

#[test]
fn a_governed_gate_has_an_event_for_each_kind_of_decision() {
    let holder = |role: &str| Principal { roles: vec![role.to_owned()], ..Principal::named("bob") };
    for (role, decision, event) in [
        ("release", "granted", "approval.granted"),
        ("release", "rejected", "approval.rejected"),
        ("owner", "overridden", "approval.overridden"),
    ] {
        let value = json!({"decision": decision, "reason": "so"});
        let story = governed().when(answer_by(holder(role), 1, value)).accepted();
        assert_eq!(names_of_last(&story, 3), ["interrupt.resolved", event, "node.resumed"]);
    }
}

#[test]
fn repeated_decisions_that_are_not_objects_are_compared_for_equality() {
    let named = |value: Value| {
        let answer = Answer { decision: Some("d".to_owned()), ..Answer::new(value, ada()) };
        Command::Resolve { answers: [(InterruptId(1), answer)].into() }
    };
    let story = waiting_for(custom()).given([named(json!("blue"))]);
    let story = story.when(named(json!("blue"))).then([]);
    let story = story.when(named(json!("red"))).refused(Refusal::DecisionConflict("d".to_owned()));
    story.when(named(json!({}))).refused(Refusal::DecisionConflict("d".to_owned()));
}

#[test]
fn edits_can_be_offered_only_if_one_approval_is_required() {
    let gate =
        |required: u64| approval_of(json!({"actions": ["accept", "edit"], "requiredApprovals": required}));
    waiting_for(gate(1)).when(accept(1)).accepted();
    waiting_for(gate(2)).failed_with("invalid_interrupt", "data.actions[1]");
}

#[test]
fn tags_of_a_refinement_are_strings() {
    let refined = |tags: Value| {
        let feedback = json!({"scope": "whole", "tags": tags});
        waiting_for(approval_of(json!({"actions": ["refine"]})))
            .when(answer(1, json!({"action": "refine", "refineFeedback": feedback})))
    };
    refined(json!(["tone", "length"])).accepted();
    refined(json!(["tone", 1])).refused_for("resumeValue.refineFeedback.tags");
    refined(json!("tone")).refused_for("resumeValue.refineFeedback.tags");
}

#[test]
fn a_clarification_without_approvers_is_answered_in_the_name_of_the_sender() {
    let questions = json!([{"id": "q", "question": "How many?"}]);
    let value = json!({"answers": {"q": "3"}, "voter": "eve"});
    waiting_for(request(Kind::Clarification, json!({"questions": questions})))
        .when(answer(1, value.clone()))
        .accepted();
    let listed = json!({"questions": questions, "approversList": ["ada", "eve"]});
    waiting_for(request(Kind::Clarification, listed))
        .when(answer(1, value))
        .refused(Refusal::MayNotActFor("eve".to_owned()));
}

#[test]
fn a_plain_entry_of_a_list_may_be_a_name_or_a_role() {
    let listed = json!({"actions": ["accept"], "approversList": ["ada", "role:boss"]});
    let lists = |story: &Story, name: &str| {
        story.interrupt_of("gate").expect("an interrupt").lists_without_prefix(name)
    };
    let story = waiting_for(approval_of(listed));
    assert_eq!(
        ["ada", "bob", "boss", "role:boss"].map(|name| lists(&story, name)),
        [true, false, false, false]
    );
    // The lists apply to every kind that waits for a person.
    let story = waiting_for(request(Kind::Custom, json!({"customKind": "x", "approversList": ["ada"]})));
    assert!(lists(&story, "ada"));
}

#[test]
fn the_other_named_principal_of_an_answer_is_never_its_sender() {
    let named = |value: Value| Answer::new(value, ada()).other_named_principal().map(str::to_owned);
    assert_eq!(named(json!({"action": "accept"})), None);
    assert_eq!(named(json!({"voter": "ada", "decidedBy": "ada"})), None);
    assert_eq!(named(json!({"voter": "eve"})), Some("eve".to_owned()));
    assert_eq!(named(json!({"voter": "ada", "decidedBy": "bob"})), Some("bob".to_owned()));
}

#[test]
fn stored_data_is_compared_with_the_digest_of_the_request() {
    let shown = |digest: Option<String>| {
        let Event::InterruptRequested { id, node, kind, key, data, .. } = requested(1, "gate", approval())
        else {
            panic!("a request")
        };
        let stored = Event::InterruptRequested {
            id,
            node,
            kind,
            key,
            data,
            resume_schema: None,
            timeout_ms: None,
            digest,
        };
        given([started(), node_started("gate"), stored])
            .interrupt_of("gate")
            .expect("an interrupt")
            .data_matches_digest()
    };
    assert!(shown(Some(digest(&approval().data))));
    assert!(!shown(Some(digest(&json!({})))));
    assert!(shown(None), "requests of older versions have no digest");
}

fn complete_with_room(completion: Completion, room: usize) -> Story {
    given([start(), begin("gate")]).with_room(room).when(complete("gate", completion)).accepted()
}

#[test]
fn outputs_of_a_node_may_fill_the_run_and_not_exceed_it() {
    let text = "x".repeat(40);
    let variables = || Completion { variables: vec![("v".to_owned(), json!(text))], ..Completion::default() };
    complete_with_room(variables(), text.len() + 2).next_is("begin after");
    complete_with_room(variables(), text.len() + 1).failed_with("output_too_large", "");
    let chunk = || TextChunk { text: text.clone(), meta: Map::new() };
    let chunks = || Completion { chunks: vec![chunk()], ..Completion::default() };
    complete_with_room(chunks(), text.len() + 2).next_is("begin after");
    complete_with_room(chunks(), text.len() + 1).failed_with("output_too_large", "");
}

#[test]
fn a_declared_variable_accepts_values_of_its_type_and_null() {
    let declared = json!({"name": "n", "type": "number"});
    for (value, status) in
        [(json!(2), Status::Completed), (json!(null), Status::Completed), (json!("x"), Status::Failed)]
    {
        let flow = workflow_with([node("gate")], [], [declared.clone()]);
        let variables = vec![("n".to_owned(), value)];
        on(flow)
            .given([start_with(json!({"n": 1})), begin("gate")])
            .when(complete("gate", Completion { variables, ..Completion::default() }))
            .accepted()
            .status_is(status);
    }
}

#[test]
fn a_conversation_can_be_closed_while_another_waits() {
    let at = |key: &str, kind: Kind, data: Value| with_key(key, request(kind, data));
    let named = |name: &str| json!({"conversationId": name, "prompt": "And?"});
    let story = on(left_and_right()).given([
        start(),
        begin("left"),
        ask("left", at("a", Kind::ConversationStart, json!({"conversationId": "a"}))),
        ask("left", at("b", Kind::ConversationStart, json!({"conversationId": "b"}))),
        ask("left", at("turn", Kind::ConversationExchange, named("b"))),
        begin("right"),
    ]);
    let close =
        |name: &str| ask("right", at("close", Kind::ConversationClose, json!({"conversationId": name})));
    let story = story.when(close("a")).accepted();
    assert_eq!(story.run().conversation(Some("a")).map(|known| known.closed_by.is_some()), Some(true));
    story
        .when(ask("right", at("close2", Kind::ConversationClose, json!({"conversationId": "b"}))))
        .accepted()
        .failed_with(
            "invalid_interrupt",
            "data.conversationId: an exchange of the conversation is still open",
        );
}

fn streaming() -> Story {
    let messages = Some(Box::new((node_id("gate"), vec![Message::new("u1", Role::User, "please")])));
    on(gate_then_after()).given([
        Command::Start(Box::new(StartRequest { messages, ..start_request(json!({})) })),
        begin("gate"),
    ])
}

fn reply_chunk(index: u32, text: &str, last: bool) -> ReplyChunk {
    let end = last.then(Map::new);
    let content = ChunkContent::Text { text: text.to_owned(), end };
    ReplyChunk { message: "m".to_owned(), attempt: 1, index, content }
}

fn recorded(story: Story, reply_chunk: ReplyChunk) -> Option<(String, bool)> {
    let known = story.log().len();
    let act =
        Command::Act { node: node_id("gate"), actions: vec![AgentAction::Stream(Box::new(reply_chunk))] };
    let story = story.when(act).accepted();
    let Some((_, Event::MessageChunk { chunk, meta, .. })) = story.log().get(known) else { return None };
    Some((chunk.clone(), meta.contains_key("incomplete")))
}

#[test]
fn a_stream_chunk_is_recorded_only_if_the_reply_still_fits() {
    let text = "x".repeat(40);
    let meta = serde_json::to_string(&reply_chunk(0, &text, false).meta()).expect("JSON").len();
    let needed = 2 * limits::STEP_RESULT_BYTES_MAX + text.len() + meta;
    let at = |room: usize, last: bool| recorded(streaming().with_room(room), reply_chunk(0, &text, last));
    assert_eq!(at(needed, false), Some((text.clone(), false)));
    assert_eq!(at(needed - 1, false), None);
    // The last chunk is recorded without text and marked as incomplete.
    assert_eq!(at(needed - 1, true), Some((String::new(), true)));
    assert_eq!(at(needed + 100, true), Some((text.clone(), false)));
    // A chunk above the limit is not recorded, even if the run has room for it.
    let most = "x".repeat(limits::STEP_RESULT_BYTES_MAX);
    assert_eq!(recorded(streaming(), reply_chunk(0, &most, false)), Some((most.clone(), false)));
    assert_eq!(recorded(streaming(), reply_chunk(0, &format!("{most}x"), false)), None);
}

#[test]
fn a_stream_chunk_after_a_gap_is_marked_as_incomplete() {
    assert_eq!(recorded(streaming(), reply_chunk(1, "b", false)), Some(("b".to_owned(), true)));
    let first = Command::Act {
        node: node_id("gate"),
        actions: vec![AgentAction::Stream(Box::new(reply_chunk(0, "a", false)))],
    };
    assert_eq!(
        recorded(streaming().given([first]), reply_chunk(1, "b", false)),
        Some(("b".to_owned(), false))
    );
}

#[test]
fn blank_and_too_long_thread_ids_are_refused() {
    let start = |thread: &str| {
        Command::Start(Box::new(StartRequest { thread: Some(thread.to_owned()), ..start_request(json!({})) }))
    };
    let long = "ü".repeat(limits::THREAD_CHARS_MAX);
    for thread in ["t", long.as_str()] {
        on(gate_then_after()).when(start(thread)).accepted();
    }
    for thread in ["", "  ", &format!("{long}x"), &format!("{long}xx")] {
        on(gate_then_after()).when(start(thread)).refused_for("threadId");
    }
}

#[test]
fn the_answer_to_a_side_question_may_be_as_long_as_a_question() {
    let story = waiting_for(approval_of(json!({"actions": ["accept", "ask"]})));
    let long = "ü".repeat(limits::ASK_CHARS_MAX);
    let story = story.when(answer(1, json!({"action": "ask", "question": long}))).accepted();
    let (interrupt, by) = (InterruptId(1), Principal::named("bob"));
    story.when(Command::AnswerSideQuestion { interrupt, ask: 1, answer: long, by }).accepted();
}

#[test]
fn assignees_include_the_requirements_of_governed_gates_only() {
    let shown =
        |story: &Story| story.interrupt_of("gate").expect("an interrupt").assignees(&["ada"]).entries();
    assert_eq!(shown(&governed()), ["role:release", "role:owner"]);
    let question = json!([{"id": "q", "question": "How many?"}]);
    let data = json!({"questions": question, "approversList": ["bob"], "requiredRole": "release"});
    assert_eq!(shown(&waiting_for(request(Kind::Clarification, data))), ["bob"]);
    let open = json!({"questions": question, "requiredRole": "release"});
    assert_eq!(shown(&waiting_for(request(Kind::Clarification, open))), Vec::<String>::new());
}

#[test]
fn conversation_ids_and_turn_indexes_are_limited() {
    let node_begun = || given([start(), begin("gate")]);
    let open = |id: &str| ask("gate", request(Kind::ConversationStart, json!({"conversationId": id})));
    let long = "ü".repeat(limits::CONVERSATION_ID_CHARS_MAX);
    node_begun().given([open(&long)]).next_is("enter gate");
    node_begun().given([open(&format!("{long}x"))]).failed_with("invalid_interrupt", "data.conversationId");
    let turn = |index: u64| {
        let data = json!({"conversationId": "c", "prompt": "And?", "turnIndex": index});
        node_begun()
            .given([open("c"), ask("gate", with_key("turn", request(Kind::ConversationExchange, data)))])
    };
    turn(limits::TURNS_MAX).status_is(Status::WaitingApproval);
    turn(limits::TURNS_MAX + 1).failed_with("invalid_interrupt", "data.turnIndex");
    turn(limits::TURNS_MAX + 2).failed_with("invalid_interrupt", "data.turnIndex");
}

#[test]
fn a_governed_gate_records_its_decision_for_each_action() {
    let holder =
        Principal { roles: ["release", "owner"].map(str::to_owned).into(), ..Principal::named("bob") };
    for (action, decision) in [("accept", "granted"), ("reject", "rejected"), ("override", "overridden")] {
        let value = json!({"action": action, "reason": "so"});
        let story = governed().when(answer_by(holder.clone(), 1, value)).accepted();
        let Some(Resolution::Answered { value, .. }) =
            &story.interrupt_of("gate").expect("an interrupt").resolution
        else {
            panic!("open")
        };
        assert_eq!((&value["action"], &value["decision"]), (&json!(action), &json!(decision)));
    }
}

#[test]
fn a_stored_governed_gate_without_requirements_admits_no_principal() {
    let data = json!({
        "artifactId": "a", "artifactType": "t", "title": "?", "actions": ["accept"], "gateId": "g",
    });
    let stored = requested(1, "gate", request(Kind::Approval, data));
    let story = given([started(), node_started("gate"), stored, suspended("gate", 1)]);
    let story = story.when(answer(1, json!({"decision": "granted"}))).accepted();
    assert!(story.interrupt_of("gate").expect("an interrupt").is_open());
    assert_eq!(names_of_last(&story, 1), ["authorization.decided"]);
}

#[test]
fn approvers_of_a_governed_gate_may_answer_its_side_questions() {
    let gate = json!({
        "gateId": "g", "requiredRole": "release", "actions": ["accept", "ask"],
    });
    let holder = |name: &str| Principal { roles: vec!["release".to_owned()], ..Principal::named(name) };
    let question = answer_by(holder("bob"), 1, json!({"action": "ask", "question": "Why?"}));
    let story = waiting_for(approval_of(gate)).when(question).accepted();
    let reply = |by: Principal| Command::AnswerSideQuestion {
        interrupt: InterruptId(1),
        ask: 1,
        answer: "So.".to_owned(),
        by,
    };
    let story = story
        .when(reply(Principal::named("mallory")))
        .refused(Refusal::MayNotAnswerSideQuestion("mallory".to_owned()));
    let open =
        |story: &Story| story.interrupt_of("gate").expect("an interrupt").open_side_questions().count();
    assert_eq!(open(&story), 1);
    assert_eq!(open(&story.when(reply(holder("eve"))).accepted()), 0);
}

#[test]
fn empty_keys_empty_custom_kinds_and_too_long_keys_are_refused() {
    let long = "ü".repeat(limits::INTERRUPT_KEY_CHARS_MAX);
    waiting_for(with_key(&long, approval())).status_is(Status::WaitingApproval);
    for key in ["", &format!("{long}x")] {
        waiting_for(with_key(key, approval())).failed_with("invalid_interrupt", "key");
    }
    for kind in [json!(""), json!(7), json!(null)] {
        waiting_for(request(Kind::Custom, json!({"customKind": kind})))
            .failed_with("invalid_interrupt", "data.customKind");
    }
    waiting_for(request(Kind::Custom, json!({"customKind": "c"}))).status_is(Status::WaitingInput);
}

#[test]
fn three_kinds_are_parts_of_a_conversation() {
    let parts = Kind::ALL.into_iter().filter(|kind| kind.is_of_conversation()).map(Kind::as_str);
    assert_eq!(
        parts.collect::<Vec<_>>(),
        ["conversation.start", "conversation.exchange", "conversation.close"]
    );
}

#[test]
fn an_excerpt_shows_the_artifact_or_the_arguments_of_a_call() {
    let excerpt =
        |data: Value| waiting_for(approval_of(data)).interrupt_of("gate").expect("an interrupt").excerpt();
    let shown = json!({"arguments": {"to": "bob"}, "name": "send"});
    let artifact = excerpt(json!({"actions": ["accept"], "artifactData": shown}));
    assert_eq!(artifact.as_deref(), Some(r#"arguments: {to: "bob"}, name: "send""#));
    let call = excerpt(json!({"actions": ["accept"], "artifactType": "tool.call", "artifactData": shown}));
    assert_eq!(call.as_deref(), Some(r#"to: "bob""#));
    assert_eq!(excerpt(json!({"actions": ["accept"]})), None);
}
